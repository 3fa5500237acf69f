"""Answers that a thread gives to the event loop."""

import asyncio
import threading

import pytest

from giftrl.service.later import Answers
from giftrl.service.writer import Job, JobQueue

pytestmark = pytest.mark.plain


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_answers_that_are_given_together_call_the_loop_once(monkeypatch):
    async def ask():
        loop, calls = asyncio.get_running_loop(), []
        answers = Answers(loop)
        every = [answers.later() for _ in range(100)]
        original = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *what: (calls.append(what), original(*what)))
        in_a_thread(lambda: [each.set_result(k) for k, each in enumerate(every)])
        said = await asyncio.gather(*(each.within(10.0) for each in every))
        assert said == list(range(100)) and len(calls) == 1
        again = answers.later()
        in_a_thread(lambda: again.set_exception(ValueError("no")))
        with pytest.raises(ValueError, match="no"):
            await again.within(10.0)
        assert len(calls) == 2

    asyncio.run(ask())


def test_no_answer_is_lost_while_others_are_handed_over():
    async def ask():
        answers = Answers(asyncio.get_running_loop())
        every = [answers.later() for _ in range(20_000)]
        threads = [threading.Thread(target=lambda k=k: [each.set_result(k) for each in every[k::4]]) for k in range(4)]
        for thread in threads:
            thread.start()
        said = await asyncio.gather(*(each.within(20.0) for each in every))
        assert said == [0, 1, 2, 3] * 5_000

    asyncio.run(ask())


def test_a_job_whose_answer_comes_too_late_is_not_begun_and_a_late_answer_is_dropped():
    async def ask():
        waiting, later = JobQueue(2), Answers(asyncio.get_running_loop()).later()
        waiting.put(Job("learn", answer=later))
        with pytest.raises(TimeoutError):
            await later.within(0.01)
        assert waiting.take() == []
        in_a_thread(lambda: later.set_result(1))
        await asyncio.sleep(0.01)

    asyncio.run(ask())


def test_an_answer_for_a_loop_that_has_ended_is_dropped():
    async def ask():
        return Answers(asyncio.get_running_loop()).later()

    asyncio.run(ask()).set_result(1)
