"""``python -m benchmarks``: time one pass of every solver over each data set, and print a table of ratios."""

from collections.abc import Sequence

from benchmarks.datasets import DATASETS
from benchmarks.solvers import SOLVERS
from benchmarks.solvers.rivals import SAMPLE
from benchmarks.table import (
    PATTERNS,
    Grid,
    asked_grid,
    chosen,
    machine,
    one_line_errors,
    parse,
    ratio_grid,
    replaced,
    wide_console,
    write_region,
)
from benchmarks.timing import Result, measure
from giftrl.errors import require

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


@one_line_errors()
def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the tables, and write the pages; a bad option gives a message of one line, not a traceback."""
    options = parse(
        argv, "benchmarks", __doc__,
        datasets=("*", PATTERNS + ", ".join(DATASETS)), solvers=("*", PATTERNS + ", ".join(SOLVERS)),
        repetitions=(5, "how many times each solver is timed (5)"),
        quick=(False, "use small data, to see that it works, not how fast it is"),
        out=replaced("asked"), tables=replaced("bench"),
    )  # fmt: skip
    console = wide_console()
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


if __name__ == "__main__":
    main()
