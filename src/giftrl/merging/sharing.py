"""Work of a merge that is shared by threads: loops over features, rows or experts, each of which is on its own."""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from giftrl.merging.schedule import cut

#: Merging so few features takes no longer than handing them to a thread.
FEW = 1024

Task = Callable[[int, int], object]


class Share(Protocol):
    """Runs a task from 0 to a count, in parts or as a whole; a task takes where its part begins and ends."""

    def __call__(self, task: Task, count: int, few: int = FEW) -> None:
        """Run the task; a part of fewer than ``few`` is not worth a thread."""


def alone(task: Task, count: int, few: int = FEW) -> None:
    """Run a task as a whole."""
    task(0, count)


class Shared:
    """Runs a task in as many parts as there are threads, at the same time: the result is that of :func:`alone`.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     seen = []
    ...     Shared(pool, 2)(lambda first, last: seen.append((first, last)), 10, few=1)
    >>> sorted(seen)
    [(0, 5), (5, 10)]
    """

    def __init__(self, pool: Executor, threads: int) -> None:
        self.pool, self.threads = pool, threads

    def __call__(self, task: Task, count: int, few: int = FEW) -> None:
        parts = min(self.threads, count // few)
        if parts < 2:
            alone(task, count)
        else:
            list(self.pool.map(lambda edge: task(*edge), cut(count, parts)))
