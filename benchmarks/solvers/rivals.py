"""The other libraries as solvers: scikit-learn's SGDClassifier, Vowpal Wabbit, and River's logistic regression.

scikit-learn takes CSR and C-ordered matrices of float32 and float64 without a copy.

Vowpal Wabbit reads its own cache file, which is built before the clock starts, so no text is parsed. As always in
Vowpal Wabbit, a second thread decodes it. Learning without start-up is measured in two ways in every repetition:

1. the time of ``run_parser``, which makes one pass after the options were read, the weights allocated and the file
   opened;
2. half the difference between the times of three passes and of one, which also excludes the first access to each page.

The table shows both. Ratios use the smaller median, which favours Vowpal Wabbit.

River learns from dictionaries, which are made before the clock starts. A sample of the rows is timed and extrapolated.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.datasets import Data, store
from benchmarks.solvers.contract import Timing, missing

#: The options of Vowpal Wabbit in every run.
OPTIONS = ["--loss_function", "logistic", "-b", "18", "--noconstant", "--quiet"]
#: How many rows River learns.
SAMPLE = 5_000


class ScikitLearn:
    """Logistic loss, a constant learning rate, no penalty and no shuffling, which is the least work that it can do."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.key, self.name = dtype, f"sklearn-{dtype}", f"scikit-learn SGD, {dtype}"

    def unavailable(self, data: Data) -> str | None:
        return missing("sklearn")

    def prepare(self, data: Data) -> None:
        self.x = data.x.astype(self.dtype, copy=False)
        self.y = data.y

    def once(self) -> Timing:
        model = self.model()
        classes = np.array([-1.0, 1.0])
        begin = time.perf_counter()
        model.partial_fit(self.x, self.y, classes=classes)
        return Timing(time.perf_counter() - begin)

    def model(self) -> Any:
        """A new classifier."""
        from sklearn.linear_model import SGDClassifier  # type: ignore[import-untyped]

        return SGDClassifier(
            loss="log_loss", penalty=None, max_iter=1, tol=None, shuffle=False, learning_rate="constant",
            eta0=0.1, fit_intercept=False, random_state=0,
        )  # fmt: skip

    def predictions(self) -> None:
        return None


class VowpalWabbit:
    """The default update, which is adaptive, normalised and invariant, or with ``--sgd`` plain gradient steps."""

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
            self.workspace("-d", str(data.text()), "--cache_file", str(beside), "-k").finish()
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


def _river() -> Any:
    from river import linear_model, optim

    return linear_model.LogisticRegression(optim.SGD(0.1), l2=0.0, intercept_lr=0.0)


class RiverOne:
    """``predict_proba_one`` and ``learn_one`` for each row; inner is ``learn_one`` alone."""

    key = "river"
    name = "River learn_one"

    def unavailable(self, data: Data) -> str | None:
        return missing("river")

    def prepare(self, data: Data) -> None:
        size = min(SAMPLE, data.rows)
        self.scale = data.rows / size
        rows = sparse.csr_matrix(data.x[:size])
        bounds = zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)
        indices, values = rows.indices.tolist(), rows.data.tolist()
        self.rows = [dict(zip(indices[a:b], values[a:b], strict=True)) for a, b in bounds]
        self.labels = (data.y[:size] > 0.0).tolist()

    def once(self) -> Timing:
        seconds = []
        for predict in (True, False):
            model = _river()
            begin = time.perf_counter()
            for row, label in zip(self.rows, self.labels, strict=True):
                if predict:
                    model.predict_proba_one(row)
                model.learn_one(row, label)
            seconds.append(self.scale * (time.perf_counter() - begin))
        return Timing(*seconds)

    def predictions(self) -> NDArray[np.float64]:
        """Margins for the rows of the sample, which are the first rows of the data."""
        model = _river()
        margins = []
        for row, label in zip(self.rows, self.labels, strict=True):
            p = model.predict_proba_one(row)[True]
            margins.append(np.log(p) - np.log1p(-p))
            model.learn_one(row, label)
        return np.array(margins)
