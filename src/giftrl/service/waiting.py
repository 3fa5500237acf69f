"""The requests that wait for the writer of a model."""

import threading
from collections import deque

from giftrl.errors import Refused
from giftrl.service.jobs import CLOSE, Job

#: Requests, and bytes of them, that share a commit at most.
TOGETHER, BYTES = 512, 16 << 20


class Waiting:
    """A queue of limited length, into which any thread puts requests and from which one takes them.

    Args:
        most: how many requests may wait.

    >>> waiting = Waiting(1)
    >>> waiting.put(Job(CLOSE))
    >>> [job.kind for job in waiting.take()], len(waiting)
    (['close'], 0)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: deque[Job] = deque()
        self._filled = threading.Condition()
        self._closing = False

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, job: Job, *, always: bool = False) -> None:
        """Queue a request; refused where too many wait already, unless it is to be taken ``always``."""
        with self._filled:
            if self._closing:
                raise Refused(503, "the model is being closed", "try again", retry_after=1)
            if len(self._queue) >= self._most and not always:
                words = f"{self._most} requests wait for this model"
                raise Refused(429, words, "try again after the seconds that Retry-After says", retry_after=1)
            self._closing = job.kind == CLOSE
            self._queue.append(job)
            self._filled.notify()

    def take(self) -> list[Job]:
        """The requests that wait, up to a limit; waits until there is one."""
        with self._filled:
            while not self._queue:
                self._filled.wait()
            jobs: list[Job] = []
            size = 0
            while self._queue and len(jobs) < TOGETHER and size < BYTES:
                job = self._queue.popleft()
                if job.answer.set_running_or_notify_cancel():  # unless nobody waits for it any more
                    jobs.append(job)
                    size += len(job.entry.data)
                if job.kind == CLOSE:
                    break
            return jobs
