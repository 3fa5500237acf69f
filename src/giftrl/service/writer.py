"""The one thread that changes a model: requests that wait together are learned together, and share one commit.

A request is answered when its rows are on disk, and not before. The model in memory may be ahead of the disk by the
requests that are being committed. If the disk refuses them, they are answered with an error, and the model is made
again from what the disk has.
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
from itertools import takewhile
from pathlib import Path
from typing import Any

import orjson

from giftrl.errors import GiftrlError, ModelFileError, Refused
from giftrl.service.bodies import Answer, Body, as_refused, describe_rejected
from giftrl.service.provisional_model import ProvisionalModel, RequestedSettings
from giftrl.service.request_limits import Limits
from giftrl.service.stats import ModelStats
from giftrl.service.store import Answered, ModelStore, disk_errors
from giftrl.training.model import LinearModel

#: Kinds of jobs.
LEARN, LABEL, REMEMBER, NOTE, SAVE, CLOSE = "learn", "label", "remember", "note", "save", "close"
NO_ROWS = Body("json", b"")
#: The model file in the folder of a model.
SNAPSHOT = "model.giftrl"
#: Jobs, and bytes of them, that share a commit at most.
MAX_COMMIT_JOBS, MAX_COMMIT_BYTES = 512, 16 << 20
#: Bodies of the log that are learned at once when a model is opened.
MAX_RECOVERED_TOGETHER = 64
#: Bodies of the log that are deleted with one commit.
MAX_CUT_BODIES = 64
#: Seconds between two searches for expired answers and predictions.
SWEEP_SECONDS = 60.0
#: Commits after which a model counts as busy.
BUSY_COMMITS = 32
#: The fact that holds the learning curve of a model.
CURVE = "curve"


class Clock:
    """Seconds since 1970: the system's clock when the service starts, and its steady clock from then on.

    Changes of the system's clock are therefore noticed at the next start only. A clock that was set back before a start
    is not believed: time continues from the latest moment on record.

    Args:
        latest: the latest moment that an earlier run recorded.
        wall, steady: the two clocks of the system.

    >>> Clock(latest=1000.0, wall=lambda: 7.0, steady=lambda: 5.0).now()
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
        """Move on to a recorded moment, if it is later than now."""
        self._start += max(0.0, moment - self.now())


@dataclass(eq=False)
class Job:
    """A request to the writer of a model.

    Args:
        kind: LEARN labelled rows; LABEL remembered rows; REMEMBER rows; NOTE facts; SAVE or CLOSE the model.
        body: the rows; for LABEL, lines with "id" and "label"; for REMEMBER, rows without labels.
        key: the idempotency key, or none.
        facts: values to be recorded with the rows.
        path: the file for SAVE.
        output: the kind of predictions that REMEMBER answers with.
        answer: receives the answer; a future of asyncio receives it in its event loop.
    """

    kind: str
    body: Body = NO_ROWS
    key: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    path: Any = None
    output: str = "label"
    answer: "Future[Any] | asyncio.Future[Any]" = field(default_factory=Future)

    @property
    def digest(self) -> bytes:
        """Digest that tells this request from others."""
        head = orjson.dumps([self.kind, self.body.format, self.body.skip, self.output])
        return hashlib.sha256(head + self.body.data).digest()


def recover(folder: Path, store: ModelStore) -> tuple[ProvisionalModel, int, int]:
    """Make the model as it was after the last body of its log, by learning that log again, bit for bit.

    Returns:
        the model, the number of the last body that it has learned, and of the last one that its file has.
    """
    path, saved, linear = folder / SNAPSHOT, 0, None
    if path.exists():
        linear, more = LinearModel.load(path)
        if not isinstance(more.get("log"), int):
            raise ModelFileError(path, "does not say where its log begins", "restore the folder from a copy")
        saved = more["log"]
    model, last = ProvisionalModel(RequestedSettings(orjson.loads(store.fact("settings") or "{}")), linear), saved
    bodies: list[Body] = []
    for last, body in store.bodies(saved):  # noqa: B007
        bodies.append(body)
        if len(bodies) == MAX_RECOVERED_TOGETHER:
            _relearn(model, bodies)
            bodies = []
    _relearn(model, bodies)
    return model, last, saved


def _relearn(model: ProvisionalModel, bodies: list[Body]) -> None:
    while bodies:
        some = bodies[: model.together(bodies)]
        try:
            model.learn(some)
        except Refused:
            # A label that made a provisional model be learned anew came alone, and so it must now.
            if len(some) == 1:
                raise
            for body in some:
                model.learn([body])
        bodies = bodies[len(some) :]


