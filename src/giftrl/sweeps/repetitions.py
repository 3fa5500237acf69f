"""Repetitions of a grid on all cores or on a Ray cluster; finished ones are kept on disk, so that a run can resume."""

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require
from giftrl.files import file_errors, write
from giftrl.reports.loss_summary import Summary
from giftrl.sweeps.data import Data
from giftrl.sweeps.grid import Grid
from giftrl.system import cores

Array = NDArray[np.float64]
#: Takes a seed and the losses of its repetition.
Keep = Callable[[int, Array], None]


def key(data: Data, grid: Grid) -> str:
    """A hash of 16 digits of the version, the data and the settings: of everything that losses depend on, but the seed.

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
    cluster: str | None = None,
) -> Summary:
    """Run a grid over the data in several random orders, in one pass each.

    Args:
        data: the examples.
        grid: the models.
        repetitions: the number of random orders.
        seed: the seed of the first order; each further order adds 1.
        workers: the number of repetitions that run at once; None for one on each core.
        folder: the folder of finished repetitions. A repetition in it is read, not run.
        done: called after each repetition, with True if it was read and False if it was run.
        cluster: a Ray cluster that runs the repetitions, "auto" or "ray://host:port"; None for this process.

    >>> from giftrl import updates
    >>> from giftrl.sweeps.grid import Curve
    >>> data = Data("d", np.eye(2), np.array([1.0, -1.0]), "0" * 64, "raw")
    >>> grid = Grid("hinge", (Curve("proximal", updates.Proximal()),), (0.1, 1.0))
    >>> repeat(data, grid, 2, workers=1).runs.shape
    (2, 1, 2)
    """
    require(repetitions >= 1, "repetitions", repetitions, "must be at least 1", "15 is what the paper uses")
    seeds = range(seed, seed + repetitions)
    done = done or (lambda _known: None)
    losses: dict[int, Array] = {}
    files: dict[int, Path] = {}
    if folder is not None:
        kept, name = folder / "repetitions", key(data, grid)
        with file_errors(kept):
            kept.mkdir(parents=True, exist_ok=True)
        files = {number: kept / f"{name}-{number}.csv" for number in seeds}
    for number, path in files.items():
        before = _read(path, (len(grid.curves), len(grid.betas)))
        if before is not None:
            losses[number] = before
            done(True)

    def keep(seed: int, found: Array) -> None:
        losses[seed] = found
        if seed in files:
            # A line for each curve, a number for each beta.
            lines = [",".join(map(repr, row)) + "\n" for row in found.tolist()]
            write(files[seed], ["".join(lines).encode()])

    missing = [number for number in seeds if number not in losses]
    if missing and cluster is None:
        _on_threads((data, grid), missing, workers, keep, done)
    elif missing:
        _on_cluster(cluster or "", (data, grid), missing, workers, keep, done)
    runs = np.array([losses[number] for number in seeds])
    return Summary(tuple(curve.name for curve in grid.curves), grid.betas, runs)


def _read(path: Path, shape: tuple[int, int]) -> Array | None:
    """The losses of a repetition; None if its file is missing or damaged."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        losses = np.array([[float(loss) for loss in line.split(",")] for line in lines])
    except (OSError, ValueError):
        return None
    return None if losses.shape != shape or np.isnan(losses).any() else losses


def _losses_of(work: tuple[Data, Grid], seed: int) -> tuple[int, Array]:
    """A seed, and the losses of a grid over data in its random order."""
    data, grid = work
    return seed, grid.losses(data.x, data.y, np.random.default_rng(seed).permutation(data.rows))


def _on_threads(
    work: tuple[Data, Grid], seeds: Sequence[int], workers: int | None, keep: Keep, done: Callable[[bool], None]
) -> None:
    # One row first, to compile the loops: threads would only wait for each other to compile.
    data, grid = work
    grid.losses(data.x[:1], data.y[:1])
    pool = ThreadPoolExecutor(max_workers=max(1, workers or cores()))
    try:
        for finished in as_completed([pool.submit(lambda seed: keep(*_losses_of(work, seed)), s) for s in seeds]):
            finished.result()
            done(False)
    finally:
        # After an error or Ctrl-C, running repetitions are finished and kept, and no others are started.
        pool.shutdown(wait=True, cancel_futures=True)


def _on_cluster(
    cluster: str, work: tuple[Data, Grid], seeds: Sequence[int], workers: int | None, keep: Keep,
    done: Callable[[bool], None],
) -> None:  # fmt: skip
    from giftrl.distributed.ray_crew import connect, import_ray, require_version

    connect(cluster)
    ray = import_ray()
    most = int(ray.cluster_resources().get("CPU", 1.0))
    if workers is not None:
        require(workers <= most, "workers", workers, f"must be at most {most}, the cores of the cluster", "take fewer")
    require_version(ray.get(ray.remote(version).remote("giftrl")))
    there, task, waiting, running = ray.put(work), ray.remote(_losses_of), list(seeds), list[Any]()
    while waiting or running:
        while waiting and len(running) < (workers or most):
            running.append(task.remote(there, waiting.pop(0)))
        finished, running = ray.wait(running)
        keep(*ray.get(finished[0]))
        done(False)
