"""The floors of :mod:`benchmarks.floor` as solvers."""

import time
from typing import Any

import numpy as np

from benchmarks import floor
from benchmarks.datasets import Data
from benchmarks.solvers.contract import Timing

__all__ = ["Floor"]

NAMES = {
    "": "floor",
    "unsigned": "floor, unsigned indices",
    "single": "floor, unsigned indices, float32 sum",
}


class Floor:
    """A bare loop that makes a dot product and an update for each row.

    Args:
        kind: "" for signed indices, "unsigned", or "single" for unsigned indices and a float32 sum.

    >>> solver = Floor("unsigned")
    >>> solver.prepare(Data("tiny", "none", np.eye(3, dtype=np.float32), np.ones(3)))
    >>> solver.once().seconds > 0.0
    True
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.key = f"floor-{kind}" if kind else "floor"
        self.name = NAMES[kind]

    def unavailable(self, data: Data) -> str | None:
        return None

    def prepare(self, data: Data) -> None:
        self.data = data
        layout = "dense" if data.dense else "sparse"
        self.loop: Any = getattr(floor, f"{layout}_unsigned" if self.kind else layout)
        self.zero: tuple[Any, ...] = {"": (), "unsigned": (0.0,), "single": (np.float32(0.0),)}[self.kind]
        self.arrays = (data.x,) if data.dense else (data.x.indptr, data.x.indices, data.x.data)

    def once(self) -> Timing:
        w = np.zeros(self.data.dimension, np.float32)
        begin = time.perf_counter()
        self.loop(*self.arrays, self.data.y, w, *self.zero)
        seconds = time.perf_counter() - begin
        return Timing(seconds, seconds)

    def predictions(self) -> None:
        return None
