"""``python -m benchmarks.workers``: the speed of two threads over one.

Examples in memory go through the estimator's learner, and a text file through the command. The command with one worker
is measured on one core and on all cores, since it parses in a thread of its own. Strong scaling has the same examples
for any number of workers. Weak scaling has the same number of examples for each worker.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.rcv1_like import rcv1_like
from benchmarks.table import Grid, machine, parse, replaced, write_region
from benchmarks.text import write_libsvm
from giftrl.compiled.rows import Rows, as_rows, slice_rows
from giftrl.mixtures import MixtureLearner
from giftrl.workers.threads import Team, TeamTimes

#: The rows of a batch.
BATCH = 50_000


class Measured(NamedTuple):
    """The seconds of one learner, of one over half of the rows, and of two threads, and what these spent."""

    name: str
    rows: int
    alone: float
    half: float
    together: float
    spent: TeamTimes
    features: int


def sparse_rows(rows: int) -> tuple[Any, Any, int]:
    """The rcv1-like data."""
    x, y = rcv1_like(rows)
    return as_rows(x.astype(np.float64), x.shape[1])[0], y, x.shape[1]


def dense_rows(rows: int, features: int = 54) -> tuple[Any, Any, int]:
    """Dense rows of as many features as covtype has."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, features))
    y = np.where(x @ rng.normal(size=features) + 3.0 * rng.normal(size=rows) > 0.0, 1.0, -1.0)
    return as_rows(x, features)[0], y, features


def seconds(rows: Rows, y: Any, features: int, workers: int) -> tuple[float, TeamTimes]:
    """How long learning takes, in batches."""
    learner = MixtureLearner(features, "logistic")
    with Team(learner, workers) as team:
        taught: Any = learner if workers == 1 else team
        begun = time.perf_counter()
        for first in range(0, len(y), BATCH):
            last = min(len(y), first + BATCH)
            taught.learn_rows(slice_rows(rows, first, last), y[first:last], np.empty(0))
        team.finish()
        return time.perf_counter() - begun, team.times


def in_memory(name: str, data: tuple[Any, Any, int], repeats: int) -> Measured:
    """Both in turn, after a warm-up; medians."""
    rows, y, features = data
    middle = len(y) // 2
    times = []
    for k in range(repeats + 1):
        alone, (together, spent) = seconds(rows, y, features, 1)[0], seconds(rows, y, features, 2)
        half = seconds(slice_rows(rows, 0, middle), y[:middle], features, 1)[0]
        if k > 0:
            times.append((alone, half, together, spent))
    spent = sorted(times, key=lambda each: each[2])[len(times) // 2][3]
    return Measured(name, len(y), *(median(each[k] for each in times) for k in range(3)), spent, features)


def write_text(path: Path, size: int) -> None:
    """A LIBSVM file of about this many bytes."""
    write_libsvm(path, *rcv1_like(100_000))
    part = path.read_bytes()
    with path.open("ab") as file:
        for _ in range(max(0, size // len(part) - 1)):
            file.write(part)


def command(path: Path, workers: int, one_core: bool) -> float:
    """The seconds of ``giftrl train`` as a whole."""
    cores = ["taskset", "-c", "0"] if one_core else []
    giftrl = Path(sys.executable).with_name("giftrl")
    arguments = ["train", path, "--workers", str(workers), "--certificate-seconds", "0", "--json"]
    done = subprocess.run([*cores, giftrl, *arguments], capture_output=True, check=True)
    return float(json.loads(done.stdout)["seconds_total"])


def page(measured: Sequence[Measured], text: dict[str, float], size: int) -> str:
    """The tables."""
    head = ["", "rows", "one", "two threads", "strong scaling", "weak scaling", "merges", "a merge"]
    lines = [
        [
            each.name, f"{each.rows:,}", f"{each.alone:.2f} s", f"{each.together:.2f} s",
            f"{each.alone / each.together:.2f}", f"{each.half / each.together:.2f}", str(each.spent.merges),
            f"{1e3 * each.spent.merging / max(each.spent.merges, 1):.0f} ms",
        ]
        for each in measured
    ]  # fmt: skip
    parts = [f"{machine()}; medians.", Grid("Measured: rows in memory", head, lines).markdown()]
    if text:
        best = text["two workers"]
        rows = [[name, f"{value:.1f} s", f"{value / best:.2f}"] for name, value in text.items()]
        title = f"Measured: giftrl train on {size / 1e9:.1f} GB of LIBSVM text"
        parts.append(Grid(title, ["", "whole command", "over two workers"], rows).markdown())
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the tables."""
    given = parse(
        arguments, "benchmarks.workers", __doc__, out=replaced("threads"), rows=(4_000_000, "examples in memory"),
        bytes=(10**9, "of text"), repeats=(3, "how often"),
    )  # fmt: skip
    measured = [
        in_memory("rcv1_like", sparse_rows(given.rows), given.repeats),
        in_memory("54 dense features", dense_rows(given.rows // 2), given.repeats),
    ]
    text: dict[str, float] = {}
    if given.bytes and os.cpu_count() != 1:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rows.svm")
            write_text(path, given.bytes)
            kinds = {"one worker, one core": (1, True), "one worker, all cores": (1, False), "two workers": (2, False)}
            command(path, 2, False)
            for name, (workers, one_core) in kinds.items():
                text[name] = median(command(path, workers, one_core) for _ in range(given.repeats))
    made = page(measured, text, given.bytes)
    print(made)
    if given.out is not None:
        write_region(given.out, "threads", made)


if __name__ == "__main__":
    main()
