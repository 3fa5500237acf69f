"""Predictions: requests that arrive together are answered together, and none waits for a disk."""

import asyncio
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from giftrl.errors import Refused
from giftrl.service.bodies import Answer, Body
from giftrl.service.online_model import OnlineModel
from giftrl.service.provisional_model import ProvisionalModel

#: Bytes of rows that are answered at once without a thread of their own: about a millisecond.
SMALL = 1 << 16
#: Threads that predict for larger requests at the same time.
THREADS = 4


class Asked(NamedTuple):
    """A request for predictions that waits."""

    entry: Body
    answer: "asyncio.Future[Answer]"


class Asking:
    """Predictions of one service, for its event loop."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, str, str], list[Asked]] = {}
        self._threads = asyncio.Semaphore(THREADS)

    async def predict(self, live: ProvisionalModel, entry: Body, kind: str) -> Answer:
        """Predict for rows; without predictions where nothing has been learnt."""
        core = live.core
        if core is None:
            async with self._threads:
                return await run_in_threadpool(live.predict, entry, kind)
        soon = core.predict_soon(entry, kind)  # which takes less time than to wait for others
        if soon is not None:
            return soon
        # The first of its kind may have to wait for a compiler, and a large one takes long: not in the event loop.
        if entry.format not in core.warm or len(entry.data) > SMALL or core.lock.locked():
            async with self._threads:
                return (await run_in_threadpool(core.predict, [entry], kind))[0]
        loop = asyncio.get_running_loop()
        asked = Asked(entry, loop.create_future())
        key = id(core), entry.format, kind
        together = self._waiting.setdefault(key, [])
        together.append(asked)
        if len(together) == 1:
            loop.call_soon(self._answer, core, key)
        return await asked.answer

    def _answer(self, core: OnlineModel, key: tuple[int, str, str]) -> None:
        """Answer all that have come in this turn of the event loop."""
        every = [asked for asked in self._waiting.pop(key) if not asked.answer.done()]
        while every:
            some, size = [], 0
            while every and size <= SMALL:
                some.append(every.pop(0))
                size += len(some[-1].entry.data)
            _answer(core, some, key[2])


def _answer(core: OnlineModel, every: list[Asked], kind: str) -> None:
    try:
        answers = core.predict([asked.entry for asked in every], kind)
    except Refused as refusal:
        if len(every) > 1:  # one of them is to blame
            for asked in every:
                _answer(core, [asked], kind)
        else:
            every[0].answer.set_exception(refusal)
    except Exception as problem:
        for asked in every:
            asked.answer.set_exception(problem)
    else:
        for asked, answer in zip(every, answers, strict=True):
            asked.answer.set_result(answer)
