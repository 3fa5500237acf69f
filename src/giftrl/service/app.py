"""The routes of a service and their handlers, and the thread that compiles loops before a request needs them.

The first row that a model learns takes some twenty seconds if its loops must be compiled. That is once on a machine, as
compiled loops are stored in files. :class:`WarmUp` has small models of the same settings learn and predict a few rows
ahead of the first request.
"""

import asyncio
import base64
import functools
import hashlib
import logging
import queue
import re
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson

from giftrl.errors import Refused
from giftrl.service.bodies import Answer, Body
from giftrl.service.folder import Folder
from giftrl.service.http import LOOPBACK, NO_TOKEN, Http, HttpReply, Request, Route, openapi
from giftrl.service.online_model import LABEL as LABEL_OUTPUT
from giftrl.service.online_model import OUTPUTS, OnlineModel
from giftrl.service.provisional_model import ProvisionalModel, RequestedSettings
from giftrl.service.request_limits import LEARN as LEARN_TOKEN
from giftrl.service.request_limits import READ as READ_TOKEN
from giftrl.service.request_limits import Tokens
from giftrl.service.stats import MAX_CERTIFY_SECONDS, brief, details, prometheus
from giftrl.service.writer import LABEL, LEARN, NO_ROWS, REMEMBER, SAVE, Job, Writer, encode

T = TypeVar("T")
log = logging.getLogger("giftrl.service")

#: Event streams at the same time, at most.
MAX_LISTENERS = 64
#: Bytes of rows that are scored in the event loop: about a millisecond.
MAX_SMALL_BYTES = 1 << 16
#: Threads for requests that wait for files, and for larger predictions.
FILE_THREADS, PREDICTION_THREADS = 32, 4
#: Permissions of the page: run its own script, and talk to the service that it came from.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; connect-src 'self'; base-uri 'none'"

#: Candidate labels; every loss accepts at least two of them.
CANDIDATE_LABELS = (0.0, 1.0, -1.0, 0.5, 2.0)
#: The small models have two to this power coordinates.
SMALL_BITS = 4


class WarmUp(threading.Thread):
    """A thread that compiles the loops of models, one after the other.

    >>> WarmUp().ready
    True
    """

    def __init__(self) -> None:
        super().__init__(name="compiles loops", daemon=True)
        self._asked: set[bytes] = set()
        self._done = 0
        self._queue: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    @property
    def ready(self) -> bool:
        """True if nothing is left to be compiled."""
        return self._done == len(self._asked)

    def ask(self, given: dict[str, Any]) -> None:
        """Have loops compiled for models of these settings, unless that was asked before."""
        key = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
        if key not in self._asked:
            self._asked.add(key)
            self._queue.put(given)

    def run(self) -> None:
        """Compile loops until the process ends."""
        while True:
            given = self._queue.get()
            try:
                compile_loops(given)
            except Exception as problem:  # a request meets it again, and is told
                log.warning("loops for %.200r could not be compiled: %s", given, problem)
            self._done += 1


