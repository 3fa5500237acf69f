"""giftrl: one model, the learner without parameters, and many models in one pass."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Data
from benchmarks.solvers.contract import Timing
from giftrl import schedules
from giftrl.compiled import compiler
from giftrl.kernels import LinearLearner, LinearLearners
from giftrl.mixtures import MixtureLearner

#: The schedule of each regularizer, as a function of beta.
SCHEDULES: dict[str, Callable[[float], Any]] = {
    "squared_norm": lambda beta: schedules.TemporalVariability(beta=beta),
    "curvature": lambda beta: schedules.Constant(beta),
}


@contextlib.contextmanager
def loop_clock() -> Iterator[list[float]]:
    """Collect the seconds of each call of a compiled loop.

    The clock is around the calls of loops and nothing else: neither the checks of the input nor the preparation of
    arrays.

    >>> with loop_clock() as spent:
    ...     _ = LinearLearner(3).learn(np.eye(3), np.ones(3))
    >>> len(spent), spent[0] > 0.0
    (1, True)
    """
    spent: list[float] = []

    def clocked(call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(loop: Any, *inputs: Any) -> Any:
            begin = time.perf_counter()
            result = call(loop, *inputs)
            spent.append(time.perf_counter() - begin)
            return result

        return timed

    with contextlib.ExitStack() as patched:
        for kind in (compiler.CompiledLoop, compiler.PlainLoop):
            patched.enter_context(mock.patch.object(kind, "__call__", clocked(kind.__call__)))
        yield spent


class _Ours:
    """The common part of our solvers: they time ``learn`` of a new learner."""

    key: str
    name: str

    def learner(self) -> Any:
        raise NotImplementedError

    def unavailable(self, data: Data) -> str | None:
        return None

    def prepare(self, data: Data) -> None:
        self.data = data
        self.predicted: NDArray[np.float64] | None = None

    def once(self) -> Timing:
        learner = self.learner()
        with loop_clock() as spent:
            begin = time.perf_counter()
            self.predicted = learner.learn(self.data.x, self.data.y)
            seconds = time.perf_counter() - begin
        return Timing(seconds, sum(spent) if spent else None)

    def predictions(self) -> NDArray[np.float64] | None:
        return self.predicted


class One(_Ours):
    """One model, or several with betas from 0.01 to 100 in one pass, float32 coordinates.

    Args:
        regularizer: "squared_norm" with temporal variability, or "curvature" with a constant.
        update: the name of an update.
        models: the number of models.
    """

    def __init__(self, regularizer: str, update: str, models: int = 1) -> None:
        self.regularizer, self.update, self.models = regularizer, update, models
        several = models > 1
        self.key = f"{regularizer}-{update}{f'-{models}' if several else ''}"
        self.name = f"giftrl {regularizer.replace('_', ' ')}, {update}{f', {models} models' if several else ''}"

    def learner(self) -> Any:
        schedule, size = SCHEDULES[self.regularizer], self.data.dimension
        if self.models == 1:
            return LinearLearner(size, "logistic", self.regularizer, self.update, schedule(1.0), dtype="float32")
        settings = [(self.update, schedule(beta)) for beta in np.logspace(-2, 2, self.models).tolist()]
        return LinearLearners(size, settings, "logistic", self.regularizer, dtype="float32")


class Mixed(_Ours):
    """The learner without parameters.

    Args:
        preset: "default" or "light".
    """

    def __init__(self, preset: str) -> None:
        self.preset = preset
        self.key = f"auto-{preset}"
        self.name = f"giftrl without parameters, {preset}"

    def learner(self) -> MixtureLearner:
        return MixtureLearner(self.data.dimension, "logistic", preset=self.preset, dtype="float32")
