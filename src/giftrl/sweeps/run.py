"""Repetitions of a grid on all cores; what is finished is kept, and an interrupted run goes on where it stopped."""

import csv
import hashlib
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require
from giftrl.files import file_errors, write
from giftrl.sweeps.data import Data
from giftrl.sweeps.grid import Grid
from giftrl.sweeps.summary import Summary

__all__ = ["cores", "key", "repeat"]

Array = NDArray[np.float64]


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def key(data: Data, grid: Grid) -> str:
    """What a repetition depends on besides its number, in 16 digits: data, preparation, settings and version.

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
    """Run a grid over the data in several random orders, each in one pass.

    Args:
        data: the examples.
        grid: the models.
        repetitions: how many orders.
        seed: of the first order; the others follow.
        workers: how many orders at a time; None is one for each core.
        folder: where finished repetitions are kept; they are read from there and not run again.
        done: called after each repetition; True means that it was read and not run.
    """
    require(repetitions >= 1, "repetitions", repetitions, "must be at least 1", "15 is what the paper uses")
    runs = np.empty((repetitions, len(grid.curves), len(grid.betas)))
    kept = Kept(folder, key(data, grid), grid) if folder is not None else None
    missing = []
    for r in range(repetitions):
        found = kept.read(seed + r) if kept else None
        if found is None:
            missing.append(r)
        else:
            runs[r] = found
            if done:
                done(True)

    def one(r: int) -> int:
        order = np.random.default_rng(seed + r).permutation(data.rows)
        runs[r] = grid.losses(data.x, data.y, order)
        if kept:
            kept.write(seed + r, runs[r])
        return r

    if missing:
        # The first pass compiles: two threads that compile the same loop wait for each other anyway.
        grid.losses(data.x[:1], data.y[:1])
        pool = ThreadPoolExecutor(max_workers=max(1, workers or cores()))
        try:
            for finished in as_completed([pool.submit(one, r) for r in missing]):
                finished.result()
                if done:
                    done(False)
        finally:
            # After an error or Ctrl-C nothing new is started; what runs is finished and kept.
            pool.shutdown(wait=True, cancel_futures=True)
    return Summary(tuple(curve.name for curve in grid.curves), grid.betas, runs)


class Kept:
    """Finished repetitions in a folder, one small CSV file each, written whole or not at all."""

    def __init__(self, folder: Path, name: str, grid: Grid) -> None:
        self.folder = folder / "repetitions"
        with file_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.grid = grid

    def path(self, seed: int) -> Path:
        """The file of one repetition."""
        return self.folder / f"{self.name}-{seed}.csv"

    def write(self, seed: int, losses: Array) -> None:
        """Keep one repetition."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(("curve", *(repr(beta) for beta in self.grid.betas)))
        for curve, row in zip(self.grid.curves, losses, strict=True):
            lines.writerow((curve.name, *(repr(float(loss)) for loss in row)))
        write(self.path(seed), [text.getvalue().encode()])

    def read(self, seed: int) -> Array | None:
        """One repetition, or None where it is missing or damaged: then it is run again."""
        try:
            with self.path(seed).open(newline="", encoding="utf-8") as file:
                head, *lines = list(csv.reader(file))
            names = [line[0] for line in lines]
            found = np.array([[float(number) for number in line[1:]] for line in lines])
        except (OSError, ValueError, IndexError, csv.Error):
            return None
        betas = head[1:] == [repr(beta) for beta in self.grid.betas]
        good = betas and names == [curve.name for curve in self.grid.curves]
        if not good or found.shape != (len(self.grid.curves), len(self.grid.betas)) or np.isnan(found).any():
            return None
        return found
