"""Repetitions on a Ray cluster, through joblib."""

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

from giftrl.distributed.cluster import connect, import_ray, require_version
from giftrl.errors import InvalidInput, require

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
