"""Whole processes with their start-up: ``giftrl train`` and Vowpal Wabbit on the same rows as text, cache and Arrow.

``python -m benchmarks.streams [--repetitions 5]`` writes its files to the folder of the other benchmarks.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.datasets import store
from benchmarks.rcv1_like import rcv1_like
from benchmarks.text import write_libsvm, write_vw

__all__ = ["commands", "main"]


def commands(folder: Path) -> dict[str, list[str]]:
    """The commands that are timed, by name: on the rcv1-like rows, or on one row to time the start-up."""
    vw = [sys.executable, "-m", "vowpalwabbit", "--loss_function", "logistic", "-b", "18", "--quiet", "-d"]
    ours = [str(Path(sys.executable).parent / "giftrl"), "train", "--beta", "1", "--quiet"]
    return {
        "Vowpal Wabbit, start-up": [*vw, str(folder / "one.vw")],
        "Vowpal Wabbit, text": [*vw, str(folder / "rcv1.vw")],
        "Vowpal Wabbit, cache": [*vw, str(folder / "rcv1.vw"), "-c"],
        "giftrl, start-up": [*ours, str(folder / "one.svm")],
        "giftrl, LIBSVM text": [*ours, str(folder / "rcv1.svm")],
        "giftrl, VW text": [*ours, str(folder / "rcv1.vw")],
        "giftrl, converted Arrow": [*ours, str(folder / "rcv1.arrow")],
    }


def main() -> None:
    """Time the commands in turn, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = parser.parse_args().repetitions
    folder = store()
    (folder / "one.vw").write_text("1 | a:1\n")
    (folder / "one.svm").write_text("1 1:1\n")
    if not (folder / "rcv1.arrow").exists():
        x, y = rcv1_like()
        write_libsvm(folder / "rcv1.svm", x, y)
        write_vw(folder / "rcv1.vw", x, y)
        giftrl = str(Path(sys.executable).parent / "giftrl")
        subprocess.run([giftrl, "convert", "--quiet", folder / "rcv1.svm", folder / "rcv1.arrow"], check=True)
    timed = commands(folder)
    times: dict[str, list[float]] = {name: [] for name in timed}
    for repetition in range(repetitions + 1):  # the first repetition fills caches and compiles, and is not counted
        for name, command in timed.items():
            begun = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            if repetition:
                times[name].append(time.perf_counter() - begun)
    size = (folder / "rcv1.svm").stat().st_size / 1e6
    print(f"200,000 rows, {size:.0f} MB of text; medians of {repetitions} runs of whole processes\n")
    print("| command | seconds | without start-up |\n|---|---:|---:|")
    for name, measured in times.items():
        start = statistics.median(times[name.split(",")[0] + ", start-up"])
        median = statistics.median(measured)
        print(f"| {name} | {median:.2f} | {median - start:.2f} |")


if __name__ == "__main__":
    main()
