"""Workers on a Ray cluster, with replacement of dead workers and backup execution for slow ones."""

import os
import re
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from giftrl.distributed.driver import Order, Reply, Worker
from giftrl.distributed.shards import ShardReading
from giftrl.errors import GiftrlError, InvalidInput, require
from giftrl.streams.batch import Batch
from giftrl.workers.merging import SharedState

#: For ``cluster``: workers in this process, one after the other.
SIMULATED_CLUSTER = "simulation"
#: The seconds to wait for the address of a cluster to answer.
ANSWER_SECONDS = 5.0
#: The file with the address of the cluster that this machine belongs to.
CLUSTER_RECORD = Path("/tmp/ray/ray_current_cluster")
#: After half of the replies, a worker is slow if it exceeds this multiple of their median time, and this many seconds.
#: An idle worker then repeats its order, and the first reply is used.
SLOW_FACTOR, MIN_SLOW_SECONDS = 3.0, 10.0
#: The maximum number of worker deaths per order.
MAX_DEATHS = 5
#: Errors of Ray and of the network at start.
START_ERRORS = (ConnectionError, RuntimeError, ValueError, TimeoutError)


def import_ray() -> Any:
    """Ray, or an error that says how to install it."""
    try:
        import ray
    except ImportError:
        raise InvalidInput("cluster", "ray", "needs Ray, which is not installed", 'pip install "giftrl[ray]"') from None
    return ray


def connect(cluster: str | None) -> None:
    """Connect to a cluster, unless this process is connected to one.

    Args:
        cluster: None for this machine alone, "auto" for the cluster that it belongs to, or "ray://host:port".

    >>> try:
    ...     connect("localhost:1")
    ... except InvalidInput as error:
    ...     print(error.argument)
    cluster
    """
    require_address(cluster)
    ray = import_ray()
    if ray.is_initialized():
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if cluster is None:
            ray.init(address="local", include_dashboard=False, **quiet)
        elif cluster == "auto":
            ray.init(address=cluster, **quiet)
        else:  # a Ray client cannot set logging
            ray.init(address=cluster)
    except START_ERRORS as problem:
        reason = " ".join(str(problem).split())[:300] or type(problem).__name__
        remedy = "start one with `ray start --head`, or give ray://host:10001"
        raise InvalidInput("cluster", cluster, f"cannot be reached ({reason})", remedy) from None


def require_version(theirs: str) -> None:
    """Raise an error unless a worker has this version of giftrl."""
    ours = version("giftrl")
    require(theirs == ours, "cluster", theirs, f"is its version of giftrl, and here it is {ours}", "install one")


def require_cluster(cluster: str | None) -> None:
    """Raise an error unless ``cluster`` is a simulation, or Ray at an address that answers."""
    if cluster != SIMULATED_CLUSTER:
        require_address(cluster, simulation=True)
        import_ray()


def require_address(cluster: str | None, simulation: bool = False) -> None:
    """Raise an error unless the address is valid and answers. ``simulation`` adds that option to the message.

    >>> require_address("ray://localhost:1")
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: cluster='ray://localhost:1': nothing answers there ([Errno 111] Connection refused);
    check the address, and start the cluster with `ray start --head`
    """
    if cluster is None:
        return
    if cluster == "auto":
        # Ray would search for a stopped cluster for minutes.
        address = os.environ.get("RAY_ADDRESS", "")
        if not address and CLUSTER_RECORD.is_file():
            address = CLUSTER_RECORD.read_text(encoding="utf-8").strip()
        name, _, number = address.removeprefix("ray://").rpartition(":")
        if name and number.isdecimal():  # otherwise Ray finds out at once
            _require_answer("auto", name, int(number))
        return
    try:
        parts = urlsplit(cluster)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    good = cluster.startswith("ray://") and host is not None and port is not None
    known = 'must be "auto", "simulation" or an address' if simulation else 'must be "auto" or an address'
    require(good, "cluster", cluster, known, "write ray://host:10001")
    _require_answer(cluster, str(host), int(port or 0))


def _require_answer(cluster: str, host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), ANSWER_SECONDS).close()
    except OSError as problem:
        remedy = "check the address, and start the cluster with `ray start --head`"
        raise InvalidInput("cluster", cluster, f"nothing answers there ({problem})", remedy) from None