class Writer(threading.Thread):
    """The writer of one model, and its state.

    Args:
        folder: of the model, which exists.
        limits: of the service.
        clock: of the service.
    """

    def __init__(self, folder: Path, limits: Limits, clock: Clock) -> None:
        super().__init__(name=f"writer of {folder.name}", daemon=True)
        self.folder, self.limits, self.clock = folder, limits, clock
        self._queue: deque[Job] = deque()
        self._filled = threading.Condition()
        self._closing = False
        self.store = ModelStore(folder / "log.db", limits.sync)
        try:
            self._open()
        except BaseException:
            self.store.close()
            raise

    def _open(self) -> None:
        """Read the model file and the log."""
        self.clock.reached(float(self.store.fact("now") or 0.0))
        self.model, self._last, self._saved = recover(self.folder, self.store)
        self.stats = ModelStats()
        self.stats.resume(self.store.fact(CURVE), self.model.examples)
        self._cut = False  # True when the log is cut up to the model file
        self._log_bytes = self.store.log_bytes(self._saved)
        self._snapshot_at = self.limits.log
        self._remembered = self.store.count_remembered()
        self._swept = -SWEEP_SECONDS
        self._ahead = False  # True while the model in memory may be ahead of the disk
        self._failing = False  # True if the disk refused the last commit

    def submit(self, job: Job, *, always: bool = False) -> Job:
        """Queue a job from any thread; refused if too many wait, unless it is to be queued ``always``."""
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
        """Return a fact that was recorded when the model was opened, or before."""
        with disk_errors():
            return self.store.fact(name)

    @property
    def waiting(self) -> int:
        """Number of jobs that wait."""
        return len(self._queue)

    def run(self) -> None:
        """Work until the model is closed."""
        while True:
            jobs = self._take()
            last = jobs.pop() if jobs and jobs[-1].kind == CLOSE else None
            if jobs:
                self._work(jobs)
            if last is not None:
                self._close(last)
                return

    def _take(self) -> list[Job]:
        """Wait for jobs, and take as many as share a commit."""
        jobs: list[Job] = []
        size = 0
        with self._filled:
            while not self._queue:
                self._filled.wait()
            while self._queue and len(jobs) < MAX_COMMIT_JOBS and size < MAX_COMMIT_BYTES:
                job = self._queue.popleft()
                if not job.answer.done():  # otherwise the request was given up
                    jobs.append(job)
                    size += len(job.body.data)
                if job.kind == CLOSE:
                    break
        return jobs

    def _work(self, jobs: list[Job]) -> None:
        """Carry out jobs and answer them."""
        try:
            answers = self._commit(jobs)
        except BaseException as problem:  # the writer goes on, whatever it is
            if len(jobs) > 1 and not (isinstance(problem, Refused) and problem.status == 503):
                for job in jobs:  # one of them is to blame
                    self._work([job])
                return
            answers = [problem if isinstance(problem, Exception) else RuntimeError()] * len(jobs)
        deliver(jobs, answers)
        if self._log_bytes >= self._snapshot_at and not self._ahead:
            self.snapshot()

    def _commit(self, jobs: list[Job]) -> list[Any]:
        """Carry out jobs, and return their answers when all effects are on disk."""
        if self._failing:  # before anything is learned that could not be kept
            with self.store.transaction():
                self.store.set_fact("now", str(self.clock.now()))
            self._failing = False
        if self._ahead:
            with disk_errors():
                self._go_back()
        before = self._last, self._log_bytes, self._remembered
        begun = learned = time.perf_counter()
        try:
            with self.store.transaction():
                self._sweep()
                answers = self._carry_out(jobs)
                learned = time.perf_counter()
        except BaseException as problem:
            self._last, self._log_bytes, self._remembered = before
            self._failing = isinstance(problem, Refused) and problem.status == 503
            if self._ahead:
                with contextlib.suppress(Exception):  # nothing is learned until it succeeds
                    self._go_back()
            if isinstance(problem, GiftrlError):
                raise as_refused(problem) from None
            raise
        self._ahead = False
        online = self.model.online
        self.stats.committed(None if online is None else online.model, learned - begun, time.perf_counter() - learned)
        if self.stats.commits == BUSY_COMMITS:
            self.store.make_room()
        return answers

    def _go_back(self) -> None:
        """Make the model again from what the disk has."""
        self.model, self._last, self._saved = recover(self.folder, self.store)
        self._ahead = False

    def _sweep(self) -> None:
        """Delete some of the log that the model file has, and now and then what has expired."""
        self._cut = self._cut or self.store.cut(self._saved, MAX_CUT_BODIES)
        now = self.clock.now()
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            self.store.forget(now)
            self.store.set_fact("now", str(now))
            self.store.set_fact(CURVE, self.stats.curve_state())
            self._remembered = self.store.count_remembered()

    def _carry_out(self, jobs: list[Job]) -> list[Any]:
        """Carry out jobs in order, without a commit; a refusal is an answer."""
        answers: list[Any] = []
        while jobs:
            count = 1
            if len(jobs) > 1 and jobs[0].kind == LEARN:
                count = self.model.together([job.body for job in takewhile(lambda job: job.kind == LEARN, jobs)])
            some, jobs = jobs[:count], jobs[count:]
            if count > 1:
                with contextlib.suppress(Refused):  # one job is refused below
                    answers += self._learn_together(some)
                    continue
            for job in some:
                try:
                    answers.append((job.key and self._known(job)) or self._one(job))
                except Refused as refusal:
                    if refusal.status == 503:
                        raise
                    self.stats.reject(refusal.more.get("rows", []))
                    answers.append(refusal)
        return answers

    def _one(self, job: Job) -> Any:
        if job.kind == LEARN:
            return self._encoded(job, self._learn([job], [job.body])[0])
        others = {LABEL: self._label, REMEMBER: self._remember, NOTE: self._note, SAVE: self._save}
        return others[job.kind](job)

    def _learn_together(self, jobs: list[Job]) -> list[bytes]:
        """Learn from several requests at once."""
        known = [self._known(job) for job in jobs]
        new = [job for job, answer in zip(jobs, known, strict=True) if answer is None]
        keys = [job.key for job in new if job.key is not None]
        if len(set(keys)) < len(keys):
            raise Refused(409, "a key is there twice", "look at one request after the other")
        learned = iter(self._learn(new, [job.body for job in new]) if new else ())
        return [answer or self._encoded(job, next(learned)) for job, answer in zip(jobs, known, strict=True)]

    def _known(self, job: Job) -> bytes | None:
        """Return the answer that an earlier request with the same key got."""
        earlier = None if job.key is None else self.store.answered(job.key)
        if earlier is not None and earlier.digest != job.digest:
            raise Refused(422, "this Idempotency-Key was used for another request", "use a new key for each request")
        return None if earlier is None else earlier.answer

    def _learn(self, jobs: list[Job], bodies: list[Body]) -> list[Answer]:
        """Learn from the bodies of jobs, and write them to the log with the facts of the jobs."""
        self._ahead = True
        answers = self.model.learn(bodies)
        for body in bodies:
            self._last += 1
            self.store.add(self._last, body)
            self._log_bytes += len(body.data)
        for job in jobs:
            for name, value in job.facts.items():
                self.store.set_fact(name, value)
        self.stats.learned(answers)
        return answers

    def _encoded(self, job: Job, answer: Answer, **more: Any) -> bytes:
        """Encode the answer to a request, and store it under the key of the request."""
        if self.model.waiting:
            more["waiting"] = self.model.waiting
        encoded = encode(answer, **more)
        if job.key is not None:
            expires = self.clock.now() + self.limits.keys
            self.store.set_answer(job.key, Answered(job.digest, encoded), expires)
        return encoded

    def _label(self, job: Job) -> bytes:
        """Learn remembered rows with the labels that have arrived."""
        labels = labels_of(job.body)
        rows = {name: self.store.remembered(name, self.clock.now()) for name in labels}
        require_unlabelled(rows)
        lines = [with_label(rows[name] or b"", label) + b"\n" for name, label in labels.items()]
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
        answer = self.model.predict(job.body._replace(skip=False), job.output)
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
        if self.model.online is None:
            raise Refused(409, "the model has learned nothing yet", "send rows with two different labels first")
        try:
            self.model.online.model.save(job.path)
        except ModelFileError:
            raise Refused(503, "the model file cannot be written now", "try again later", retry_after=5) from None
        except GiftrlError as problem:
            raise as_refused(problem) from None
        return job.path

    def snapshot(self) -> None:
        """Write the model file, so that the log can be cut; if that fails, the log stays, and it is tried again."""
        if self.model.online is None or self.model.is_provisional:
            return
        self._snapshot_at = self._log_bytes + self.limits.log
        with contextlib.suppress(GiftrlError, OSError):
            self.model.online.model.save(self.folder / SNAPSHOT, {"log": self._last})
            self._saved, self._cut = self._last, False  # later commits cut the log piece by piece
            self._log_bytes, self._snapshot_at = 0, self.limits.log

    def _close(self, job: Job) -> None:
        if self._log_bytes and not self._ahead:
            self.snapshot()
        with contextlib.suppress(Exception):
            with self.store.transaction():
                self.store.cut(self._saved)
                self.store.set_fact(CURVE, self.stats.curve_state())
            self.store.close()
        deliver([job], [None])


