"""Repetitions of a grid on all cores. Finished repetitions are kept on disk, so that an interrupted run can resume."""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require
from giftrl.files import file_errors, write
from giftrl.reports.summary import Summary
from giftrl.sweeps.data import Data
from giftrl.sweeps.grid import Grid

__all__ = ["cores", "key", "repeat"]

Array = NDArray[np.float64]


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def key(data: Data, grid: Grid) -> str:
    """A hash of 16 digits of all that a repetition depends on besides its seed: data, settings and version.

    >>> from giftrl import updates
    >>> from giftrl.sweeps.grid import Curve
    >>> data = Data("d", np.eye(2), np.array([1.0, -1.0]), "0" * 64, "raw")
    >>> one, two = (Grid("hinge", (Curve("p", updates.Proximal()),), (beta,)) for beta in (1.0, 2.0))
    >>> key(data, one) == key(data, one), key(data, one) == key(data, two)
    (True, False)
    """
    labels = hashlib.sha256(np.ascontiguousarray(data.y).tobytes()).hexdigest()
    parts = (version("giftrl"), data.fingerprint, data.preparation, labels, repr(grid))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def repeat(
    data: Data,
    grid: Grid,
    repetitions: int,
    *,
    seed: int = 0,
    workers: int | None = None,
    folder: Path | None = None,
    done: Callable[[bool], None] | None = None,
) -> Summary:
    """Run a grid over the data in several random orders, in one pass each.

    Args:
        data: the examples.
        grid: the models.
        repetitions: how many random orders.
        seed: the seed of the first order; each further order adds 1.
        workers: how many repetitions run at once; None means one for each core.
        folder: where finished repetitions are kept. A repetition that is already there is read, not run.
        done: called after each repetition, with True if it was read and False if it was run.
    """
    require(repetitions >= 1, "repetitions", repetitions, "must be at least 1", "15 is what the paper uses")
    runs = np.empty((repetitions, len(grid.curves), len(grid.betas)))
    kept = Kept(folder, key(data, grid), grid) if folder is not None else None
    missing = []
    for r in range(repetitions):
        losses = kept.read(seed + r) if kept else None
        if losses is None:
            missing.append(r)
        else:
            runs[r] = losses
            if done:
                done(True)

    def one(r: int) -> int:
        order = np.random.default_rng(seed + r).permutation(data.rows)
        runs[r] = grid.losses(data.x, data.y, order)
        if kept:
            kept.write(seed + r, runs[r])
        return r

    if missing:
        # One row first, to compile the loops: threads would only wait for each other to compile.
        grid.losses(data.x[:1], data.y[:1])
        pool = ThreadPoolExecutor(max_workers=max(1, workers or cores()))
        try:
            for finished in as_completed([pool.submit(one, r) for r in missing]):
                finished.result()
                if done:
                    done(False)
        finally:
            # After an error or Ctrl-C, running repetitions are finished and kept, and no others are started.
            pool.shutdown(wait=True, cancel_futures=True)
    return Summary(tuple(curve.name for curve in grid.curves), grid.betas, runs)


class Kept:
    """Finished repetitions in a folder, one small CSV file each: a line for each curve, a number for each beta."""

    def __init__(self, folder: Path, name: str, grid: Grid) -> None:
        self.folder = folder / "repetitions"
        with file_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.shape = (len(grid.curves), len(grid.betas))

    def path(self, seed: int) -> Path:
        """The file of the repetition with this seed."""
        return self.folder / f"{self.name}-{seed}.csv"

    def write(self, seed: int, losses: Array) -> None:
        """Write the losses of one repetition, completely or not at all."""
        lines = [",".join(repr(float(loss)) for loss in row) + "\n" for row in losses]
        write(self.path(seed), ["".join(lines).encode()])

    def read(self, seed: int) -> Array | None:
        """The losses of one repetition, or None if its file is missing or damaged."""
        try:
            lines = self.path(seed).read_text(encoding="utf-8").splitlines()
            losses = np.array([[float(loss) for loss in line.split(",")] for line in lines])
        except (OSError, ValueError):
            return None
        return losses if losses.shape == self.shape and not np.isnan(losses).any() else None
