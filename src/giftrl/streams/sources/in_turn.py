"""Items that threads work on at the same time, and whose results come in the order of the items."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_turn(items: Iterable[T], workers: Sequence[Callable[[T], R]]) -> Iterator[R]:
    """The results of all items, in order; item k is for worker k modulo their number, and each has a thread.

    So a worker gets its items in order, and what it does with them depends on nothing that another one does. What
    ``items`` raises is raised after the results of all items before.

    >>> list(in_turn(range(5), [lambda k: ("even", k), lambda k: ("odd", k)]))
    [('even', 0), ('odd', 1), ('even', 2), ('odd', 3), ('even', 4)]
    """
    waiting: deque[Future[R]] = deque()
    problem: Exception | None = None
    source = iter(items)
    with ExitStack() as opened:
        pools = [ThreadPoolExecutor(1, "giftrl-parser") for _ in workers]
        for pool in pools:
            opened.callback(pool.shutdown, cancel_futures=True)
        for k in range(1 << 62):
            try:
                item = next(source)
            except StopIteration:
                break
            except Exception as found:
                problem = found
                break
            waiting.append(pools[k % len(pools)].submit(workers[k % len(pools)], item))
            if len(waiting) > len(pools):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    if problem is not None:
        raise problem
