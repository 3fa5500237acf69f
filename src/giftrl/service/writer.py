"""The writer thread of a model: waiting requests are learned together in one commit.

A request is answered after its rows are on disk. The model in memory may be ahead of the disk by the requests being
committed. If the commit fails, these get an error, and the model is rebuilt from disk.
"""

import asyncio
import contextlib
import hashlib
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from giftrl.errors import GiftrlError, ModelFileError, Refused
from giftrl.service.bodies import (
    Answer,
    Body,
    as_refused,
    encode,
    labels_of,
    require_unlabelled,
    unlabelled_rows,
)  # fmt: skip
from giftrl.service.online_model import OnlineModel
from giftrl.service.request_limits import Limits
from giftrl.service.requested_settings import RequestedSettings
from giftrl.service.stats import ModelStats
from giftrl.service.store import Answered, ModelStore, disk_errors
from giftrl.training.model import LinearModel

#: Kinds of jobs.
LEARN, LABEL, REMEMBER, NOTE, SAVE, CLOSE = "learn", "label", "remember", "note", "save", "close"
NO_ROWS = Body("json", b"")
#: The files of a model: the model file, and the log since the last save.
SNAPSHOT, LOG_NAME = "model.giftrl", "log.db"
#: The maximum number of jobs, and of bytes, in a commit.
MAX_COMMIT_JOBS, MAX_COMMIT_BYTES = 512, 16 << 20
#: The maximum number of log bodies replayed at once, and deleted per commit.
MAX_RECOVERED_TOGETHER, MAX_CUT_BODIES = 64, 64
#: Seconds between deletions of expired answers and predictions.
SWEEP_SECONDS = 60.0
#: The number of commits after which a model counts as busy.
BUSY_COMMITS = 32
#: The name under which the learning curve is stored.
CURVE = "curve"


