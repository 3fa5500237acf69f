"""``python -m benchmarks.quality.workers``: what learning with several workers costs in loss.

Each data set of at least 5,000 rows is split, four parts to learn and one to test, three times: at random; or in the
order of the file, where the last fifth comes after what is learnt, and the splits leave out different tenths of that. A
table has the loss of W workers over that of one learner: on new rows, and in the course of learning. More workers than
cores are simulated: the bits are those of as many cores.

One worker learns the first rows (:mod:`giftrl.workers.planner`), and small data sets end with these. The last column
is of workers among which rows are split sooner, after 100 rows for each.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy import sparse

from benchmarks.quality.data import DATASETS, Source
from benchmarks.quality.table import geometric_mean
from benchmarks.rcv1_like import rcv1_like
from benchmarks.table import Grid, parse, replaced, write_region
from giftrl.config import Recipe, make
from giftrl.config.predictor import losses_of
from giftrl.workers.planner import FIRST_ROWS_PER_WORKER
from giftrl.workers.threads import Team

Array = NDArray[np.float64]
WORKERS = (2, 4, 16, 64)
#: How many workers there are in the last column.
SOONER = 16
ORDERS = ("shuffled", "in order")
LOSSES = {"binary": "logistic", "regression": "squared", "multiclass": "softmax"}
#: How many rows are drawn like rcv1's: what merges get wrong may show only after many of them.
DRAWN = (125_000, 600_000)
#: Data sets with fewer rows have no line.
FEWEST = 5_000


class Case(NamedTuple):
    """A data set: its rows with a constant feature, its labels, and the kind of these."""

    name: str
    x: Any
    y: Array
    kind: str
    classes: int | None


def cases(names: Sequence[str] = ()) -> Iterator[Case]:
    """The data sets that are there and large enough; those like rcv1 are drawn."""
    for name, source in DATASETS.items():
        if not isinstance(source, Source) or source.unavailable() or (any(names) and name not in names):
            continue
        x, y, classes = source.read()
        if len(y) >= FEWEST:
            yield Case(name, with_constant(x), y, source.kind, classes)
    for rows in DRAWN:
        if not any(names) or "rcv1_like" in names:
            x, y = rcv1_like(rows)
            yield Case(f"rcv1_like, {rows:,} rows", with_constant(x), y, "binary", None)


def with_constant(x: Any) -> Any:
    """The rows with a last feature that is 1, in float64."""
    return sparse.hstack([x.astype(np.float64), np.ones((x.shape[0], 1))]).tocsr()


def mean_loss(learner: Any, scores: Array, y: Array) -> float:
    """The mean loss of scores, as they count in the course of learning."""
    clipped = np.asarray(learner.clip(scores))
    columns = (clipped, y) if learner.classes else (clipped[:, None], y[:, None])
    return float(losses_of(learner.loss, *columns).mean())


def run(
    case: Case, workers: int, train: NDArray[np.int64], test: NDArray[np.int64], first: int | None = None
) -> tuple[float, float]:
    """The loss on new rows, and that in the course of learning; ``first`` rows are learnt by one worker."""
    d = case.x.shape[1]
    learner = make(Recipe(LOSSES[case.kind]), d, case.classes, constant=d - 1)
    x, y = case.x[train], case.y[train]
    y = y.astype(np.int64) if case.classes else y
    if workers == 1:
        made = learner.learn(x, y)
    else:
        with Team(learner, workers, first=first) as team:
            made = team.learn(x, y)
            team.finish()
    return mean_loss(learner, learner.predict(case.x[test]), case.y[test]), mean_loss(learner, made, case.y[train])


def split(n: int, order: str, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows to learn from and those to test on.

    >>> split(10, "in order", 0)
    (array([0, 1, 2, 3, 4, 5, 6, 7]), array([8, 9]))
    """
    random = np.random.default_rng(seed)
    if order == "in order":
        before = n - n // 5
        return np.sort(random.permutation(before)[before // 10 :]), np.arange(before, n)
    rows = random.permutation(n)
    return rows[n // 5 :], rows[: n // 5]


def ratios(case: Case, order: str, seeds: int, workers: Sequence[int]) -> list[tuple[float, float]]:
    """Both losses of each number of workers over those of one learner: geometric means over the seeds."""
    settings = [*((w, None) for w in workers), (SOONER, FIRST_ROWS_PER_WORKER * SOONER)]
    found: list[list[tuple[float, float]]] = [[] for _ in settings]
    for seed in range(seeds):
        train, test = split(len(case.y), order, seed)
        alone = run(case, 1, train, test)
        for k, (w, first) in enumerate(settings):
            own = run(case, w, train, test, first)
            found[k].append((own[0] / alone[0], own[1] / alone[1]))
    return [(geometric_mean([a for a, _ in each]), geometric_mean([b for _, b in each])) for each in found]


def page(lines: dict[tuple[str, str], list[tuple[float, float]]], workers: Sequence[int], seeds: int) -> str:
    """The tables, and what was reached."""
    heads = [*(f"W = {w}" for w in workers), f"W = {SOONER}, sooner"]
    parts = [f"Geometric means over {seeds} splits: loss on new rows / in the course of learning."]
    for order in ORDERS:
        chosen = ((name, found) for (name, own), found in lines.items() if own == order)
        rows = [[name, *(f"{test:.3f} / {made:.3f}" for test, made in found)] for name, found in chosen]
        parts.append(Grid(f"Rows {order}", ["data set", *heads], rows).markdown())
    worst = []
    for order in ORDERS:
        mine = ((name, found) for (name, own), found in lines.items() if own == order)
        value, name, w = max((x[0], name, w) for name, found in mine for w, x in zip(workers, found, strict=False))
        worst.append(f"{value:.3f} with rows {order} ({name}, W = {w})")
    parts.append(f"The largest of all on new rows: {', '.join(worst)}.")
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the table."""
    given = parse(
        arguments, "benchmarks.quality.workers", __doc__, out=replaced("workers"), workers=(list(WORKERS), "numbers"),
        datasets=([""], "the names of data sets; default: all"), seeds=(3, "how many splits"),
    )  # fmt: skip
    console, lines = Console(stderr=True, width=120), {}
    for case in cases(given.datasets):
        for order in ORDERS:
            lines[case.name, order] = ratios(case, order, given.seeds, given.workers)
            shown = "  ".join(f"{a:.4f}/{b:.4f}" for a, b in lines[case.name, order])
            console.print(f"{case.name} {order}: {shown}")
    made = page(lines, given.workers, given.seeds)
    print(made)
    if given.out is not None:
        write_region(given.out, "workers", made)


if __name__ == "__main__":
    main()
