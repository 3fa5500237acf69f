"""``python -m benchmarks.quality.passes``: the loss on new rows after one pass and after several.

Data sets with a test file of their own are tested on it; others are split at random, seven parts to learn and three to
test. Every number is the mean over the seeds, which decide the split and the order.
"""

import ast
import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.quality.data import DATASETS, LOSSES, SEEDS, Source
from benchmarks.quality.table import geometric_mean
from benchmarks.table import PATTERNS, Grid, chosen, parse, publish, replaced, wide_console
from giftrl.config.predictor import clip_as_in_training, losses_of
from giftrl.linear import FTRLClassifier, FTRLRegressor

PASSES = (1, 2, 5)
#: Data sets with a file of rows to test on.
TESTED = {"a9a": "a9a.t.gz", "reuters": "reuters_lasvm.t.gz"}
#: No more rows than this are learnt from and tested on, so that the table is made in minutes.
MOST = 60_000
#: A smaller ratio counts as this in the means: a loss of nearly 0 that becomes 0 is not all there is.
LEAST = 0.1

Data = tuple[Any, NDArray[np.float64], str]


class Split(NamedTuple):
    """Rows and labels to learn from, and others to test on."""

    x: Any
    y: NDArray[np.float64]
    new_x: Any
    new_y: NDArray[np.float64]
    kind: str


def clicks(rows: int = 40_000) -> Data:
    """A click log: ten fields of 10 to 300,000 values, a few of them frequent and most of them rare."""
    rng = np.random.default_rng(0)
    score, columns, first = np.full(rows, -1.2), [], 0
    sizes = (10, 30, 50, 200, 1_000, 5_000, 20_000, 100_000, 100_000, 300_000)
    for size, spread in zip(sizes, (0.3, 0.3, 0.4, 0.5, 0.5, 0.5, 0.5, 0.4, 0.3, 0.2), strict=True):
        frequencies = 1.0 / np.arange(1, size + 1) ** 1.1
        values = rng.choice(size, size=rows, p=frequencies / frequencies.sum())
        score += rng.normal(scale=spread, size=size)[values]
        columns.append(first + values)
        first += size
    indices = np.column_stack(columns).reshape(-1)
    x = sparse.csr_matrix((np.ones(len(indices)), indices, np.arange(rows + 1) * len(columns)), (rows, first))
    return x, np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-score)), 1.0, -1.0), "binary"


def texts() -> Data:
    """The first paragraphs of the docstrings of scikit-learn (+1) and of SciPy (-1), words hashed to 2^18 features."""
    from sklearn.feature_extraction.text import HashingVectorizer

    found: dict[str, float] = {}
    for package, label in (("sklearn", 1.0), ("scipy", -1.0)):
        folder = Path(import_module(package).__file__ or "").parent
        for path in sorted(folder.rglob("*.py")):
            if "tests" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node)):
                    found.setdefault(text.split("\n\n")[0], label)
    vectorizer = HashingVectorizer(n_features=1 << 18, alternate_sign=False, norm=None)
    return vectorizer.transform(list(found)), np.array(list(found.values())), "binary"


#: Data that is made here.
MADE: dict[str, Callable[[], Data]] = {"clicks": clicks, "texts": texts}
SPARSE = ("clicks", "texts", "rcv1_vw_small", "criteo_tiny", "reuters")
NAMES = [
    *SPARSE,
    *(each.name for each in DATASETS.values() if not each.sequential and each.name not in (*SPARSE, "covtype")),
]


def split(name: str, seed: int) -> Split:
    """A data set, split by a seed."""
    rng = np.random.default_rng(seed)
    if name in MADE:
        x, y, kind = MADE[name]()
    else:
        kind = DATASETS[name].kind
        x, y, _ = DATASETS[name].read()
    order = rng.permutation(len(y))[:MOST]
    if name in TESTED:
        new_x, new_y, _ = Source(f"{name}.t", TESTED[name], kind).read()
        width = max(x.shape[1], new_x.shape[1])
        x, new_x = (sparse.csr_matrix((z.data, z.indices, z.indptr), (z.shape[0], width)) for z in (x, new_x))
        return Split(x[order], y[order], new_x, new_y, kind)
    first, rest = np.split(order, [int(0.7 * len(order))])
    return Split(x[first], y[first], x[rest], y[rest], kind)


