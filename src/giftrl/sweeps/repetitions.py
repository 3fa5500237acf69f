"""Repetitions of a grid on all cores or on a cluster; finished ones are kept on disk, so that a run can resume."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.distributed.ray_crew import connect, import_ray, require_version
from giftrl.errors import InvalidInput, require
from giftrl.files import file_errors, write
from giftrl.reports.loss_summary import Summary
from giftrl.sweeps.data import Data
from giftrl.sweeps.grid import Grid
from giftrl.system import cores

Array = NDArray[np.float64]


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
    cluster: str | None = None,
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
        cluster: a Ray cluster that runs the repetitions, "auto" or "ray://host:port"; None for this process.

    >>> from giftrl import updates
    >>> from giftrl.sweeps.grid import Curve
    >>> data = Data("d", np.eye(2), np.array([1.0, -1.0]), "0" * 64, "raw")
    >>> grid = Grid("hinge", (Curve("proximal", updates.Proximal()),), (0.1, 1.0))
    >>> repeat(data, grid, 2, workers=1).runs.shape
    (2, 1, 2)
    """
    require(repetitions >= 1, "repetitions", repetitions, "must be at least 1", "15 is what the paper uses")
    runs = np.empty((repetitions, len(grid.curves), len(grid.betas)))
    files: list[Path] = []
    if folder is not None:
        kept, name = folder / "repetitions", key(data, grid)
        with file_errors(kept):
            kept.mkdir(parents=True, exist_ok=True)
        files = [kept / f"{name}-{seed + r}.csv" for r in range(repetitions)]
    missing = []
    for r in range(repetitions):
        if files and _read(files[r], runs[r]):
            if done:
                done(True)
        else:
            missing.append(r)

    def keep(r: int, losses: Array) -> None:
        runs[r] = losses
        if files:
            # A line for each curve, a number for each beta.
            lines = [",".join(map(repr, row)) + "\n" for row in losses.tolist()]
            write(files[r], ["".join(lines).encode()])

    if missing and cluster is not None:
        from giftrl.sweeps.repetitions import on_cluster

        for number, losses in on_cluster(cluster, losses_of, (data, grid), [seed + r for r in missing], workers):
            keep(number - seed, losses)
            if done:
                done(False)
    elif missing:
        # One row first, to compile the loops: threads would only wait for each other to compile.
        grid.losses(data.x[:1], data.y[:1])
        pool = ThreadPoolExecutor(max_workers=max(1, workers or cores()))
        try:
            futures = [pool.submit(lambda r: keep(r, losses_of((data, grid), seed + r)), r) for r in missing]
            for finished in as_completed(futures):
                finished.result()
                if done:
                    done(False)
        finally:
            # After an error or Ctrl-C, running repetitions are finished and kept, and no others are started.
            pool.shutdown(wait=True, cancel_futures=True)
    return Summary(tuple(curve.name for curve in grid.curves), grid.betas, runs)


def losses_of(work: tuple[Data, Grid], seed: int) -> Array:
    """The losses of one repetition: a grid over data in the random order of a seed."""
    data, grid = work
    return grid.losses(data.x, data.y, np.random.default_rng(seed).permutation(data.rows))


def _read(path: Path, losses: Array) -> bool:
    """Read the losses of a repetition; False if its file is missing or damaged."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = np.array([[float(loss) for loss in line.split(",")] for line in lines])
    except (OSError, ValueError):
        return False
    if kept.shape != losses.shape or np.isnan(kept).any():
        return False
    losses[:] = kept
    return True


# Repetitions on a Ray cluster, through joblib.

#: The name under which joblib knows the backend.
BACKEND = "giftrl-ray"


def on_cluster(
    cluster: str, task: Callable[[Any, int], Any], shared: Any, numbers: Sequence[int], workers: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Each number with ``task(shared, number)``, in the order in which the results come.

    Args:
        cluster: "auto" for the cluster that this machine belongs to, or "ray://host:port".
        task: a function that every machine can import.
        shared: sent to each machine once.
        numbers: for each of which the task is run.
        workers: how many tasks run at once; None for one on each core of the cluster.
    """
    connect(cluster)
    ray = import_ray()
    cores = int(ray.cluster_resources().get("CPU", 1.0))
    if workers is not None:
        require(
            workers <= cores, "workers", workers, f"must be at most {cores}, the cores of the cluster", "take fewer"
        )
    require_version(ray.get(ray.remote(version).remote("giftrl")))
    _register()
    from joblib import Parallel, delayed, parallel_config

    there = ray.put(shared)
    with parallel_config(BACKEND, n_jobs=min(workers or cores, len(numbers))):
        work = (delayed(_one)(task, there, number) for number in numbers)
        yield from Parallel(return_as="generator_unordered", batch_size=1)(work)


def _one(task: Callable[[Any, int], Any], there: Any, number: int) -> tuple[int, Any]:
    return number, task(import_ray().get(there), number)


def _register() -> None:
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError:
        rule = "needs joblib, which is not installed"
        raise InvalidInput("cluster", "ray", rule, 'pip install "giftrl[ray,experiments]"') from None
    from ray.util.joblib.ray_backend import RayBackend

    # Ray's backend can give results as they come: it calls back, as those do for which joblib allows it.
    register_parallel_backend(BACKEND, type("Backend", (RayBackend,), {"supports_return_generator": True}))
