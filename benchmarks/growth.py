"""How the cost of a nonzero grows with the number of rows, nonzeros, features, and models in one pass.

    python -m benchmarks.growth --out docs/performance.md

One number varies at a time; the others are 20,000 rows of 64 nonzeros among 65,536 features by Zipf's law. Each learner
makes one pass before it is timed, so that the first access to its memory does not count. The results are medians of
three repetitions, in which the learners take turns.
"""

import functools
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.datasets import Data
from benchmarks.rcv1_like import draw_features
from benchmarks.solvers import floors
from benchmarks.solvers.ours import One
from benchmarks.table import Grid, parse, publish, replaced, wide_console

REPETITIONS = 3
COLOURS = {"floor, unsigned indices": "grey", "squared norm, proximal": "#4c72b0", "curvature, proximal": "#55a868"}


class Point(NamedTuple):
    """One size of the problem."""

    rows: int = 20_000
    nonzeros: int = 64
    features: int = 2**16
    law: str = "Zipf"
    models: int = 1

    def data(self) -> Data:
        """Rows with that many nonzeros and norms of about 1, and random labels."""
        rng = np.random.default_rng(0)
        law = {} if self.law == "Zipf" else {"exponent": 0.0, "offset": 0.0}
        indptr, indices = draw_features(rng, np.full(self.rows, self.nonzeros), self.features, **law)
        values = (rng.standard_normal(len(indices)) / np.sqrt(self.nonzeros)).astype(np.float32)
        x = sparse.csr_matrix((values, indices, indptr), shape=(self.rows, self.features))
        x.has_canonical_format = True
        return Data("growth", "growth", x, np.where(rng.random(self.rows) < 0.5, 1.0, -1.0))


def sweeps(quick: bool = False) -> dict[str, list[Point]]:
    """The points of each sweep, in order. With ``quick`` they are small, to see that the benchmark works.

    >>> {what: len(points) for what, points in sweeps().items()}
    {'rows': 5, 'nonzeros a row': 7, 'features, Zipf': 8, 'features, uniform': 8, 'models': 6}
    """
    size = 100 if quick else 1
    base = Point(rows=20_000 // size)
    nonzeros = (1, 4, 16, 64, 256, 512, 1000)
    features = [2**k for k in range(10, 16 if quick else 25, 2)]
    return {
        "rows": [base._replace(rows=n // size, nonzeros=32) for n in (10_000, 31_600, 100_000, 316_000, 1_000_000)],
        "nonzeros a row": [base._replace(rows=1_500_000 // size // max(n, 4), nonzeros=n) for n in nonzeros],
        "features, Zipf": [base._replace(features=d) for d in features],
        "features, uniform": [base._replace(features=d, law="uniform") for d in features],
        "models": [base._replace(models=m) for m in (1, 2, 4, 8, 16, 32)],
    }


def _varying(what: str, point: Point) -> int:
    return {"rows": point.rows, "nonzeros a row": point.nonzeros, "models": point.models}.get(what, point.features)


def _passes(data: Data, models: int) -> dict[str, Callable[[], Any]]:
    """A function for each learner that makes one more pass with it."""
    w: NDArray[np.float32] = np.zeros(data.dimension, np.float32)

    def by_floor() -> float:
        return float(floors.sparse_unsigned(data.x.indptr, data.x.indices, data.x.data, data.y, w))

    passes: dict[str, Callable[[], Any]] = {"floor, unsigned indices": by_floor} if models == 1 else {}
    for regularizer in ("squared_norm", "curvature"):
        solver = One(regularizer, "proximal", models)
        solver.prepare(data)
        name = f"{regularizer.replace('_', ' ')}, proximal"
        passes[name] = functools.partial(solver.learner().learn, data.x, data.y)
    return passes


def measure(point: Point) -> dict[str, float]:
    """The nanoseconds for each nonzero and model, by learner.

    >>> sorted(measure(Point(rows=100, features=1000)))
    ['curvature, proximal', 'floor, unsigned indices', 'squared norm, proximal']
    """
    data = point.data()
    passes = _passes(data, point.models)
    for one_pass in passes.values():
        one_pass()
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(REPETITIONS):
        for name, one_pass in passes.items():
            begin = time.perf_counter()
            one_pass()
            seconds[name].append(time.perf_counter() - begin)
    work = data.entries * point.models
    return {name: 1e9 * statistics.median(times) / work for name, times in seconds.items()}


def grid(costs_by_sweep: dict[str, list[tuple[int, dict[str, float]]]]) -> Grid:
    """A table of all points."""
    rows = [
        [what, f"{value:,}", *(f"{costs[name]:.3g}" if name in costs else "-" for name in COLOURS)]
        for what, points in costs_by_sweep.items()
        for value, costs in points
    ]
    return Grid("Nanoseconds for each nonzero and model", ["varies", "value", *COLOURS], rows)


def draw(costs_by_sweep: dict[str, list[tuple[int, dict[str, float]]]], path: Path) -> None:
    """Draw a panel for each number that varies."""
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "giftrl"  # equal figures give equal files
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 4, figsize=(13.0, 3.4), layout="constrained", sharey=True)
    for what, points in costs_by_sweep.items():
        panel, _, law = what.partition(", ")
        axes = panels[["rows", "nonzeros a row", "features", "models"].index(panel)]
        for name, colour in COLOURS.items():
            line = [(value, costs[name]) for value, costs in points if name in costs]
            # The floor has one model, so its single dot is there for comparison.
            style = "o--" if law == "uniform" else "o-"
            label = name if what == "rows" else None
            axes.plot(*zip(*line, strict=True), style, color=colour, label=label, markersize=4, linewidth=1.6)
        axes.set(xscale="log", yscale="log", xlabel=panel + (" (Zipf; dashed: uniform)" if law else ""))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("ns for each nonzero and model")
    panels[0].legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the table, and draw the figure."""
    options = parse(
        argv, "benchmarks.growth", __doc__, out=replaced("growth"),
        figure=(Path("docs/figures/growth.svg"), "the file of the figure"),
        quick=(False, "use small sizes, to see that it works, not how fast it is"),
    )  # fmt: skip
    console = wide_console()
    measured: dict[str, list[tuple[int, dict[str, float]]]] = {}
    with console.status("") as status:
        for what, points in sweeps(options.quick).items():
            for point in points:
                status.update(f"{what}: {_varying(what, point):,}")
                measured.setdefault(what, []).append((_varying(what, point), measure(point)))
    draw(measured, options.figure)
    publish(console, [grid(measured)], options.out, "growth")


if __name__ == "__main__":
    main()
