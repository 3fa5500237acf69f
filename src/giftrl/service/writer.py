"""The time of day that limits are measured by; it never goes back, and does not jump while the service runs."""

import contextlib
import hashlib
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from giftrl.errors import GiftrlError, ModelFileError, Refused
from giftrl.service.bodies import Answer, Body, as_refused, describe_rejected
from giftrl.service.limits import Limits
from giftrl.service.provisional_model import ProvisionalModel, RequestedSettings
from giftrl.service.store import Answered, Store, disk_errors
from giftrl.service.watch import Watch
from giftrl.training.model import LinearModel


class Clock:
    """Seconds since 1970 by the system's clock at the start, and by its steady clock from then on.

    A system's clock that is set while the service runs is not noticed until the service starts again. One that was set
    back before a start is not believed: time goes on from the latest moment that was written down.

    Args:
        latest: the latest moment that an earlier run wrote down.
        wall, steady: the two clocks of the system.

    >>> clock = Clock(latest=1000.0, wall=lambda: 7.0, steady=lambda: 5.0)
    >>> clock.now()
    1000.0
    """

    def __init__(
        self, latest: float = 0.0, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._steady = steady
        self._start = max(latest, wall()) - steady()

    def now(self) -> float:
        """The present moment."""
        return self._start + self._steady()

    def reached(self, moment: float) -> None:
        """Take note of a moment that was written down, which is not later than now."""
        self._start += max(0.0, moment - self.now())


# What the writer of a model is asked to do, and how it answers.

NOTHING = Body("json", b"")
LEARN, LABEL, REMEMBER, NOTE, SAVE, CLOSE = "learn", "label", "remember", "note", "save", "close"


@dataclass(eq=False)
class Job:
    """A request to the writer of a model.

    Args:
        kind: LEARN rows with labels; LABEL rows that were remembered; REMEMBER rows; NOTE facts; SAVE the model; CLOSE
            it.
        entry: the rows; of LABEL, lines with "id" and "label"; of REMEMBER, rows without labels.
        key: the idempotency key, or none.
        facts: values to be written down with the rows.
        path: where to save the model.
        output: the kind of predictions that REMEMBER answers with.
        answer: the future of the answer, or a :class:`giftrl.service.later.Later`.
    """

    kind: str
    entry: Body = NOTHING
    key: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    path: Any = None
    output: str = "label"
    answer: Any = field(default_factory=Future)

    @property
    def digest(self) -> bytes:
        """What tells this request from others."""
        head = orjson.dumps([self.kind, self.entry.format, self.entry.skip, self.output])
        return hashlib.sha256(head + self.entry.data).digest()


def answered(answer: Answer, **more: Any) -> bytes:
    """An answer as JSON.

    >>> answered(Answer([1, None], [], 7))
    b'{"predictions":[1,null],"examples":7}'
    """
    said: dict[str, Any] = {"predictions": answer.predictions, "examples": answer.examples, **more}
    if answer.rejected:
        said["rejected"] = describe_rejected(answer.rejected)
    return orjson.dumps(said)


def with_label(row: bytes, label: Any) -> bytes:
    """A remembered row with its label.

    >>> with_label(b'{"a":1}', "yes")
    b'{"a":1,"label":"yes"}'
    """
    return orjson.dumps(orjson.loads(row) | {"label": label})


def labels_of(entry: Body) -> list[tuple[str, Any]]:
    """The ids and labels in a body of lines such as ``{"id": "...", "label": 1}``."""
    found = []
    for number, line in enumerate(entry.data.splitlines()):
        if not line.strip():
            continue
        try:
            given = orjson.loads(line)
        except orjson.JSONDecodeError:
            given = None
        form = 'send {"id": "...", "label": 1}'
        if not isinstance(given, dict) or set(given) != {"id", "label"} or not isinstance(given["id"], str):
            raise Refused(422, f"line {number + 1} is not an id and a label", form)
        if given["label"] is None or isinstance(given["label"], (dict, list)):
            raise Refused(422, f"the label in line {number + 1} is neither a number nor a text", form)
        found.append((given["id"], given["label"]))
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        raise Refused(422, "an id is there twice", "send each id once")
    return found


def require_waiting(found: Mapping[str, bytes | None]) -> None:
    """Refuse labels unless every prediction waits for its own; the answer says which do not.

    Args:
        found: the remembered rows by id; None where there is none, and empty where it has its label.

    >>> require_waiting({"x": b"", "y": b"{}"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    giftrl.errors.Refused: the prediction 'x' has its label already, and no label of this request was learnt; ...
    """
    unknown = [name for name, row in found.items() if row is None]
    if unknown:
        remedy = "label a prediction within its time, by the id that it was given"
        raise Refused(404, f"no prediction {unknown[0]!r:.60}{_more(unknown)} is remembered", remedy)
    labelled = [name for name, row in found.items() if not row]
    if labelled:
        shown = f"the prediction {labelled[0]!r:.60}{_more(labelled)} has its label already"
        remedy = "send the other ids alone; to repeat a request, use its Idempotency-Key again"
        raise Refused(409, f"{shown}, and no label of this request was learnt", remedy, labelled=labelled)


def _more(names: list[str]) -> str:
    return f", and {len(names) - 1} more," * (len(names) > 1)


def labelled_rows(entry: Body, remembered: Callable[[str], bytes | None]) -> dict[str, bytes]:
    """The remembered rows of a body of labels by their ids, each with its label.

    Args:
        entry: the ids and labels.
        remembered: what gives the row of an id, as :meth:`giftrl.service.store.Store.remembered` does.
    """
    given = labels_of(entry)
    found = {name: remembered(name) for name, _ in given}
    require_waiting(found)
    return {name: with_label(found[name] or b"{}", label) for name, label in given}


def rows_of(entry: Body) -> list[bytes]:
    """The rows of a body in JSON, each as it is to be remembered."""
    if entry.format != "json":
        raise Refused(415, f"rows in {entry.format} cannot be remembered", "send them in JSON")
    rows = []
    for number, line in enumerate(line for line in entry.data.splitlines() if line.strip()):
        try:
            given = orjson.loads(line)
        except orjson.JSONDecodeError as problem:
            raise Refused(422, f"row {number + 1} is not JSON ({problem.msg})", "send one object a line") from None
        if not isinstance(given, dict):
            raise Refused(422, f"row {number + 1} is no JSON object", 'send one object a line, such as {"age": 33}')
        if "label" in given:
            raise Refused(422, f"row {number + 1} has its label already", "send it to learn, or leave out the label")
        rows.append(orjson.dumps(given))
    return rows


# The requests that wait for the writer of a model.

#: Requests, and bytes of them, that share a commit at most.
MAX_COMMIT_JOBS, MAX_COMMIT_BYTES = 512, 16 << 20


class JobQueue:
    """A queue of limited length, into which any thread puts requests and from which one takes them.

    Args:
        most: how many requests may wait.

    >>> waiting = JobQueue(1)
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
            while self._queue and len(jobs) < MAX_COMMIT_JOBS and size < MAX_COMMIT_BYTES:
                job = self._queue.popleft()
                if job.answer.set_running_or_notify_cancel():  # unless nobody waits for it any more
                    jobs.append(job)
                    size += len(job.entry.data)
                if job.kind == CLOSE:
                    break
            return jobs


# The model that a folder holds: its file, and the log of what was learnt since.

#: The model file in the folder of a model.
SNAPSHOT = "model.giftrl"
#: Entries of the log that are learnt at once.
RECOVERED_TOGETHER = 64


class Recovered(NamedTuple):
    """A model, the number of the last entry that it has learnt, and of the last one that its file has."""

    live: ProvisionalModel
    last: int
    saved: int


def recover(folder: Path, store: Store) -> Recovered:
    """The model as it was after the last entry of its log.

    Learning the log entry by entry does again, bit for bit, what was done when the entries came.
    """
    wanted = RequestedSettings(orjson.loads(store.fact("settings") or "{}"))
    path, saved = folder / SNAPSHOT, 0
    model = None
    if path.exists():
        model, more = LinearModel.load(path)
        if not isinstance(more.get("log"), int):
            raise ModelFileError(path, "does not say where its log begins", "restore the folder from a copy")
        saved = more["log"]
    live, last = ProvisionalModel(wanted, model), saved
    waiting: list[Body] = []
    for number, entry in store.entries(saved):
        waiting.append(entry)
        last = number
        if len(waiting) == RECOVERED_TOGETHER:
            _learn(live, waiting)
            waiting = []
    _learn(live, waiting)
    return Recovered(live, last, saved)


def _learn(live: ProvisionalModel, entries: list[Body]) -> None:
    while entries:
        some = entries[: live.together(entries)]
        try:
            live.learn(some)
        except Refused:
            # A label that made a young model be learnt anew came alone, and so it must now.
            if len(some) == 1:
                raise
            for entry in some:
                live.learn([entry])
        entries = entries[len(some) :]


# The one thread that changes a model: requests that wait together are learnt together, and share one sync.
#
# A request is answered when the disk has its rows, and not before. The model in memory may be ahead of the disk by
# the requests that are being committed. If the disk does not take them, they are answered with an error, and the
# model is made again from what the disk has.

#: Entries of the log that are forgotten with one commit.
CUT_AT_ONCE = 64
#: Seconds between two looks for what has expired.
SWEEP_SECONDS = 60.0
#: The fact that is the learning curve of a model.
CURVE = "curve"
#: Commits after which a model counts as busy.
BUSY_COMMITS = 32


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
        self._swept = -SWEEP_SECONDS
        self._ahead = False  # whether the model in memory may be ahead of the disk
        self._failing = False  # whether the disk did not take the last commit
        self._waiting = JobQueue(limits.queue)

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
        if self.watch.commits == BUSY_COMMITS:
            self.store.make_room()
        return found

    def _go_back(self) -> None:
        """Make the model again from what the disk has."""
        self.live, self._last, self._saved = recover(self.folder, self.store)
        self._ahead = False

    def _sweep(self) -> None:
        """Remove a little of what is needed no more."""
        now = self.clock.now()
        self._cut = self._cut or self.store.cut(self._saved, CUT_AT_ONCE)
        if now - self._swept >= SWEEP_SECONDS:
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

    def _learnt(self, jobs: list[Job], entries: list[Body] | None = None) -> list[Answer]:
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
        (answer,) = self._learnt([job], [Body("json", b"".join(row + b"\n" for row in rows.values()))])
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
