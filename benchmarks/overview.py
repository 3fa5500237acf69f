"""The first tables of the page: what users ask, and the targets, over all data sets."""

from collections.abc import Mapping

from benchmarks.table import Grid
from benchmarks.targets import checks
from benchmarks.timing import Result

__all__ = ["ANSWERS", "asked_grid", "target_grid"]

#: What users ask for, and the solvers that answer; of several, the quickest.
ANSWERS: dict[str, tuple[str, ...]] = {
    "giftrl, nothing chosen (default)": ("auto-default",),
    "giftrl, nothing chosen, `light`": ("auto-light",),
    "giftrl, one model: curvature, proximal": ("curvature-proximal",),
    "giftrl, one model: squared norm, linear": ("squared_norm-linear",),
    "giftrl, 16 models in one pass: curvature, truncated": ("curvature-truncated-16",),
    "Vowpal Wabbit, from its cache": ("vw",),
    "scikit-learn's SGD": ("sklearn-float32", "sklearn-float64"),
    "River": ("river",),
}


def asked_grid(rows: Mapping[str, int], results: Mapping[str, list[Result]]) -> Grid:
    """Microseconds that a row takes to learn, by data set, and the loss. For rivals, the smaller of their two times.

    >>> from benchmarks.solvers import Timing
    >>> found = [Result("auto-default", "", loss=0.25, timings=[Timing(2.0)]), Result("vw", "", timings=[Timing(3.0)])]
    >>> for row in asked_grid({"a9a": 1000000}, {"a9a": found}).rows: print(row)
    ['giftrl, nothing chosen (default)', '2.00', '0.2500']
    ['Vowpal Wabbit, from its cache', '3.00', '-']
    """
    made = []
    for name, keys in ANSWERS.items():
        cells = []
        for data, found in results.items():
            timed = [result for result in found if result.key in keys and result.timings]
            best = min(timed, key=lambda result: result.kinder, default=None)
            mine = name.startswith("giftrl")
            seconds = None if best is None else best.seconds if mine else best.kinder
            cells.append("-" if seconds is None else f"{1e6 * seconds / rows[data]:.2f}")
            cells.append("-" if best is None or best.loss is None else f"{best.loss:.4f}")
        if any(cell != "-" for cell in cells):
            made.append([name, *cells])
    columns = ["to learn a row", *(title for data in results for title in (f"{data}, us", "loss"))]
    return Grid("Microseconds a row, and the progressive loss", columns, made)


def target_grid(results: Mapping[str, list[Result]]) -> Grid:
    """Every target, the ratio that was measured on each data set, and whether all of them reach it.

    >>> from benchmarks.solvers import Timing
    >>> found = [Result(key, key, timings=[Timing(t)]) for key, t in (("auto-default", 2.0), ("vw", 3.0))]
    >>> target_grid({"a9a": found, "covtype": found}).rows
    [['vw', 'auto-default', '>= 1', '1.50', '1.50', 'yes']]
    """
    found = {data: {(c.what, c.against, c.target): c for c in checks(data, every)} for data, every in results.items()}
    keys = dict.fromkeys(key for by_key in found.values() for key in by_key)
    made = []
    for key in keys:
        there = {data: by_key[key] for data, by_key in found.items() if key in by_key}
        one = next(iter(there.values()))
        cells = [f"{there[data].measured:.2f}" if data in there else "-" for data in results]
        missed = [data for data, check in there.items() if not check.reached]
        reached = "yes" if not missed else "no" if len(missed) == len(there) else f"not on {' and '.join(missed)}"
        made.append([one.what, one.against, f"{one.relation} {one.target:g}", *cells, reached])
    return Grid("Targets", ["time of", "over that of", "target", *results, "reached"], made)
