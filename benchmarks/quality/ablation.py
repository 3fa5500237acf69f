"""``python -m benchmarks.quality.ablation``: what each part of the learner without parameters contributes.

One part is left out at a time. The losses are compared with those of the whole learner, and with those of the rivals'
best settings in hindsight. The tasks are binary and regression tasks, in one order for large data sets and in three for
the others.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy import sparse

from benchmarks.quality.data import DATASETS, LOSSES, Case, Source, Task, cases
from benchmarks.quality.loss import progressive_loss
from benchmarks.quality.record import Record
from benchmarks.quality.summary import geometric_mean, lines
from benchmarks.run import chosen
from benchmarks.table import Grid, write_region
from giftrl.mixtures import MixtureLearner

__all__ = ["PARTS", "main", "without"]

#: A data set of more rows than this is run in one order only.
LARGE = 20_000


def without(learner: MixtureLearner, *beginnings: str) -> MixtureLearner:
    """The learner without the experts whose names begin with any of ``beginnings``.

    >>> [name for name, _, _ in without(MixtureLearner(2), "curvature", "adagrad", "full").experts]
    ['coin betting']
    """
    mixing = learner.mixing
    names = learner.expert_names
    for r in [r for r, name in enumerate(names) if name and name.startswith(beginnings)]:
        mixing.totals[r] = math.inf
        mixing.stack[r] = 0.0
        mixing.inverse[r, :] = mixing.inverse[:, r] = 0.0
    mixing.stack[:] /= mixing.stack.sum()
    if "full matrix".startswith(beginnings):
        learner.matrix.size[0] = -1
    return learner


def timid(learner: MixtureLearner) -> MixtureLearner:
    """The learner without bold candidates."""
    learner.pieces = learner.pieces._replace(bold=1.0)
    learner.mixing.candidates[2:] = math.inf
    return learner


Make = Callable[..., MixtureLearner]
#: The part that is left out, and a function that makes the learner without it.
PARTS: dict[str, Make] = {
    "nothing": MixtureLearner,
    "bold candidates": lambda *args, **more: timid(MixtureLearner(*args, **more)),
    "curvature experts": lambda *args, **more: without(MixtureLearner(*args, **more), "curvature"),
    "AdaGrad experts": lambda *args, **more: without(MixtureLearner(*args, **more), "adagrad"),
    "coin betting": lambda *args, **more: without(MixtureLearner(*args, **more), "coin"),
    "full matrix": lambda *args, **more: without(MixtureLearner(*args, **more), "full"),
    "half of the experts (light)": lambda *args, **more: MixtureLearner(*args, preset="light", **more),
}


def predictions(make: Make, case: Case, loss: str) -> NDArray[np.float64]:
    """The predictions of one pass."""
    width = case.x.shape[1]
    rows: Any = sparse.csr_matrix(sparse.hstack([case.x, np.ones((len(case.y), 1))]))
    return make(width + 1, loss, constant=width).learn(rows, case.y)


def losses_of(make: Make, data: list[Case]) -> dict[Task, dict[str, float]]:
    """The losses, by task and order."""
    losses: dict[Task, dict[str, float]] = {}
    for case in data:
        for name in LOSSES[case.kind]:
            loss = progressive_loss(predictions(make, case, name), case.y, name)
            losses.setdefault(Task(case.dataset, name, case.scaling), {})[case.order] = loss
    return losses


def read(sources: Sequence[Source]) -> list[Case]:
    """Every case of these data sets, in memory."""
    data = []
    for source in sources:
        data += [case for case in cases(source) if len(case.y) <= LARGE or case.order in ("0", "own")]
    return data


def grid(all_losses: dict[str, dict[Task, dict[str, float]]]) -> Grid:
    """A table with a row for each part."""
    runs = Record().runs
    whole = lines(all_losses["nothing"], runs)
    rows = []
    for part, losses in all_losses.items():
        table = lines(losses, runs)
        against_whole = [a.ours / b.ours for a, b in zip(table, whole, strict=True)]
        best = [reached.ratio for line in table if (reached := line.best()) is not None]
        worst = max(zip(against_whole, (str(line.task) for line in table), strict=True))
        rows.append([
            part, f"{geometric_mean(against_whole):.3f}", f"{worst[0]:.2f} {worst[1]}", f"{geometric_mean(best):.3f}",
            f"{max(best):.3f}",
        ])  # fmt: skip
    title = f"What each part contributes: losses without it, {len(whole)} tasks, geometric means"
    header = ["without", "against the whole", "worst task", "against the best rival", "worst"]
    return Grid(title, header, rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.ablation", description=__doc__)
    parser.add_argument("--tasks", default="*", help="data sets or patterns, with commas")
    parser.add_argument("--out", type=Path, help="a Markdown page whose ablation region is replaced")
    options = parser.parse_args(argv)
    console = Console()
    names = [name for name in DATASETS if DATASETS[name].kind != "multiclass" and name != "covtype"]
    sources = [DATASETS[name] for name in chosen("tasks", options.tasks, names)]
    for source in sources:
        if (reason := source.unavailable()) is not None:
            raise SystemExit(f"error: {source.name}: {reason}")
    data = read(sources)
    losses: dict[str, dict[Task, dict[str, float]]] = {}
    for part, make in PARTS.items():
        with console.status(f"without {part}"):
            losses[part] = losses_of(make, data)
    table = grid(losses)
    console.print(table.rich())
    if options.out is not None:
        write_region(options.out, "ablation", table.markdown())


if __name__ == "__main__":
    main()
