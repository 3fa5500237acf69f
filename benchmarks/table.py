"""Options, and tables for the terminal and for Markdown."""

import argparse
import contextlib
import fnmatch
import math
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.datasets import Data
from benchmarks.timing import Result
from giftrl.errors import GiftrlError, InvalidInput, UnknownName


class Grid(NamedTuple):
    """A table: names in the first column, numbers in the others.

    >>> print(Grid("Speed", ["solver", "s"], [["floor", "0.1"]]).markdown())
    **Speed**
    <BLANKLINE>
    | solver | s |
    |---|---:|
    | floor | 0.1 |
    """

    title: str
    columns: list[str]
    rows: list[list[str]]

    def rich(self) -> Table:
        """The table for the terminal."""
        table = Table(title=self.title, title_justify="left", title_style="bold")
        for i, column in enumerate(self.columns):
            table.add_column(column, justify="right" if i else "left", no_wrap=not i)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [f"| {' | '.join(row)} |" for row in [self.columns, *self.rows]]
        lines.insert(1, "|---" + "|---:" * (len(self.columns) - 1) + "|")
        return "\n".join([f"**{self.title}**", "", *lines])


def _ratio(value: float | None, other: float | None) -> str:
    return "-" if value is None or other is None or other <= 0.0 else f"{value / other:.3g}"


def _time(seconds: float | None) -> str:
    if seconds is None or seconds <= 0.0:
        return "-"
    decimals = max(0, 2 - math.floor(math.log10(1e3 * seconds)))
    return f"{1e3 * seconds:,.{decimals}f}"


def ratio_grid(data: Data, results: list[Result]) -> Grid:
    """A table of every solver with its times, their ratios to the floors, and its loss."""
    times = {result.key: result.seconds for result in results if result.timings}
    floors = [times.get(key) for key in ("floor", "floor-unsigned")]
    rows = []
    for result in results:
        if not result.timings:
            rows.append([result.name, "skipped", *["-"] * 8])
            continue
        rows.append(
            [
                result.name,
                _time(result.seconds),
                f"{100.0 * result.spread:.0f}%",
                f"{1e9 * result.seconds / data.entries:.3g}",
                *(_ratio(result.seconds, floor) for floor in floors),
                _time(result.inner),
                *(_ratio(result.inner, floor) for floor in floors),
                "-" if result.loss is None else f"{result.loss:.4f}",
            ]
        )
    title = f"{data.name}, {'dense' if data.dense else 'sparse'}: one pass over {data.rows:,} rows, "
    title += f"{data.dimension:,} features, {data.entries / data.rows:.1f} entries a row"
    columns = [
        "solver", "ms", "spread", "ns an entry", "/ floor", "/ unsigned floor",
        "learning alone, ms", "/ floor", "/ unsigned floor", "loss",
    ]  # fmt: skip
    return Grid(title, columns, rows)


def machine() -> str:
    """The processor and the versions of the libraries.

    >>> machine().split(",")[0] != ""
    True
    """
    processor, cpuinfo = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if cpuinfo.exists() and (model := re.search(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.M)):
        processor = model[1].strip()
    parts = [processor, f"{os.cpu_count()} cores", f"Python {platform.python_version()}"]
    for package in ("numba", "numpy", "scikit-learn", "vowpalwabbit", "river"):
        try:
            parts.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            parts.append(f"no {package}")
    return ", ".join(parts)


def write_region(path: Path, label: str, text: str) -> None:
    """Replace the text between ``<!-- label:begin -->`` and ``<!-- label:end -->``; a new file has only this region.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "page.md"
    >>> _ = path.write_text("before <!-- bench:begin -->old<!-- bench:end --> after")
    >>> write_region(path, "bench", "new")
    >>> path.read_text().split()
    ['before', '<!--', 'bench:begin', '-->', 'new', '<!--', 'bench:end', '-->', 'after']
    """
    begin, end = f"<!-- {label}:begin -->", f"<!-- {label}:end -->"
    page = path.read_text() if path.exists() else f"{begin}{end}\n"
    head, opened, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (opened and closed):
        raise InvalidInput("out", str(path), f"must have the lines {begin} and {end}", "add them where the table goes")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}{begin}\n{text}\n{end}{tail}")


def wide_console(width: int = 160) -> Console:
    """The terminal; if the output goes elsewhere, lines are long enough for the tables."""
    console = Console()
    if not console.is_terminal:
        console.width = width
    return console


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """End the program with a message of one line instead of a traceback."""
    try:
        yield
    except GiftrlError as problem:
        raise SystemExit(f"error: {problem}") from None


def publish(
    console: Console, tables: Sequence[Grid], out: Path | None, label: str, *, origin: str | None = None, more: str = ""
) -> None:
    """Print tables and where they come from, and write them into the region of a page if one is given."""
    origin = f"Measured on {machine()}{more}." if origin is None else origin
    console.print(*(table.rich() for table in tables), origin)
    if out is not None:
        with one_line_errors():
            write_region(out, label, "\n\n".join([origin, *(table.markdown() for table in tables)]))


def parse(argv: Sequence[str] | None, module: str, text: str | None, **options: tuple[Any, str]) -> argparse.Namespace:
    """The options of ``python -m module`` by name, each with its default and its help.

    A default gives the type; a type in its place is that of an option without a default. False is a switch, a tuple
    has the choices, and a list any number of values.

    >>> parse(["--rows", "3", "--tasks", "a", "b"], "x", "", rows=(9, ""), out=(Path, ""), tasks=(["*"], ""))
    Namespace(rows=3, out=None, tasks=['a', 'b'])
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=text)
    for name, (default, words) in options.items():
        match default:
            case False:
                kind: dict[str, Any] = {"action": "store_true"}
            case type():
                kind = {"type": default}
            case tuple():
                kind = {"choices": default, "default": default[0]}
            case list():
                kind = {"nargs": "*", "type": type(default[0]), "default": default}
            case _:
                kind = {"type": type(default), "default": default}
        parser.add_argument(f"--{name.replace('_', '-')}", help=words, **kind)
    return parser.parse_args(argv)


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


def replaced(region: str) -> tuple[type, str]:
    """The option for a page with a region that the benchmark writes."""
    return Path, f"a Markdown page whose {region} region is replaced"


PATTERNS = "names or patterns, separated by commas: "


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
