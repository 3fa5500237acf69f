"""Start-up: whole processes, from the first import to the last exit, ours and those of the rivals.

    python -m benchmarks.startup --out docs/performance.md

Every number is the median over fresh processes that take turns; a round that is not counted fills the caches of the
disk and writes the bytecode. CPU seconds are those of all threads, of the user and of the system. The wheel is built
first, as ``make wheel`` does, which takes some minutes; ``--wheel FILE`` names one that there is.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.rcv1_like import rcv1_like
from benchmarks.table import Grid, parse, publish, replaced, wide_console
from benchmarks.text import write_libsvm, write_vw

ROOT = Path(__file__).parents[1]
ROWS = 200_000  # about 250 MB of text
REPETITIONS = 5
DATA = "import numpy as np; rng = np.random.default_rng(0); x = rng.normal(size=(400, 20)); y = x[:, 0] > 0.0; "
FIT = DATA + "from giftrl import FTRLClassifier; FTRLClassifier().fit(x, y)"
SGD = DATA + "from sklearn.linear_model import SGDClassifier; SGDClassifier().fit(x, y)"
GIFTRL = "from giftrl.cli import main; main()"


class Cost(NamedTuple):
    """What a process took, in seconds."""

    cpu: float
    wall: float


class Case(NamedTuple):
    """A process to time."""

    command: list[str]
    environment: Mapping[str, str]
    empties: Path | None = None  # a folder that is removed before every run
    avoids: Path | None = None  # a folder of compiled loops that must not be there afterwards: the wheel has them all
    slow: bool = False  # run once, and in no round for warming up

    def once(self) -> Cost:
        """Run it, and see what it took."""
        if self.empties is not None:
            shutil.rmtree(self.empties, ignore_errors=True)
        begun = time.perf_counter()
        process = subprocess.Popen(
            self.command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        if process.returncode:
            raise RuntimeError(f"{' '.join(self.command)} ended with {process.returncode}: {said.decode()[-2000:]}")
        if self.avoids is not None and self.avoids.exists():
            made = ", ".join(path.name for path in self.avoids.iterdir())
            raise RuntimeError(f"{' '.join(self.command)} compiled {made}, which the wheel should bring")
        return Cost(used.ru_utime + used.ru_stime, wall)


def build_wheel(folder: Path, wheel: Path | None = None) -> Path:
    """Build the wheel for this platform, or take one that there is, and install it into a folder of its own.

    ``GIFTRL_WHEEL_LOOPS`` may name the losses to compile; all of them otherwise.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    if wheel is None:
        environment = os.environ | {"GIFTRL_WHEEL_LOOPS": os.environ.get("GIFTRL_WHEEL_LOOPS") or "1"}
        build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
        subprocess.run(build, env=environment, check=True)
        (wheel,) = folder.glob("giftrl-*.whl")
    site = folder / "site"
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)], check=True)
    return site


def write_rows(folder: Path, rows: int) -> None:
    """Write the rows as LIBSVM text, Vowpal Wabbit's text and Arrow, and two rows of each text."""
    for count, name in ((2, "two"), (rows, "many")):
        x, y = rcv1_like(count, 47_236)
        write_libsvm(folder / f"{name}.svm", x, y)
        write_vw(folder / f"{name}.vw", x, y)
    convert = ["convert", "--quiet", str(folder / "many.svm"), str(folder / "many.arrow")]
    subprocess.run([sys.executable, "-c", GIFTRL, *convert], check=True)


