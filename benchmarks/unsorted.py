"""What it costs that rows do not name their features in order.

    python -m benchmarks.unsorted --out docs/performance.md

One pass over the same rows, sorted and shuffled. SciPy looks at a new matrix once to know whether it is sorted; an
unsorted one is searched for features named twice, and then used as it is. Sorting it first would be the alternative.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rcv1_like import rcv1_like
from benchmarks.table import Grid, publish, wide_console
from giftrl.kernels import LinearLearner
from giftrl.mixtures import MixtureLearner

__all__ = ["main", "measure", "shuffled"]

ROWS, REPETITIONS = 100_000, 15
LEARNERS: dict[str, Callable[[int], Any]] = {"squared norm, proximal": LinearLearner, "default": MixtureLearner}
COLUMNS = ("sorted, known to be", "sorted", "unsorted", "unsorted, sorted first")


def shuffled(x: Any) -> Any:
    """The same matrix with the entries of each row in random order.

    >>> x, _ = rcv1_like(100, 500)
    >>> mixed = shuffled(x)
    >>> bool(mixed.has_sorted_indices), float(abs(mixed - x).max())
    (False, 0.0)
    """
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    order = np.lexsort([np.random.default_rng(0).random(x.nnz), rows])
    return type(x)((x.data[order], x.indices[order], x.indptr), shape=x.shape)


def _new(x: Any) -> Any:
    """A matrix with the same arrays, of which SciPy knows nothing."""
    return type(x)((x.data, x.indices, x.indptr), shape=x.shape)


def _sorted(x: Any) -> Any:
    x = x.copy()
    x.sum_duplicates()
    return x


def measure(rows: int, repetitions: int) -> dict[str, list[float]]:
    """For each learner, the milliseconds of one pass in the order of :data:`COLUMNS`: medians of turns.

    >>> [len(times) for times in measure(100, 1).values()]
    [4, 4]
    """
    x, y = rcv1_like(rows)
    mixed = shuffled(x)
    ways: list[Callable[[], Any]] = [lambda: x, lambda: _new(x), lambda: _new(mixed), lambda: _sorted(_new(mixed))]
    times: dict[str, list[list[float]]] = {name: [[] for _ in ways] for name in LEARNERS}
    for turn in range(repetitions + 1):
        for name, make in LEARNERS.items():
            for way, taken in zip(ways, times[name], strict=True):
                learner = make(x.shape[1])
                begin = time.perf_counter()
                learner.learn(way(), y)
                if turn > 0:  # the first one is a warm-up
                    taken.append(1e3 * (time.perf_counter() - begin))
    return {name: [statistics.median(taken) for taken in every] for name, every in times.items()}


def grid(times: dict[str, list[float]]) -> Grid:
    """A table of times and their ratios to the first one."""
    rows = [
        [name, f"{every[0]:,.1f}", *(f"{each:,.1f} ({each / every[0]:.2f})" for each in every[1:])]
        for name, every in times.items()
    ]
    return Grid("Milliseconds of a pass, and the ratio to that over sorted rows", ["learner", *COLUMNS], rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write it into a page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unsorted", description=__doc__)
    parser.add_argument("--out", type=Path, help="a Markdown page whose unsorted region is replaced")
    parser.add_argument("--quick", action="store_true", help="use few rows, to see that it works, not how fast it is")
    options = parser.parse_args(argv)
    made = grid(measure(1000, 1) if options.quick else measure(ROWS, REPETITIONS))
    publish(wide_console(), [made], options.out, "unsorted")


if __name__ == "__main__":
    main()
