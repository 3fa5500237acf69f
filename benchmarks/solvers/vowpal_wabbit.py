"""Vowpal Wabbit, reading its own cache file.

The cache is built before the clock starts, so no text is parsed. As always in Vowpal Wabbit, a second thread decodes
it. Learning without start-up is measured in two ways in every repetition:

1. the time of ``run_parser``, which makes one pass after the options were read, the weights allocated and the file
   opened;
2. half the difference between the times of three passes and of one, which also excludes the first access to each page.

The table shows both. Ratios use the smaller median, which favours Vowpal Wabbit.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Data, store
from benchmarks.solvers.contract import Timing, missing

__all__ = ["VowpalWabbit"]

OPTIONS = ["--loss_function", "logistic", "-b", "18", "--noconstant", "--quiet"]


class VowpalWabbit:
    """The default update, which is adaptive, normalised and invariant, or with ``--sgd`` plain gradient steps.

    Args:
        extra: further options.
    """

    def __init__(self, *extra: str) -> None:
        self.extra = list(extra)
        self.key = "-".join(["vw", *(option.lstrip("-") for option in extra)])
        self.name = " ".join(["Vowpal Wabbit", *extra])

    def unavailable(self, data: Data) -> str | None:
        return missing("vowpalwabbit")

    def workspace(self, *options: str) -> Any:
        """A workspace with our options. pyvw runs it at once if they name data or passes."""
        from vowpalwabbit import Workspace  # type: ignore[import-untyped]

        return Workspace(arg_list=[*OPTIONS, *self.extra, *options])

    def prepare(self, data: Data) -> None:
        from vowpalwabbit import __version__

        self.rows = data.rows
        self.cache = store() / f"{data.key}.vw-{__version__}.cache"
        if not self.cache.exists():
            beside = Path(f"{self.cache}.{os.getpid()}")
            self.workspace("-d", str(data.text("vw")), "--cache_file", str(beside), "-k").finish()
            beside.replace(self.cache)

    def once(self) -> Timing:
        begin = time.perf_counter()
        model = self.workspace("--cache_file", str(self.cache))
        started = time.perf_counter()
        model.run_parser()
        seconds = time.perf_counter() - started
        learnt = model.get_weighted_examples()
        model.finish()
        if learnt != self.rows:
            raise RuntimeError(f"Vowpal Wabbit learnt {learnt:g} rows of {self.rows}; delete {self.cache}")
        start_up = started - begin
        begin = time.perf_counter()
        model = self.workspace("--cache_file", str(self.cache), "--holdout_off", "--passes", "3")
        three = time.perf_counter() - begin - start_up
        model.finish()
        return Timing(seconds, 0.5 * (three - seconds))

    def predictions(self) -> NDArray[np.float64]:
        path = store() / f"predictions-{os.getpid()}.txt"
        model = self.workspace("--cache_file", str(self.cache), "-p", str(path))
        model.run_parser()
        model.finish()
        predicted = np.loadtxt(path, ndmin=1)
        path.unlink()
        return predicted
