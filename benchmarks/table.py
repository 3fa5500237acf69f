"""Tables, for the terminal and for Markdown."""

import math
import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.datasets import Data
from benchmarks.timing import Result
from giftrl.errors import GiftrlError, InvalidInput

__all__ = ["Grid", "machine", "ratio_grid", "write_region"]


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


def _time(seconds: float) -> str:
    if seconds <= 0.0:
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
                "-" if result.inner is None else _time(result.inner),
                *(_ratio(result.inner, floor) for floor in floors),
                "-" if result.loss is None else f"{result.loss:.4f}",
            ]
        )
    layout = "dense" if data.dense else "sparse"
    title = (
        f"{data.name}, {layout}: one pass over {data.rows:,} rows, {data.dimension:,} features, "
        f"{data.entries / data.rows:.1f} entries a row"
    )
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
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
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


def wide_console() -> Console:
    """The terminal; where the output goes elsewhere, lines are long enough for the tables."""
    console = Console()
    if not console.is_terminal:
        console.width = 160
    return console


def publish(console: Console, tables: Sequence[Grid], out: Path | None, label: str, more: str = "") -> None:
    """Print tables and what they were measured on, and write them into the region of a page, if one is given."""
    where = f"Measured on {machine()}{more}."
    console.print(*(table.rich() for table in tables), where)
    if out is not None:
        try:
            write_region(out, label, "\n\n".join([where, *(table.markdown() for table in tables)]))
        except GiftrlError as problem:
            raise SystemExit(f"error: {problem}") from None