class Clock:
    """A monotonic clock in seconds since 1970, initialised by the system's clock at startup. Later changes of the
    system's clock have no effect until the next start. If the clock was set back, time continues from the latest
    recorded moment.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._start = wall() - steady()

    def now(self) -> float:
        """The present moment."""
        return self._start + self._steady()

    def reached(self, moment: float) -> None:
        """Advance to a recorded moment, if it is later than now."""
        self._start += max(0.0, moment - self.now())


@dataclass(eq=False)
class Job:
    """A request to the writer of a model."""

    kind: str  # LEARN labelled rows; LABEL remembered rows; REMEMBER rows; NOTE facts; SAVE or CLOSE the model
    body: Body = NO_ROWS  # rows; for LABEL, lines with "id" and "label"; for REMEMBER, rows without labels
    key: str | None = None  # the idempotency key
    facts: Mapping[str, str] = field(default_factory=dict)  # to be recorded with the rows
    path: Any = None  # the file for SAVE
    output: str = "label"  # the kind of predictions that REMEMBER answers with
    answer: "Future[Any] | asyncio.Future[Any]" = field(default_factory=Future)

    @property
    def digest(self) -> bytes:
        """A digest that identifies the request."""
        head = orjson.dumps([self.kind, self.body.format, self.body.skip, self.output])
        return hashlib.sha256(head + self.body.data).digest()


def recover(folder: Path, store: ModelStore) -> tuple[OnlineModel, int, int]:
    """Rebuild a model by replaying its log, bit for bit. Also returns the numbers of the last learned body, and of the
    last body in the model file.
    """
    path, saved, linear = folder / SNAPSHOT, 0, None
    if path.exists():
        linear, more = LinearModel.load(path)
        if not isinstance(more.get("log"), int):
            raise ModelFileError(path, "does not say where its log begins", "restore the folder from a copy")
        saved = more["log"]
    model, last = OnlineModel(RequestedSettings(orjson.loads(store.fact("settings") or "{}")), linear), saved
    bodies: list[Body] = []
    for last, body in store.bodies(saved):  # noqa: B007
        bodies.append(body)
        if model.is_provisional or len(bodies) == MAX_RECOVERED_TOGETHER:
            model.learn(bodies)
            bodies = []
    if bodies:
        model.learn(bodies)
    return model, last, saved


class Writer(threading.Thread):
    """The writer of the model in a folder, and its state."""

    model: OnlineModel
    stats: ModelStats

    def __init__(self, folder: Path, limits: Limits, clock: Clock) -> None:
        super().__init__(name=f"writer of {folder.name}", daemon=True)
        self.folder, self.limits, self.clock = folder, limits, clock
        self.used = time.monotonic()  # the time of the last request for the model
        self._queue: deque[Job] = deque()
        self._filled = threading.Condition()
        self._closing = False
        self._cut = False  # True when the log is truncated up to the model file
        self._snapshot_at = limits.log  # bytes of the log
        self._swept = -SWEEP_SECONDS
        self.stats = ModelStats()
        self.store = ModelStore(folder / LOG_NAME, limits.sync)
        try:
            clock.reached(float(self.store.fact("now") or 0.0))
            self._recover()
            self.stats.resume(self.store.fact(CURVE), self.model.examples)
        except BaseException:
            self.store.close()
            raise

    def _recover(self) -> None:
        """Rebuild the model and the counts of its log from disk."""
        self.model, self._last, self._saved = recover(self.folder, self.store)
        self._log_bytes = self.store.log_bytes(self._saved)
        self._remembered = self.store.count_remembered()
        self._failed = False  # True after a failed commit; the model may be ahead of the disk

    def submit(self, job: Job, *, always: bool = False) -> Job:
        """Queue a job from any thread; refused if the queue is full, unless ``always``."""
        with self._filled:
            if self._closing:
                raise Refused(503, "the model is being closed", "try again", retry_after=1)
            if len(self._queue) >= self.limits.queue and not always:
                words = f"{self.limits.queue} requests wait for this model"
                raise Refused(429, words, "try again after the seconds that Retry-After says", retry_after=1)
            self._closing = job.kind == CLOSE
            self._queue.append(job)
            self._filled.notify()
        return job

    def save(self, path: Path) -> Job:
        """Queue a job that writes the model to a file, as ``giftrl train`` would."""
        return self.submit(Job(SAVE, path=path))

    def recorded(self, name: str) -> str | None:
        """Return a fact recorded before the model was opened."""
        with disk_errors():
            return self.store.fact(name)

    @property
    def waiting(self) -> int:
        """Number of jobs that wait."""
        return len(self._queue)

    def run(self) -> None:
        """Process jobs until the model is closed."""
        while True:
            jobs = self._take()
            last = jobs.pop() if jobs and jobs[-1].kind == CLOSE else None
            if jobs:
                self._work(jobs)
            if last is not None:
                self._close(last)
                return

    def _take(self) -> list[Job]:
        """Wait for jobs, and take those of the next commit."""
        jobs: list[Job] = []
        size = 0
        with self._filled:
            while not self._queue:
                self._filled.wait()
            while self._queue and len(jobs) < MAX_COMMIT_JOBS and size < MAX_COMMIT_BYTES:
                job = self._queue.popleft()
                if not job.answer.done():  # otherwise the request has timed out
                    jobs.append(job)
                    size += len(job.body.data)
        return jobs

    def _work(self, jobs: list[Job]) -> None:
        """Process jobs and answer them."""
        try:
            answers = self._commit(jobs)
        except BaseException as problem:  # the writer must survive any error
            if len(jobs) > 1 and not (isinstance(problem, Refused) and problem.status == 503):
                for job in jobs:  # one job is at fault
                    self._work([job])
                return
            answers = [problem if isinstance(problem, Exception) else RuntimeError()] * len(jobs)
        deliver(jobs, answers)
        if self._log_bytes >= self._snapshot_at and not self._failed:
            self.snapshot()

    def _commit(self, jobs: list[Job]) -> list[Any]:
        """Process jobs; returns their answers after the commit."""
        if self._failed:
            with self.store.transaction():  # fail before learning if the disk is unusable
                self.store.set_fact("now", str(self.clock.now()))
            with disk_errors():
                self._recover()
        begun = learned = time.perf_counter()
        try:
            with self.store.transaction():
                self._sweep()
                answers = self._carry_out(jobs)
                learned = time.perf_counter()
        except BaseException as problem:
            with contextlib.suppress(Exception):  # otherwise before the next commit
                self._recover()
            self._failed = True
            if isinstance(problem, GiftrlError):
                raise as_refused(problem) from None
            raise
        self.stats.committed(self.model.linear, learned - begun, time.perf_counter() - learned)
        if self.stats.commits == BUSY_COMMITS:
            self.store.make_room()
        return answers

    def _sweep(self) -> None:
        """Delete a part of the saved log, and occasionally expired entries."""
        self._cut = self._cut or self.store.cut(self._saved, MAX_CUT_BODIES)
        now = self.clock.now()
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            self.store.forget(now)
            self.store.set_fact("now", str(now))
            self.store.set_fact(CURVE, orjson.dumps(self.stats.curve).decode())
            self._remembered = self.store.count_remembered()

    def _carry_out(self, jobs: list[Job]) -> list[Any]:
        """Process jobs in order, without a commit; a refusal becomes an answer."""
        if len(jobs) == 1:
            return [self._one(jobs[0])]
        answers: list[Any] = []
        for kind, group in groupby(jobs, lambda job: job.kind):
            some = list(group)
            if kind == LEARN and not self.model.is_provisional:
                with contextlib.suppress(Refused):  # one job is refused below
                    answers += self._learn_together(some)
                    continue
            answers += map(self._one, some)
        return answers

    def _one(self, job: Job) -> Any:
        """Process one job."""
        try:
            known = self._known(job)
            if known is None and job.kind == LEARN:
                return self._encoded(job, self._learn([job], [job.body])[0])
            others = {LABEL: self._label, REMEMBER: self._remember, NOTE: self._note, SAVE: self._save}
            return known or others[job.kind](job)
        except Refused as refusal:
            self.stats.reject(refusal.more.get("rows", []))
            return refusal

    def _known(self, job: Job) -> bytes | None:
        """Return the answer to an earlier request with the same key."""
        earlier = None if job.key is None else self.store.answered(job.key)
        if earlier is not None and earlier.digest != job.digest:
            raise Refused(422, "this Idempotency-Key was used for another request", "use a new key for each request")
        return None if earlier is None else earlier.answer

    def _learn_together(self, jobs: list[Job]) -> list[bytes]:
        """Learn from several requests at once; refuse all if one is invalid."""
        known = [self._known(job) for job in jobs]
        new = [job for job, answer in zip(jobs, known, strict=True) if answer is None]
        keys = [job.key for job in new if job.key is not None]
        if len(set(keys)) < len(keys):
            raise Refused(409, "a key is there twice", "look at one request after the other")
        learned = iter(self._learn(new, [job.body for job in new]) if new else ())
        return [answer or self._encoded(job, next(learned)) for job, answer in zip(jobs, known, strict=True)]

    def _learn(self, jobs: list[Job], bodies: list[Body]) -> list[Answer]:
        """Learn from the bodies of jobs, and write them to the log with the facts of the jobs."""
        answers = self.model.learn(bodies)
        for body in bodies:
            self._last += 1
            self.store.add(self._last, body)
            self._log_bytes += len(body.data)
        for job in jobs:
            if job.facts:
                self._note(job)
        self.stats.learned(answers)
        return answers

    def _encoded(self, job: Job, answer: Answer, **more: Any) -> bytes:
        """Encode the answer to a request, and store it under the key of the request."""
        if self.model.waiting:
            more["waiting"] = self.model.waiting
        encoded = encode(answer, **more)
        if job.key is not None:
            self.store.set_answer(job.key, Answered(job.digest, encoded), self.clock.now() + self.limits.keys)
        return encoded

    def _label(self, job: Job) -> bytes:
        """Learn remembered rows with the labels that have arrived."""
        labels = labels_of(job.body)
        rows = {name: self.store.remembered(name, self.clock.now()) for name in labels}
        require_unlabelled(rows)
        lines = [orjson.dumps(orjson.loads(rows[name] or b"") | {"label": labels[name]}) + b"\n" for name in labels]
        (answer,) = self._learn([job], [Body("json", b"".join(lines))])
        for name in rows:
            self.store.set_labelled(name)
        self._remembered -= len(rows)
        return self._encoded(job, answer)

    def _remember(self, job: Job) -> bytes:
        """Predict, and store the rows until their labels arrive."""
        rows = unlabelled_rows(job.body)
        if self._remembered + len(rows) > self.limits.remembered:
            words = f"{self.limits.remembered} predictions wait for their labels already"
            raise Refused(429, words, "label them, or wait until they expire", retry_after=60)
        (answer,) = self.model.predict([job.body._replace(skip=False)], job.output)
        names = [uuid.uuid4().hex for _ in rows]
        expires = self.clock.now() + self.limits.remember
        for name, row in zip(names, rows, strict=True):
            self.store.remember(name, row, expires)
        self._remembered += len(rows)
        return self._encoded(job, answer, ids=names, seconds=self.limits.remember)

    def _note(self, job: Job) -> bytes:
        """Record facts."""
        for name, value in job.facts.items():
            self.store.set_fact(name, value)
        return b"{}"

    def _save(self, job: Job) -> Any:
        """Write the model as ``giftrl train`` would."""
        if self.model.linear is None:
            raise Refused(409, "the model has learned nothing yet", "send rows with two different labels first")
        try:
            self.model.linear.save(job.path)
        except ModelFileError:
            raise Refused(503, "the model file cannot be written now", "try again later", retry_after=5) from None
        except GiftrlError as problem:
            raise as_refused(problem) from None
        return job.path

    def snapshot(self) -> None:
        """Write the model file, so that the log can be truncated; on failure, the log stays, for a retry."""
        if self.model.linear is None or self.model.is_provisional:
            return
        self._snapshot_at = self._log_bytes + self.limits.log
        with contextlib.suppress(GiftrlError, OSError):
            self.model.linear.save(self.folder / SNAPSHOT, {"log": self._last})
            self._saved, self._cut = self._last, False  # later commits truncate the log in parts
            self._log_bytes, self._snapshot_at = 0, self.limits.log

    def _close(self, job: Job) -> None:
        if self._log_bytes and not self._failed:
            self.snapshot()
        with contextlib.suppress(Exception):
            with self.store.transaction():
                self.store.cut(self._saved)
                self.store.set_fact(CURVE, orjson.dumps(self.stats.curve).decode())
            self.store.close()
        deliver([job], [None])


def deliver(jobs: Sequence[Job], answers: Sequence[Any]) -> None:
    """Deliver answers (or exceptions) from the writer's thread, with one call per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[tuple[Any, Any]]] = {}
    for job, answer in zip(jobs, answers, strict=True):
        loop = job.answer.get_loop() if isinstance(job.answer, asyncio.Future) else None
        by_loop.setdefault(loop, []).append((job.answer, answer))
    for loop, results in by_loop.items():
        if loop is None:
            set_results(results)
            continue
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(set_results, results)


def set_results(results: Sequence[tuple[Any, Any]]) -> None:
    """Set the results of futures that are not cancelled."""
    for future, answer in results:
        if not future.done():
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
