"""``python -m benchmarks``: time one pass of every solver over each data set, and print a table of ratios."""

import argparse
import fnmatch
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.datasets import DATASETS
from benchmarks.solvers import SOLVERS
from benchmarks.solvers.river_models import SAMPLE
from benchmarks.table import Grid, asked_grid, machine, ratio_grid, write_region
from benchmarks.timing import Result, measure
from giftrl.errors import GiftrlError, UnknownName, require

__all__ = ["main"]

NOTES = """\
Times are medians of {repetitions} repetitions after a warm-up. All solvers take turns in one process.

- spread: the slowest time minus the fastest, divided by the median.
- entry: a nonzero of a sparse matrix, or a number of a dense one.
- floor: a bare compiled loop that makes a dot product and an update for each row. The unsigned floor is faster, because
  it need not check the sign of an index.
- learning alone: for giftrl, the compiled loop; for Vowpal Wabbit, half the difference between three passes and one;
  for River, `learn_one` without the prediction. Ratios to rivals use the smaller of their two times.
- loss: the mean logistic loss of predictions made before each label was used; of several models, that of the best one.
- River: the first {sample:,} rows, extrapolated to all rows; its loss is that of these rows.
"""


def chosen(argument: str, wanted: str, known: Sequence[str]) -> list[str]:
    """The known names that match any of the patterns.

    >>> chosen("solvers", "floor*,vw", ["floor", "floor-unsigned", "linear", "vw"])
    ['floor', 'floor-unsigned', 'vw']
    """
    patterns = [pattern.strip() for pattern in wanted.split(",")]
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise UnknownName(argument, pattern, known)
    return [name for name in known if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--datasets", default="*", help=f"names or patterns, separated by commas: {', '.join(DATASETS)}"
    )
    parser.add_argument("--solvers", default="*", help=f"names or patterns, separated by commas: {', '.join(SOLVERS)}")
    parser.add_argument("--repetitions", type=int, default=5, help="how many times each solver is timed (5)")
    parser.add_argument("--quick", action="store_true", help="use small data, to see that it works, not how fast it is")
    parser.add_argument("--out", type=Path, help="a Markdown page whose region asked is replaced")
    parser.add_argument("--tables", type=Path, help="a Markdown page whose region bench is replaced")
    return parser.parse_args(argv)


def bench(options: argparse.Namespace, console: Console) -> None:
    """Measure, print the tables, and write the page."""
    require(options.repetitions >= 1, "repetitions", options.repetitions, "must be at least 1", "5 is the default")
    datasets = [DATASETS[name] for name in chosen("datasets", options.datasets, list(DATASETS))]
    solvers = [SOLVERS[key] for key in chosen("solvers", options.solvers, list(SOLVERS))]
    skipped: list[str] = []
    grids: list[Grid] = []
    rows: dict[str, int] = {}
    every: dict[str, list[Result]] = {}
    for dataset in datasets:
        reason = dataset.unavailable()
        if reason is not None:
            skipped.append(f"{dataset.name} skipped: {reason}")
            console.print(skipped[-1], "", markup=False)
            continue
        with console.status(f"{dataset.name}: loading") as status:
            data = dataset.load(options.quick)
            results = measure(data, solvers, options.repetitions, status.update)
        grids.append(ratio_grid(data, results))
        console.print(grids[-1].rich(), "")
        rows[data.name], every[data.name] = data.rows, results
        for result in results:
            if result.skipped is not None:
                skipped.append(f"{result.name} skipped on {data.name}: {result.skipped}")
                console.print(skipped[-1], markup=False)
    first = asked_grid(rows, every)
    notes = NOTES.format(repetitions=options.repetitions, sample=SAMPLE)
    if options.quick:
        notes = "Quick: small data, so times mean nothing. " + notes
    where = f"Measured on {machine()}."
    console.print(first.rich(), "")
    console.print(notes, where, markup=False)
    if options.out is not None:
        write_region(options.out, "asked", f"{where}\n\n{first.markdown()}")
    if options.tables is not None:
        parts = [where, notes.strip(), *skipped, *(grid.markdown() for grid in grids)]
        write_region(options.tables, "bench", "\n\n".join(parts))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; a bad option gives a one-line message, not a traceback."""
    options = arguments(argv)
    console = Console()
    if not console.is_terminal:
        console.width = 160  # wide enough that no table is cut when it goes to a file
    try:
        bench(options, console)
    except GiftrlError as problem:
        raise SystemExit(f"error: {problem}") from None