def deliver(jobs: Sequence[Job], answers: Sequence[Any]) -> None:
    """Answer jobs from the thread of a writer, with one call of each event loop; an exception is an answer too."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(job.answer, asyncio.Future):
            by_loop.setdefault(job.answer.get_loop(), []).append((job.answer, answer))
        else:
            _set(job.answer, answer)
    for loop, results in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(_set_all, results)


def _set_all(results: "list[tuple[asyncio.Future[Any], Any]]") -> None:
    for future, answer in results:
        if not future.done():  # otherwise the request was given up
            _set(future, answer)


def _set(future: "Future[Any] | asyncio.Future[Any]", answer: Any) -> None:
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def encode(answer: Answer, **more: Any) -> bytes:
    """Encode an answer as JSON.

    >>> encode(Answer([1, None], [], 7))
    b'{"predictions":[1,null],"examples":7}'
    """
    parts: dict[str, Any] = {"predictions": answer.predictions, "examples": answer.examples, **more}
    if answer.rejected:
        parts["rejected"] = describe_rejected(answer.rejected)
    return orjson.dumps(parts)


def with_label(row: bytes, label: Any) -> bytes:
    """Add the label to a remembered row.

    >>> with_label(b'{"a":1}', "yes")
    b'{"a":1,"label":"yes"}'
    """
    return orjson.dumps(orjson.loads(row) | {"label": label})


def json_lines(body: Body) -> list[tuple[int, Any]]:
    """Return the number and the JSON value of each line that is not blank; None for a line that is no JSON."""
    values = []
    for number, line in enumerate(body.data.splitlines(), 1):
        if line.strip():
            try:
                values.append((number, orjson.loads(line)))
            except orjson.JSONDecodeError:
                values.append((number, None))
    return values


def labels_of(body: Body) -> dict[str, Any]:
    """Return the labels by id in a body of lines such as ``{"id": "...", "label": 1}``."""
    form = 'send {"id": "...", "label": 1}'
    if body.format != "json":
        raise Refused(415, "labels come in JSON", form)
    labels: dict[str, Any] = {}
    for number, given in json_lines(body):
        if not isinstance(given, dict) or set(given) != {"id", "label"} or not isinstance(given["id"], str):
            raise Refused(422, f"line {number} is not an id and a label", form)
        if given["label"] is None or isinstance(given["label"], (dict, list)):
            raise Refused(422, f"the label in line {number} is neither a number nor a text", form)
        if given["id"] in labels:
            raise Refused(422, "an id is there twice", "send each id once")
        labels[given["id"]] = given["label"]
    return labels


def unlabelled_rows(body: Body) -> list[bytes]:
    """Return the rows of a body in JSON, as they are to be remembered."""
    if body.format != "json":
        raise Refused(415, f"rows in {body.format} cannot be remembered", "send them in JSON")
    rows = json_lines(body)
    for number, row in rows:
        if not isinstance(row, dict):
            raise Refused(422, f"row {number} is no JSON object", 'send one object a line, such as {"age": 33}')
        if "label" in row:
            raise Refused(422, f"row {number} has its label already", "send it to learn, or leave out the label")
    return [orjson.dumps(row) for _, row in rows]


def require_unlabelled(rows: Mapping[str, bytes | None]) -> None:
    """Refuse labels unless every prediction waits for its label; the answer lists those that do not.

    Args:
        rows: the remembered rows by id; None for an unknown id, and empty for one that has its label.

    >>> require_unlabelled({"x": b"", "y": b"{}"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    giftrl.errors.Refused: the prediction 'x' has its label already, and no label of this request was learned; ...
    """

    def named(names: list[str]) -> str:
        return f"prediction {names[0]!r:.60}" + f", and {len(names) - 1} more," * (len(names) > 1)

    unknown = [name for name, row in rows.items() if row is None]
    if unknown:
        remedy = "label a prediction within its time, by the id that it was given"
        raise Refused(404, f"no {named(unknown)} is remembered", remedy)
    labelled = [name for name, row in rows.items() if not row]
    if labelled:
        words = f"the {named(labelled)} has its label already, and no label of this request was learned"
        remedy = "send the other ids alone; to repeat a request, use its Idempotency-Key again"
        raise Refused(409, words, remedy, labelled=labelled)