def _short(problem: Exception) -> str:
    """The message of a Ray exception in one line: the last error in its traceback."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()] or [type(problem).__name__]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    return (errors[-1] if errors else lines[0])[:300]


def _cannot_begin(problem: Exception) -> InvalidInput:
    remedy = f"install giftrl {version('giftrl')} on each machine; `ray logs` shows more"
    return InvalidInput("cluster", "ray", f"its workers cannot begin ({_short(problem)})", remedy)


class _Actor(Worker):
    """A Ray actor with a worker."""

    def version_of_giftrl(self) -> str:
        """The version of giftrl in the actor."""
        return version("giftrl")


class RayCrew:
    """Runs the orders of a round in parallel.

    Args:
        reading: of all shards.
        workers: their number; if there are fewer cores, they share them.
        slow, least: when a worker is slow; see :data:`SLOW_FACTOR`.
    """

    def __init__(
        self, reading: ShardReading, workers: int, *, slow: float = SLOW_FACTOR, least: float = MIN_SLOW_SECONDS
    ) -> None:
        self.ray = ray = import_ray()
        from ray.exceptions import RayError

        self.slow, self.least = slow, least
        self.repeated = 0
        try:
            cores = float(ray.cluster_resources().get("CPU", 1.0))
            self.share = 1.0 if cores >= workers else int(1e4 * cores / workers) / 1e4
            self._actor = ray.remote(num_cpus=self.share)(_Actor)
            self._reading = ray.put(reading)
            self.actors = [self._new() for _ in range(workers)]
            theirs = ray.get(self.actors[0].version_of_giftrl.remote())
        except (RayError, *START_ERRORS) as problem:
            # If a worker cannot import giftrl, Ray wraps the traceback in another error.
            if isinstance(problem, GiftrlError):
                raise
            raise _cannot_begin(problem) from None
        require_version(theirs)

    def _new(self) -> Any:
        return self._actor.remote(self._reading, background=True)

    def round(self, orders: Sequence[Order], state: SharedState, whole: Callable[[], SharedState]) -> list[Reply]:
        """The replies to orders, in their order; see :meth:`giftrl.distributed.driver.Crew.round`."""
        return _Round(self, orders, state, whole).replies()

    def close(self) -> None:
        """Let the workers go."""
        for actor in self.actors:
            self.ray.kill(actor)


def own_arrays(batch: Batch) -> Batch:
    """Copy the arrays of a batch: Ray's are read-only, for which loops would be compiled again."""
    values: dict[str, Any] = {field.name: getattr(batch, field.name) for field in fields(batch)}
    arrays: dict[str, Any] = {name: value.copy() for name, value in values.items() if isinstance(value, np.ndarray)}
    return replace(batch, **arrays)


class _Round:
    """The orders of a round, the workers that carry them out, and the replies so far."""

    def __init__(
        self, crew: RayCrew, orders: Sequence[Order], state: SharedState, whole: Callable[[], SharedState]
    ) -> None:
        self.crew, self.orders, self.ray = crew, orders, crew.ray
        self._state, self._make_whole, self._whole = self.ray.put(state), whole, None
        self._begun = time.perf_counter()
        self._pending: dict[Any, tuple[int, int]] = {}  # the number of the order, and the worker
        self._replies: dict[int, Reply] = {}
        self._seconds: list[float] = []
        self._free: list[int] = []  # workers that have replied
        self._helped: set[int] = set()
        self._deaths = 0
        for number, order in enumerate(orders):
            self._send(number, order.shard, False)

    def _send(self, number: int, worker: int, whole: bool) -> None:
        if whole and self._whole is None:
            self._whole = self.ray.put(self._make_whole())
        state = self._whole if whole else self._state
        self._pending[self.crew.actors[worker].round.remote(self.orders[number], state, whole)] = number, worker

    def replies(self) -> list[Reply]:
        while len(self._replies) < len(self.orders):
            ready, _ = self.ray.wait(list(self._pending), num_returns=1, timeout=1.0)
            for reference in ready:
                self._receive(reference, *self._pending.pop(reference))
            self._help()
        return [self._replies[number] for number in range(len(self.orders))]

    def _receive(self, reference: Any, number: int, worker: int) -> None:
        from ray.exceptions import RayActorError, RayError, RayTaskError

        try:
            reply = self.ray.get(reference)
        except RayActorError as problem:
            self._replace(number, worker, problem)
            return
        except RayTaskError as problem:
            cause = getattr(problem, "cause", None)
            if isinstance(cause, GiftrlError):
                raise cause from None
            raise
        except RayError as problem:
            remedy = "look into the state of the cluster with `ray status`; a run with a checkpoint can be resumed"
            raise InvalidInput("cluster", "ray", f"has lost a reply ({_short(problem)})", remedy) from None
        if reply is None:
            self._send(number, worker, True)
        elif number not in self._replies:
            self._replies[number] = reply._replace(window=tuple(map(own_arrays, reply.window)))
            self._seconds.append(time.perf_counter() - self._begun)
            self._free.append(worker)

    def _replace(self, number: int, worker: int, problem: Exception) -> None:
        if re.match("ModuleNotFoundError|ImportError", _short(problem)):  # a new one may be on this machine
            raise _cannot_begin(problem) from None
        self._deaths += 1
        if self._deaths > MAX_DEATHS:
            raise InvalidInput(
                "cluster", f"worker {worker}", f"has died {self._deaths} times in one round ({_short(problem)})",
                "look into its log with `ray logs`; if memory is short, use fewer workers or fewer bits",
            )  # fmt: skip
        self.crew.repeated += 1
        self.crew.actors[worker] = self.crew._new()
        if number not in self._replies:
            self._send(number, worker, True)

    def _help(self) -> None:
        """Repeat the orders of slow workers on idle ones."""
        if 2 * len(self._replies) < len(self.orders) or not self._free:
            return
        seconds = time.perf_counter() - self._begun
        if seconds < max(self.crew.slow * statistics.median(self._seconds), self.crew.least):
            return
        for number, _ in list(self._pending.values()):
            if number not in self._replies and number not in self._helped and self._free:
                self._helped.add(number)
                self.crew.repeated += 1
                self._send(number, self._free.pop(), True)
