"""Vowpal Wabbit: its default, ten other learning rates, and four updates without a learning rate.

Each case is written once as text and converted to Vowpal Wabbit's cache file. Each run then reads the cache and writes
its predictions to a file, so no Python is in the loop. As by default, Vowpal Wabbit adds a constant feature and
determines the range of the labels itself.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import store
from benchmarks.quality.contract import DEFAULT, Predict
from benchmarks.quality.data import Case
from benchmarks.solvers.contract import missing
from benchmarks.text import write_vw

RATES = ("0.01", "0.03", "0.1", "0.3", "1", "2", "5", "10", "30", "100")
UPDATES = ("--coin", "--ftrl", "--pistol", "--freegrad")
LOSSES = {"logistic": "logistic", "hinge": "hinge", "squared": "squared", "absolute": "quantile", "log": "logistic"}


class VowpalWabbit:
    """``-l RATE`` for the default update, which is adaptive, normalised and invariant; ``-l 0.5`` is its default."""

    key = "vw"
    name = "Vowpal Wabbit"
    package = "vowpalwabbit"

    def unavailable(self) -> str | None:
        return missing("vowpalwabbit")

    def settings(self, loss: str) -> list[str]:
        return [DEFAULT, *(f"-l {rate}" for rate in RATES), *UPDATES]

    def rate(self, setting: str) -> float | None:
        """The learning rate that a setting stands for, where it is one of the sweep over rates."""
        if setting == DEFAULT:
            return 0.5
        return float(setting.split()[1]) if setting.startswith("-l ") else None

    def covers(self, case: Case) -> bool:
        return True

    @contextlib.contextmanager
    def prepared(self, case: Case) -> Iterator[Predict]:
        with tempfile.TemporaryDirectory(prefix="quality-vw-", dir=store()) as folder:
            text, cache = Path(folder) / "rows.vw", Path(folder) / "rows.cache"
            write_vw(text, case.x, case.y if case.classes is None else case.y + 1.0)
            what = ["--oaa", str(case.classes)] if case.classes else []
            _run([*what, "-d", str(text), "--cache_file", str(cache), "-k"], None)
            text.unlink()

            def predict(loss: str, setting: str) -> NDArray[np.float64]:
                options = [*what, *(["--probabilities"] if what else []), "--loss_function", LOSSES[loss]]
                chosen = [] if setting == DEFAULT else setting.split()
                path = Path(folder) / "predictions"
                _run([*options, *chosen, "--cache_file", str(cache)], path)
                return _read(path, len(case.y), case.classes)

            yield predict


def _run(options: list[str], predictions: Path | None) -> None:
    from vowpalwabbit import Workspace  # type: ignore[import-untyped]

    where = [] if predictions is None else ["-p", str(predictions)]
    model: Any = Workspace(arg_list=["-b", "18", "--quiet", *options, *where])
    model.run_parser()
    model.finish()


def _read(path: Path, rows: int, classes: int | None) -> NDArray[np.float64]:
    """Read the predictions: one number a line, or for classes ``1:p 2:p ...`` in the order of the classes."""
    words = path.read_text().split()
    path.unlink()
    if classes is None:
        predicted = np.array(words, np.float64)
    else:
        predicted = np.array([word.partition(":")[2] for word in words], np.float64).reshape(-1, classes)
    if len(predicted) != rows:
        raise RuntimeError(f"Vowpal Wabbit made {len(predicted)} predictions for {rows} rows")
    return predicted