class Service:
    """The service of a folder.

    Args:
        folder: of the models.
        tokens: of the service.
        host: the address that it listens at.
        warm_up: compiles loops for new models, if given.
    """

    def __init__(
        self, folder: Folder, tokens: Tokens | None = None, host: str = "127.0.0.1", warm_up: WarmUp | None = None
    ) -> None:
        self.folder, self.limits, self.warm_up = folder, folder.limits, warm_up
        self.ending: Callable[[], bool] = lambda: False  # True once the service has been asked to end
        self._listeners = 0
        self._files = ThreadPoolExecutor(FILE_THREADS, "request")
        self._predictions = ThreadPoolExecutor(PREDICTION_THREADS, "prediction")
        self._batches: dict[tuple[OnlineModel, str, str], list[tuple[Body, asyncio.Future[Answer]]]] = {}
        tokens = tokens or Tokens()
        self.app = Http(self.routes(), self.limits, tokens, None if tokens.needed else LOOPBACK | {host})

    def routes(self) -> dict[tuple[str, str], Route]:
        """The routes by method and path."""
        model = "/models/{name}"
        return {
            ("GET", "/"): Route("page", NO_TOKEN, self.page),
            ("GET", "/healthz"): Route("healthz", NO_TOKEN, self.healthz),
            ("GET", "/readyz"): Route("readyz", NO_TOKEN, self.readyz),
            ("GET", "/openapi.json"): Route("openapi", NO_TOKEN, self.openapi),
            ("GET", "/metrics"): Route("metrics", READ_TOKEN, self.metrics),
            ("GET", "/models"): Route("list", READ_TOKEN, self.list),
            ("PUT", model): Route("create", LEARN_TOKEN, self.create),
            ("GET", model): Route("show", READ_TOKEN, self.show),
            ("DELETE", model): Route("delete", LEARN_TOKEN, self.delete),
            ("POST", f"{model}/learn"): Route("learn", LEARN_TOKEN, self.learn),
            ("POST", f"{model}/predict"): Route("predict", READ_TOKEN, self.predict),
            ("POST", f"{model}/label"): Route("label", LEARN_TOKEN, self.label),
            ("GET", f"{model}/file"): Route("file", READ_TOKEN, self.file),
            ("GET", f"{model}/events"): Route("events", READ_TOKEN, self.events),
        }

    def close(self) -> None:
        """End the threads."""
        self._files.shutdown()
        self._predictions.shutdown()

    async def _in_thread(self, call: Callable[..., T], *given: Any) -> T:
        """Call a function that may wait for files."""
        return await asyncio.get_running_loop().run_in_executor(self._files, call, *given)

    async def _writer(self, name: str) -> Writer:
        """The writer of a model, which is opened if it is closed."""
        writer = self.folder.opened(name)
        return await self._in_thread(self.folder.get, name) if writer is None else writer

    async def _written(self, request: Request, writer: Writer, kind: str, body: Body = NO_ROWS, **more: Any) -> Any:
        """Have the writer of a model carry out a job; return its answer."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        job = Job(kind, body, request.key, answer=future, **more)
        for trial in range(3):
            try:
                writer.submit(job)
                break
            except Refused as refusal:
                if refusal.status != 503 or trial == 2:
                    raise
                await asyncio.sleep(0.05)  # the model is being closed, to make room for another one
                writer = await self._writer(request.name)
        begun = time.perf_counter()
        timer = loop.call_later(self.limits.seconds, self._give_up, future)
        try:
            answer = await future
        finally:
            timer.cancel()
        writer.stats.took(kind, time.perf_counter() - begun)
        return answer

    def _give_up(self, future: "asyncio.Future[Any]") -> None:
        """Refuse a request whose answer has not come in time."""
        if not future.done():
            words = f"there is no answer after {self.limits.seconds:g} seconds, and the rows may be learned or not"
            future.set_exception(Refused(504, words, "send the request again with the same Idempotency-Key"))

    async def page(self, request: Request) -> HttpReply:
        """The page about all models."""
        return HttpReply(page().encode(), b"text/html; charset=utf-8", headers=page_headers())

    async def healthz(self, request: Request) -> bytes:
        """Liveness."""
        return b'{"status":"ok"}'

    async def readyz(self, request: Request) -> bytes:
        """Readiness: no request has to wait for a compiler."""
        if self.warm_up is not None and not self.warm_up.ready:
            raise Refused(503, "loops are being compiled", "requests are answered, the first ones late", retry_after=1)
        return b'{"status":"ready"}'

    async def openapi(self, request: Request) -> bytes:
        """The description of all requests."""
        return orjson.dumps(openapi())

    async def metrics(self, request: Request) -> HttpReply:
        """Metrics for Prometheus."""
        text = prometheus(self.folder, self.app.requests)
        return HttpReply(text.encode(), b"text/plain; version=0.0.4; charset=utf-8")

    async def list(self, request: Request) -> bytes:
        """The names of all models, and the examples of those in memory."""
        names = await self._in_thread(lambda: self.folder.names)
        writers = self.folder.writers
        examples = {name: writers[name].model.examples if name in writers else None for name in names}
        models = [{"name": name, "open": name in writers, "examples": count} for name, count in examples.items()]
        return orjson.dumps({"models": models})

    async def create(self, request: Request) -> HttpReply:
        """Create a model."""
        given = await request.json()
        created = await self._in_thread(self.folder.create, request.name, given)
        if self.warm_up is not None:
            self.warm_up.ask(given)
        parts = {"name": request.name, "created": created, "settings": given}
        return HttpReply(orjson.dumps(parts), status=201 if created else 200)

    async def show(self, request: Request) -> bytes:
        """Counts, loss, certificate and base learners of a model."""
        seconds = request.number("certify", MAX_CERTIFY_SECONDS)
        writer = await self._writer(request.name)
        parts = {"name": request.name} | await self._in_thread(details, writer, seconds)
        return self._with_source(request.name, parts)

    def _with_source(self, name: str, parts: dict[str, Any]) -> bytes:
        """Encode the state of a model, with that of the source that it follows."""
        followed = self.folder.followed.get(name)
        parts |= {} if followed is None else {"followed": asdict(followed)}
        return orjson.dumps(parts, option=orjson.OPT_SERIALIZE_NUMPY)

    async def delete(self, request: Request) -> bytes:
        """Delete a model if its name is given twice."""
        if request.options.get("confirm") != request.name:
            words = "deleting a model loses everything it has learned, so its name must be given again"
            raise Refused(400, words, "send DELETE /models/NAME?confirm=NAME, with the name twice")
        await self._in_thread(self.folder.delete, request.name)
        return orjson.dumps({"name": request.name, "deleted": True})

    async def learn(self, request: Request) -> Any:
        """Learn from labelled rows."""
        writer = await self._writer(request.name)  # before the body is read for a model that does not exist
        return await self._written(request, writer, LEARN, await request.rows())

    async def predict(self, request: Request) -> Any:
        """Predict for rows."""
        writer = await self._writer(request.name)
        output = chosen_output(request) if request.options else LABEL_OUTPUT
        body = await request.rows()
        if request.options and request.flag("remember"):
            return await self._written(request, writer, REMEMBER, body, output=output)
        begun, online = time.perf_counter(), writer.model.online
        answer = None if online is None else online.predict_soon(body, output)
        if answer is None:
            answer = await self._predicted(writer, body, output)
        writer.stats.took("predict", time.perf_counter() - begun)
        return encode(answer)

    async def _predicted(self, writer: Writer, body: Body, output: str) -> Answer:
        """Predict in a thread, or together with all small requests of this turn of the event loop."""
        loop, online = asyncio.get_running_loop(), writer.model.online
        small = len(body.data) <= MAX_SMALL_BYTES
        if online is None or not small or body.format not in online.compiled_formats or online.lock.locked():
            return await loop.run_in_executor(self._predictions, writer.model.predict, body, output)
        future: asyncio.Future[Answer] = loop.create_future()
        key = online, body.format, output
        if key not in self._batches:
            self._batches[key] = []
            loop.call_soon(self._predict_batch, key)
        self._batches[key].append((body, future))
        return await future

    def _predict_batch(self, key: tuple[OnlineModel, str, str]) -> None:
        """Answer requests for predictions that have come in one turn of the event loop."""
        online, _, output = key
        waiting = self._batches.pop(key)
        try:
            answers = online.predict([body for body, _ in waiting], output)
        except Exception:  # one of them is to blame, which is found below
            answers = []
        for k, (body, future) in enumerate(waiting):
            if not future.done():
                try:
                    future.set_result(answers[k] if answers else online.predict([body], output)[0])
                except Exception as problem:
                    future.set_exception(problem)

    async def label(self, request: Request) -> Any:
        """Learn remembered rows with the labels that have arrived."""
        writer = await self._writer(request.name)
        return await self._written(request, writer, LABEL, await request.rows())

    async def file(self, request: Request) -> HttpReply:
        """The model file, as ``giftrl train --model`` writes it."""
        writer, folder = await self._writer(request.name), tempfile.TemporaryDirectory()
        try:
            path = await self._written(request, writer, SAVE, path=Path(folder.name, f"{request.name}.giftrl"))
            data = await self._in_thread(path.read_bytes)
        finally:
            await self._in_thread(folder.cleanup)
        headers = {"Content-Disposition": f'attachment; filename="{request.name}.giftrl"'}
        return HttpReply(data, b"application/octet-stream", headers=headers)

    async def events(self, request: Request) -> HttpReply:
        """The state of a model every second, as server-sent events."""
        writer = await self._writer(request.name)
        if self._listeners >= MAX_LISTENERS:
            raise Refused(429, f"{MAX_LISTENERS} pages listen already", "try again later", retry_after=10)
        return HttpReply(
            self._events(request.name, writer), b"text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def _events(self, name: str, writer: Writer) -> AsyncGenerator[bytes, None]:
        self._listeners += 1
        try:
            while not self.ending():
                if not await self._in_thread(self.folder.has, name):
                    yield b"event: deleted\ndata: {}\n\n"
                    return
                parts = await self._in_thread(brief, self.folder.opened(name) or writer)
                yield b"data: " + self._with_source(name, parts) + b"\n\n"
                for _ in range(5):
                    if not self.ending():
                        await asyncio.sleep(0.2)
                        yield b""  # so that the end of the connection is noticed
        finally:
            self._listeners -= 1


def chosen_output(request: Request) -> str:
    """Return the output that the options of a request choose."""
    chosen = [output for output in OUTPUTS if request.flag(output)] or [LABEL_OUTPUT]
    if len(chosen) > 1:
        raise Refused(422, f"{' and '.join(chosen)} exclude each other", "send one of them")
    return chosen[0]


@functools.cache
def page() -> str:
    """The page, with its style and its script.

    >>> "http" in page().replace("http-equiv", "")
    False
    """
    style = resources.files("giftrl.reports").joinpath("page.css").read_text(encoding="utf-8")
    html = resources.files("giftrl.service").joinpath("page.html").read_text(encoding="utf-8")
    return html.replace("/* style */", style)


@functools.cache
def page_headers() -> dict[str, str]:
    """The headers of the page."""
    (script,) = re.findall("<script>(.*?)</script>", page(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "Content-Security-Policy": POLICY.format(digest) + "; frame-ancestors 'none'; form-action 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


def compile_loops(given: dict[str, Any]) -> None:
    """Learn and predict a few rows with a small model of some settings.

    >>> compile_loops({"loss": "squared"})
    """
    requested = RequestedSettings(given if given.get("dictionary") else given | {"bits": SMALL_BITS})
    lines = [orjson.dumps({"label": label, "a": 1.5, "b": "x"}) + b"\n" for label in some_labels(requested)]
    model = ProvisionalModel(requested)
    model.learn([Body("json", b"".join(lines), skip=True)])
    for line in 2 * lines[:1]:  # the second time as a single row
        model.learn([Body("json", line, skip=True)])
    row = b'{"a": 1.5}\n'
    for rows in (2 * row, row):
        model.predict(Body("json", rows))


def some_labels(requested: RequestedSettings) -> list[Any]:
    """Two labels that models of these settings accept."""
    if requested.labels is not None:
        return list(requested.labels[:2])
    if requested.loss_undecided:
        return [0, 1]
    accepted = requested.settings(requested.target).accepts(np.array(CANDIDATE_LABELS))
    return [label for label, good in zip(CANDIDATE_LABELS, accepted, strict=True) if good][:2]
