"""Answers that the event loop waits for and a thread gives, many of them with one call of the loop."""

import asyncio
import contextlib
from collections import deque
from typing import Any


class Later:
    """An answer that is still to come, which a writer gives as it gives one to :class:`concurrent.futures.Future`.

    Args:
        answers: of the event loop that waits, and which makes this.
    """

    def __init__(self, answers: "Answers") -> None:
        self._answers = answers
        self._given_up = False
        self.future: asyncio.Future[Any] = answers.loop.create_future()

    def set_running_or_notify_cancel(self) -> bool:
        """Whether anybody waits for it yet."""
        return not self._given_up

    def set_result(self, said: Any) -> None:
        """Give the answer."""
        self._answers.give(self.future, said, None)

    def set_exception(self, problem: BaseException) -> None:
        """Give an error in its place."""
        self._answers.give(self.future, None, problem)

    async def within(self, seconds: float) -> Any:
        """The answer; TimeoutError if it does not come within this time."""
        timer = self._answers.loop.call_later(seconds, self._give_up)
        try:
            return await self.future
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self._given_up = True
        if not self.future.done():
            self.future.set_exception(TimeoutError())


class Answers:
    """The answers of one event loop.

    >>> async def ask():
    ...     later = Answers(asyncio.get_running_loop()).later()
    ...     later.set_result(7)  # as another thread would
    ...     return await later.within(1.0)
    >>> asyncio.run(ask())
    7
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._given: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._called = False  # whether the loop will look at what was given

    def later(self) -> Later:
        """An answer that is still to come."""
        return Later(self)

    def give(self, future: "asyncio.Future[Any]", said: Any, problem: BaseException | None) -> None:
        """Give an answer, from any thread."""
        self._given.append((future, said, problem))
        # The loop forgets that it was called before it looks: what is given now it sees, or it is called again.
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # the loop has been closed, and nobody waits
                self.loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._called = False
        while self._given:
            future, said, problem = self._given.popleft()
            if future.done():  # given up, or cancelled
                continue
            if problem is None:
                future.set_result(said)
            else:
                future.set_exception(problem)