def loss_on_new_rows(data: Split, loss: str, passes: int, step: int = 1) -> tuple[float, int]:
    """The mean loss on the rows to test on, and how many passes were kept; ``step`` is -1 for the opposite order."""
    data = data._replace(x=data.x[::step], y=data.y[::step])
    narrow = data.x.shape[1] <= 100  # faster dense
    x, new_x = (rows.toarray() if narrow else rows for rows in (data.x, data.new_x))
    if data.kind == "regression":
        model = FTRLRegressor(loss, passes=passes, shuffle=False).fit(x, data.y)
        scores = model.predict(new_x)[:, None]
    else:
        model = FTRLClassifier("softmax" if loss == "log" else loss, passes=passes, shuffle=False).fit(x, data.y)
        scores = model.decision_function(new_x)
    learners = model._model.learners
    found = losses_of(learners[0].loss, clip_as_in_training(learners, scores), data.new_y)
    losses = model.validation_losses_
    return float(found.mean()), int(np.argmin(losses)) + 1 if losses else passes


def measure(name: str, loss: str, seeds: int) -> list[list[float]]:
    """A row for each seed: the losses after each number of passes, that of one pass in the opposite order, passes kept.

    The last is about the largest number of passes.
    """
    rows = []
    for seed in range(seeds):
        data = split(name, seed)
        found = [loss_on_new_rows(data, loss, passes) for passes in PASSES]
        other, _ = loss_on_new_rows(data, loss, 1, step=-1)
        rows.append([*(each for each, _ in found), other, float(found[-1][1])])
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse(
        argv, "benchmarks.quality.passes", __doc__, tasks=("*", PATTERNS + ", ".join(NAMES)),
        seeds=(len(SEEDS), f"how many splits ({len(SEEDS)})"), out=replaced("passes"),
    )  # fmt: skip
    console = wide_console()
    rows, ratios = [], {}
    for name in chosen("tasks", options.tasks, NAMES):
        if name not in MADE and not os.environ.get("GIFTRL_DATA"):
            console.print(f"{name} skipped: {DATASETS[name].unavailable()}")
            continue
        for loss in LOSSES["binary" if name in MADE else DATASETS[name].kind]:
            mean = np.mean(measure(name, loss, options.seeds), axis=0)
            ratio = mean[1:-1] / mean[0]
            ratios[name, loss] = ratio
            rows.append([f"{name} {loss}", f"{mean[0]:.4g}", *(f"{each:.3f}" for each in ratio), f"{mean[-1]:.1f}"])
            console.print(*rows[-1], highlight=False)
    smooth = ("logistic", "log", "squared")
    groups = {
        "sparse": [ratio for (name, _), ratio in ratios.items() if name in SPARSE],
        "others": [ratio for (name, _), ratio in ratios.items() if name not in SPARSE],
        "logistic, softmax and squared losses": [ratio for (_, loss), ratio in ratios.items() if loss in smooth],
        "all": list(ratios.values()),
    }
    for group, found in groups.items():
        if found:
            columns = [[max(each, LEAST) for each in column] for column in zip(*found, strict=True)]
            means = (f"{geometric_mean(column):.3f}" for column in columns)
            rows.append([f"**{group}**: geometric mean", "", *means, ""])
            rows.append([f"**{group}**: worst", "", *(f"{max(column):.3f}" for column in zip(*found, strict=True)), ""])
    relative = (f"{passes} passes, relative" for passes in PASSES[1:])
    heads = ["task", "loss after 1 pass", *relative, "1 pass in another order", "passes kept of 5"]
    table = Grid("The loss on new rows, after several passes relative to one", heads, rows)
    made = "Made by `GIFTRL_DATA=... python -m benchmarks.quality.passes --out docs/no-tuning.md`."
    publish(console, [table], options.out, "passes", origin=made)


if __name__ == "__main__":
    main()
