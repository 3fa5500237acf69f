"""Work ahead: a thread makes the next items while the last one is used."""

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

T = TypeVar("T")

#: How often a thread that waits for its items to be taken checks whether it is still wanted, in seconds.
POLL_SECONDS = 0.1
#: How long to wait for a thread to end; one that waits for standard input may not.
JOIN_SECONDS = 1.0


class Prefetch:
    """Runs an iterator in a thread, ``depth`` items ahead, and raises in the loop over the items what it raises.

    Leaving the loop in any way ends the thread.
    """

    def __init__(self, items: Iterator[T], depth: int = 2) -> None:
        self._items = items
        self._queue: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(depth)
        self._unwanted = threading.Event()
        self._begun, self._ended = False, threading.Event()

    def _put(self, item: Any, problem: BaseException | None) -> None:
        while not self._unwanted.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put((item, problem), timeout=POLL_SECONDS)
                return

    def _work(self) -> None:
        try:
            while not self._unwanted.is_set():
                self._put(next(self._items), None)
        except BaseException as problem:  # the end, too: whatever it is, it is raised in the loop over the items
            self._put(None, problem)
        finally:
            if isinstance(self._items, Generator):
                self._items.close()
            self._ended.set()

    def __iter__(self) -> Iterator[Any]:
        self._begun = True
        threading.Thread(target=self._work, name="giftrl-reader", daemon=True).start()
        try:
            while True:
                item, problem = self._queue.get()
                if isinstance(problem, StopIteration):
                    return
                if problem is not None:
                    raise problem
                yield item
        finally:
            self.close()

    def close(self) -> None:
        """End the thread."""
        self._unwanted.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()
        if self._begun:
            # A signal may have come while the thread was being started, and then it cannot be joined.
            self._ended.wait(JOIN_SECONDS)


R = TypeVar("R")


def ordered_map(items: Iterable[T], workers: Sequence[Callable[[T], R]]) -> Iterator[R]:
    """The results of all items, in order; item k is for worker k modulo their number, and each has a thread.

    So a worker gets its items in order, and what it does with them depends on nothing that another one does. What
    ``items`` raises is raised after the results of all items before.

    >>> list(ordered_map(range(5), [lambda k: ("even", k), lambda k: ("odd", k)]))
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
