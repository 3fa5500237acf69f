"""The record of the rivals' runs. Each run is added when it ends, so that an interruption loses nothing."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.quality.data import Task
from giftrl.errors import InvalidInput

#: The file of the recorded runs.
PATH = Path(__file__).parents[2] / "docs" / "quality" / "rivals.csv"

COLUMNS = ("task", "scaling", "order", "solver", "setting", "loss")


class Run(NamedTuple):
    """One solver with one setting on one task in one order. The record maps a run to its loss.

    >>> Run(Task("a9a", "hinge", "raw"), "0", "vw", "-l 2").cells()
    ('a9a hinge', 'raw', '0', 'vw', '-l 2')
    """

    task: Task
    order: str
    solver: str
    setting: str

    def cells(self) -> tuple[str, str, str, str, str]:
        """The cells of the run in the file."""
        return self.task.name, self.task.scaling, self.order, self.solver, self.setting


class Record:
    """Losses by run, in memory and in a CSV file that begins with the versions of the libraries."""

    def __init__(self, path: Path = PATH) -> None:
        self.path = path
        self.versions: dict[str, str] = {}
        self.runs: dict[Run, float] = {}
        self._cut = False  # whether the last line is incomplete, because a run was interrupted
        if path.exists():
            self._read()

    def _read(self) -> None:
        with self.path.open(newline="") as file:
            for line in file:
                if not line.startswith("#"):
                    break
                package, _, version = line[1:].strip().rpartition(" ")
                self.versions[package] = version
            for line in file:
                if not line.endswith("\n"):
                    self._cut = True
                    break
                name, scaling, order, solver, setting, loss = next(csv.reader([line]))
                dataset, _, kind = name.rpartition(" ")
                self.runs[Run(Task(dataset, kind, scaling), order, solver, setting)] = float(loss)

    def begin(self, packages: dict[str, str]) -> None:
        """Write the versions into a new file; raise an error if the file has other versions of the same packages."""
        known = {package: version for package, version in packages.items() if package in self.versions}
        other = {package: version for package, version in known.items() if self.versions[package] != version}
        if other:
            recorded = ", ".join(f"{package} {self.versions[package]}" for package in other)
            raise InvalidInput("rivals", "missing", f"{self.path} was measured with {recorded}", "use --rivals all")
        if set(packages) - set(self.versions):
            self.versions |= packages
            self.write()

    def add(self, run: Run, loss: float) -> None:
        """Add a run, also to the file."""
        self.runs[run] = float(f"{loss:.7g}")
        if self._cut or not self.path.exists():
            self.write()
            return
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow((*run.cells(), f"{loss:.7g}"))

    def forget(self, runs: Iterable[Run]) -> None:
        """Remove these runs, also from the file."""
        for run in list(runs):
            self.runs.pop(run, None)
        self.write()

    def write(self) -> None:
        """Write the whole file: first beside it, then rename."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        with beside.open("w", newline="") as file:
            file.writelines(f"# {package} {version}\n" for package, version in sorted(self.versions.items()))
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows((*run.cells(), f"{loss:.7g}") for run, loss in self.runs.items())
        beside.replace(self.path)
        self._cut = False
