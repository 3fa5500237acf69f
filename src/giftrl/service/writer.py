"""The one thread that changes a model: requests that wait together are learnt together, and share one sync.

A request is answered when the disk has its rows, and not before. The model in memory may be ahead of the disk by the
requests that are being committed. If the disk does not take them, they are answered with an error, and the model is
made again from what the disk has.
"""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from giftrl.errors import GiftrlError, ModelFileError, Refused
from giftrl.service.bodies import Entry
from giftrl.service.clock import Clock
from giftrl.service.jobs import CLOSE, LABEL, LEARN, NOTE, REMEMBER, SAVE, Job, answered, labelled_rows, rows_of
from giftrl.service.limits import Limits
from giftrl.service.recovery import SNAPSHOT, recover
from giftrl.service.shares import Answer, as_refused
from giftrl.service.store import Answered, Store, disk_errors
from giftrl.service.waiting import Waiting
from giftrl.service.watch import Watch

#: Entries of the log that are forgotten with one commit.
AT_ONCE = 64
#: Seconds between two looks for what has expired.
SWEEP = 60.0
#: The fact that is the learning curve of a model.
CURVE = "curve"
#: Commits after which a model counts as busy.
BUSY = 32


class Writer(threading.Thread):
    """The writer of one model, and its state; see the module.

    Args:
        folder: of the model, which exists.
        limits: of the service.
        clock: of the service.
    """

    def __init__(self, folder: Path, limits: Limits, clock: Clock) -> None:
        super().__init__(name=f"writer of {folder.name}", daemon=True)
        self.folder, self.limits, self.clock = folder, limits, clock
        self.store = Store(folder / "log.db", limits.sync)
        try:
            self._recover()
        except BaseException:
            self.store.close()
            raise

    def _recover(self) -> None:
        """Read the model file and the log."""
        folder, limits = self.folder, self.limits
        self.watch = Watch()
        self.clock.reached(float(self.store.fact("now") or 0.0))
        self.live, self._last, self._saved = recover(folder, self.store)
        self.watch.go_on(self.store.fact(CURVE), self.live.examples)
        self._cut = False  # whether the log is cut up to what the model file has
        self._log_bytes = self.store.log_bytes(self._saved)
        self._snapshot_at = limits.log
        self._remembered = self.store.count_remembered()
        self._swept = -SWEEP
        self._ahead = False  # whether the model in memory may be ahead of the disk
        self._failing = False  # whether the disk did not take the last commit
        self._waiting = Waiting(limits.queue)

    def submit(self, job: Job, *, always: bool = False) -> Job:
        """Queue a request; refused where too many wait already, unless it is to be taken ``always``."""
        self._waiting.put(job, always=always)
        return job

    def store_fact(self, name: str) -> str | None:
        """A value that was written down when the model was opened, or before."""
        with disk_errors():
            return self.store.fact(name)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    def run(self) -> None:
        """Work until the model is closed."""
        while True:
            jobs = self._waiting.take()
            last = jobs.pop() if jobs and jobs[-1].kind == CLOSE else None
            if jobs:
                self._work(jobs)
            if last is not None:
                self._close(last)
                return

    def _work(self, jobs: list[Job]) -> None:
        """Carry out requests and answer them."""
        try:
            found = self._committed(jobs)
        except BaseException as problem:  # whatever it is, the others go on
            if len(jobs) > 1 and not (isinstance(problem, Refused) and problem.status == 503):
                for job in jobs:  # one of them is to blame
                    self._work([job])
                return
            found = [problem if isinstance(problem, Exception) else RuntimeError()] * len(jobs)
        for job, said in zip(jobs, found, strict=True):
            if isinstance(said, Exception):
                job.answer.set_exception(said)
            else:
                job.answer.set_result(said)
        if self._log_bytes >= self._snapshot_at and not self._ahead:
            self.snapshot()

    def _committed(self, jobs: list[Job]) -> list[Any]:
        """The answers to requests, all of whose effects are on the disk."""
        with disk_errors():
            if self._failing:  # before anything is learnt that could not be kept
                with self.store.transaction():
                    self.store.set_fact("now", str(self.clock.now()))
                self._failing = False
            if self._ahead:
                self._go_back()
        before = self._last, self._log_bytes, self._remembered
        begun = learnt = time.perf_counter()
        try:
            with disk_errors(), self.store.transaction():
                self._sweep()
                found = list(self._carried_out(jobs))
                learnt = time.perf_counter()
        except BaseException as problem:
            self._last, self._log_bytes, self._remembered = before
            self._failing = isinstance(problem, Refused) and problem.status == 503
            if self._ahead:
                with contextlib.suppress(Exception):  # until it succeeds, nothing is learnt
                    self._go_back()
            if isinstance(problem, GiftrlError):
                raise as_refused(problem) from None
            raise
        self._ahead = False
        self.watch.committed(self.live, learnt - begun, time.perf_counter() - learnt)
        if self.watch.commits == BUSY:
            self.store.make_room()
        return found

    def _go_back(self) -> None:
        """Make the model again from what the disk has."""
        self.live, self._last, self._saved = recover(self.folder, self.store)
        self._ahead = False

    def _sweep(self) -> None:
        """Remove a little of what is needed no more."""
        now = self.clock.now()
        self._cut = self._cut or self.store.cut(self._saved, AT_ONCE)
        if now - self._swept >= SWEEP:
            self._swept = now
            self.store.forget(now)
            self.store.set_fact("now", str(now))
            self.store.set_fact(CURVE, self.watch.curve_state())
            self._remembered = self.store.count_remembered()

    def _carried_out(self, jobs: list[Job]) -> Iterator[Any]:
        """The answers to requests, in order; a refusal is an answer."""
        while jobs:
            entries = [job.entry for job in takewhile(lambda job: job.kind == LEARN, jobs)]
            count = self.live.together(entries) if entries else 1
            some, jobs = jobs[:count], jobs[count:]
            if count > 1:
                with contextlib.suppress(Refused):  # of one of them, which is found below
                    yield from self._learn_together(some)
                    continue
            for job in some:
                try:
                    yield self._known(job) or self._one(job)
                except Refused as refusal:
                    if refusal.status == 503:
                        raise
                    self.watch.refused(refusal)
                    yield refusal

    def _one(self, job: Job) -> Any:
        carry_out: dict[str, Callable[[Job], Any]] = {
            LEARN: self._learn, LABEL: self._label, REMEMBER: self._remember, NOTE: self._note,
            SAVE: self._save,
        }  # fmt: skip
        return carry_out[job.kind](job)

    def _learn_together(self, jobs: list[Job]) -> list[bytes]:
        """Learn from several requests at once."""
        found = [self._known(job) for job in jobs]
        new = [job for job, said in zip(jobs, found, strict=True) if said is None]
        keys = [job.key for job in new if job.key is not None]
        if len(set(keys)) < len(keys):
            raise Refused(409, "a key is there twice", "look at one request after the other")
        answers = iter(self._learnt(new) if new else ())
        return [
            self._answer(job, next(answers)) if said is None else said for job, said in zip(jobs, found, strict=True)
        ]

    def _known(self, job: Job) -> bytes | None:
        """The answer that a request with the same key was given."""
        earlier = None if job.key is None else self.store.answered(job.key)
        if earlier is not None and earlier.digest != job.digest:
            raise Refused(422, "this Idempotency-Key was used for another request", "use a new key for each request")
        return None if earlier is None else earlier.answer

    def _learnt(self, jobs: list[Job], entries: list[Entry] | None = None) -> list[Answer]:
        """Learn from the entries of requests, or from others in their place, and write them to the log."""
        entries = entries or [job.entry for job in jobs]
        self._ahead = True
        answers = self.live.learn(entries)
        for entry in entries:
            self._last += 1
            self.store.add(self._last, entry)
            self._log_bytes += len(entry.data)
        for job in jobs:
            self._note(job)
        self.watch.learnt(answers)
        return answers

    def _answer(self, job: Job, answer: Answer, **more: Any) -> bytes:
        """The answer to a request, which is kept under its key."""
        if self.live.waiting:
            more["waiting"] = self.live.waiting
        said = answered(answer, **more)
        if job.key is not None:
            expires = self.clock.now() + self.limits.keys
            self.store.set_answer(job.key, Answered(job.digest, said), expires)
        return said

    def _learn(self, job: Job) -> bytes:
        return self._answer(job, self._learnt([job])[0])

    def _label(self, job: Job) -> bytes:
        """Learn rows that were remembered, with the labels that have come."""
        rows = labelled_rows(job.entry, lambda name: self.store.remembered(name, self.clock.now()))
        (answer,) = self._learnt([job], [Entry("json", b"".join(row + b"\n" for row in rows.values()))])
        for name in rows:
            self.store.set_labelled(name)
        self._remembered -= len(rows)
        return self._answer(job, answer)

    def _remember(self, job: Job) -> bytes:
        """Predict, and keep the rows until their labels come."""
        rows = rows_of(job.entry)
        if self._remembered + len(rows) > self.limits.remembered:
            words = f"{self.limits.remembered} predictions wait for their labels already"
            raise Refused(429, words, "label them, or wait until they expire", retry_after=60)
        answer = self.live.predict(job.entry._replace(skip=False), job.output)
        names = [uuid.uuid4().hex for _ in rows]
        expires = self.clock.now() + self.limits.remember
        for name, row in zip(names, rows, strict=True):
            self.store.remember(name, row, expires)
        self._remembered += len(rows)
        return self._answer(job, answer, ids=names, seconds=self.limits.remember)

    def _note(self, job: Job) -> bytes:
        """Write values down."""
        for name, value in job.facts.items():
            self.store.set_fact(name, value)
        return b"{}"

    def _save(self, job: Job) -> Any:
        """Write the model as ``giftrl train`` would."""
        if self.live.core is None:
            raise Refused(409, "the model has learnt nothing yet", "send rows with two different labels first")
        try:
            self.live.core.model.save(job.path)
        except ModelFileError:
            raise Refused(503, "the model file cannot be written now", "try again later", retry_after=5) from None
        except GiftrlError as problem:
            raise as_refused(problem) from None
        return job.path

    def snapshot(self) -> None:
        """Write the model file, so that the log can be cut; where that fails the log stays, and is tried again."""
        if self.live.core is None or self.live.young:
            return
        self._snapshot_at = self._log_bytes + self.limits.log
        with contextlib.suppress(GiftrlError, OSError):
            self.live.core.model.save(self.folder / SNAPSHOT, {"log": self._last})
            self._saved, self._cut = self._last, False  # the log is cut bit by bit, with later commits
            self._log_bytes, self._snapshot_at = 0, self.limits.log

    def _close(self, job: Job) -> None:
        if self._log_bytes and not self._ahead:
            self.snapshot()
        with contextlib.suppress(Exception):
            with self.store.transaction():
                self.store.cut(self._saved)
                self.store.set_fact(CURVE, self.watch.curve_state())
            self.store.close()
        job.answer.set_result(None)