def cases(folder: Path, site: Path) -> dict[str, Case]:
    """The processes to time, by name; ``site`` is where the wheel is installed."""
    python, two, many = [sys.executable, "-c"], str(folder / "two"), str(folder / "many")
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
    plain["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    cold, unused = folder / "cold", folder / "unused"
    wheel = plain | {"PYTHONPATH": str(site), "GIFTRL_CACHE_DIR": str(unused)}
    warm = plain | {"PYTHONPATH": str(ROOT / "src"), "GIFTRL_CACHE_DIR": str(folder / "warm")}
    compiling, slow = warm | {"GIFTRL_CACHE_DIR": str(cold)}, {"empties": cold, "slow": True}
    train = [*python, GIFTRL, "train", "--model", str(folder / "model.giftrl")]
    vw = [sys.executable, "-m", "vowpalwabbit", "--loss_function", "logistic", "-b", "18", "--quiet"]
    vw += ["-f", str(folder / "model.vw"), "-d"]
    return {
        "python, nothing imported": Case([*python, "pass"], plain),
        "import numpy": Case([*python, "import numpy"], plain),
        "import numpy, giftrl": Case([*python, "import numpy, giftrl"], wheel),
        "from giftrl import Learner": Case([*python, "from giftrl import Learner"], wheel),
        "import sklearn.linear_model": Case([*python, "import sklearn.linear_model"], plain),
        "FTRLClassifier().fit, 400 rows, wheel, empty cache": Case([*python, FIT], wheel, avoids=unused),
        "FTRLClassifier().fit, 400 rows, checkout, warm cache": Case([*python, FIT], warm),
        "FTRLClassifier().fit, 400 rows, checkout, empty cache (compiles)": Case([*python, FIT], compiling, **slow),
        "SGDClassifier().fit, 400 rows": Case([*python, SGD], plain),
        "giftrl train, two rows, wheel, empty cache": Case([*train, f"{two}.svm"], wheel, avoids=unused),
        "giftrl train, two rows, checkout, warm cache": Case([*train, f"{two}.svm"], warm),
        "giftrl train, two rows, checkout, empty cache (compiles)": Case([*train, f"{two}.svm"], compiling, **slow),
        "Vowpal Wabbit, two rows": Case([*vw, f"{two}.vw"], plain),
        "giftrl train, LIBSVM text": Case([*train, f"{many}.svm"], wheel, avoids=unused),
        "giftrl train --beta 1, LIBSVM text": Case([*train, "--beta", "1", f"{many}.svm"], warm),
        "Vowpal Wabbit, the same rows as its text": Case([*vw, f"{many}.vw"], plain),
        "giftrl train, converted Arrow": Case([*train, f"{many}.arrow"], wheel, avoids=unused),
        "giftrl train --beta 1, converted Arrow": Case([*train, "--beta", "1", f"{many}.arrow"], warm),
        "Vowpal Wabbit, its cache": Case([*vw, f"{many}.vw", "-c"], plain),
    }


def measure(
    timed: Mapping[str, Case], repetitions: int = REPETITIONS, report: Callable[[str], None] = lambda _: None
) -> dict[str, list[Cost]]:
    """What every process took in each repetition; they take turns."""
    costs: dict[str, list[Cost]] = {key: [] for key in timed}
    for repetition in range(repetitions + 1):  # the first one warms up
        for key, case in timed.items():
            if case.slow == (repetition == 0):
                report(f"{'warm-up' if repetition == 0 else f'repetition {repetition} of {repetitions}'}: {key}")
            if case.slow and repetition != 1:
                continue
            cost = case.once()
            if repetition:
                costs[key].append(cost)
    return costs


def grid(costs: Mapping[str, list[Cost]], size: float) -> Grid:
    """The table of all processes; ``size`` is the LIBSVM text in bytes."""
    rows = []
    for key, each in costs.items():
        cpu, wall = ([cost[k] for cost in each] for k in range(2))
        middle = statistics.median(cpu)
        spread = f"{(max(cpu) - min(cpu)) / middle:.0%}" if len(cpu) > 1 else "-"
        rows.append([key, f"{middle:.3f}", f"{statistics.median(wall):.3f}", spread])
    title = f"Start-up: whole processes; the large ones read {size / 1e6:.0f} MB of text, or the same rows"
    return Grid(title, ["process", "CPU, s", "wall, s", "spread of CPU"], rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Build, measure, and print the tables."""
    options = parse(
        argv, "benchmarks.startup", __doc__, out=replaced("startup"),
        wheel=(Path, "a wheel that was built before, in place of building one"),
        rows=(ROWS, "the number of rows of the large files"), repetitions=(REPETITIONS, "how often"),
    )  # fmt: skip
    console = wide_console()
    with tempfile.TemporaryDirectory() as name, console.status("building the wheel") as status:
        folder = Path(name)
        site = build_wheel(folder, options.wheel)
        status.update("writing the rows")
        write_rows(folder, options.rows)
        costs = measure(cases(folder, site), options.repetitions, status.update)
        size = (folder / "many.svm").stat().st_size
    publish(console, [grid(costs, size)], options.out, "startup", more=f"; medians of {options.repetitions}")


if __name__ == "__main__":
    main()
