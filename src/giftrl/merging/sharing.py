"""Work of a merge that is shared by threads: loops over features, rows or experts, each of which is on its own."""

from collections.abc import Callable
from concurrent.futures import Executor

from giftrl.merging.schedule import cut

#: Runs a task from 0 to a count, in parts or as a whole; a task takes where its part begins and ends.
Share = Callable[[Callable[[int, int], object], int], None]


def alone(task: Callable[[int, int], object], count: int) -> None:
    """Run a task as a whole."""
    task(0, count)


class Shared:
    """Runs a task in as many parts as there are threads, at the same time: the result is that of :func:`alone`.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     seen = []
    ...     Shared(pool, 2)(lambda first, last: seen.append((first, last)), 10)
    >>> sorted(seen)
    [(0, 5), (5, 10)]
    """

    def __init__(self, pool: Executor, threads: int) -> None:
        self.pool, self.threads = pool, threads

    def __call__(self, task: Callable[[int, int], object], count: int) -> None:
        edges = cut(count, self.threads)
        list(self.pool.map(lambda edge: task(*edge), edges))
