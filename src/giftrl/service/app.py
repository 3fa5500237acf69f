"""The service as an application of HTTP: a route for each thing that can be asked."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, Router

from giftrl.errors import Refused
from giftrl.service.asking import Asking
from giftrl.service.bodies import Body
from giftrl.service.direct import Direct
from giftrl.service.door import LOOPBACK, Door, answer
from giftrl.service.folder import Folder
from giftrl.service.later import Answers
from giftrl.service.limits import Tokens
from giftrl.service.metrics import Requests, metrics
from giftrl.service.online_model import KINDS, LABEL
from giftrl.service.openapi import described, options_of
from giftrl.service.requests import flag, json_in, key_of, number, require_known, rows_in
from giftrl.service.status import LONGEST, brief, whole
from giftrl.service.warming import Warming
from giftrl.service.writer import LABEL as LABELLING
from giftrl.service.writer import LEARN, NOTHING, REMEMBER, SAVE, Job, Writer, answered

#: Pages that may be told of changes at the same time.
LISTENERS = 64
#: Models for whose settings loops are compiled when the service starts.
LOOKED_AT = 100


class Service:
    """The service of a folder.

    Args:
        folder: of the models.
        tokens: who may do what.
        host: the address that it listens at.
        ending: whether the service has been asked to end.
        warms: whether to have loops compiled before they are needed.
    """

    def __init__(
        self, folder: Folder, tokens: Tokens | None = None, host: str = "127.0.0.1",
        ending: Callable[[], bool] = lambda: False, warms: bool = False,
    ) -> None:  # fmt: skip
        self.folder, self.limits, self.ending, self.warms = folder, folder.limits, ending, warms
        self.requests = Requests()
        self.asking = Asking()
        self.warming = Warming()
        self._listeners = 0
        self._answers: Answers | None = None  # of the event loop, once there is one
        tokens = tokens or Tokens()
        hosts = None if tokens.needed else LOOPBACK | {host}
        routes = [
            Route(path, self._named(endpoint, handler, options_of(method, path)), methods=[method])
            for (method, path), (endpoint, handler) in self.routes().items()
        ]
        router = Router(routes, redirect_slashes=False, lifespan=self._lifespan)
        short = Direct(folder, {"predict": self._predicted, "learn": self._learnt}, self._predicted_soon)
        self.app = Door(router, short, tokens, self.requests, hosts)

    def routes(self) -> dict[tuple[str, str], tuple[str, Any]]:
        """Everything that can be asked: the name and the function of each method and path."""
        model = "/models/{name}"
        return {
            ("POST", f"{model}/predict"): ("predict", self.predict),  # routes are tried in order
            ("POST", f"{model}/learn"): ("learn", self.learn),
            ("GET", "/"): ("page", self.page),
            ("GET", "/healthz"): ("healthz", self.healthz),
            ("GET", "/readyz"): ("readyz", self.readyz),
            ("GET", "/openapi.json"): ("openapi", self.openapi),
            ("GET", "/metrics"): ("metrics", self.metrics),
            ("GET", "/models"): ("list", self.list),
            ("PUT", model): ("create", self.create),
            ("GET", model): ("show", self.show),
            ("DELETE", model): ("delete", self.delete),
            ("POST", f"{model}/label"): ("label", self.label),
            ("GET", f"{model}/file"): ("file", self.file),
            ("GET", f"{model}/events"): ("events", self.events),
        }

    def _named(self, endpoint: str, handler: Any, options: tuple[str, ...]) -> Any:
        async def handle(request: Request) -> Response:
            request.scope.setdefault("state", {})["endpoint"] = endpoint
            require_known(request, options)
            found: Response = await handler(request)
            return found

        return handle

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        if self.warms:
            for given in [{}, *await run_in_threadpool(self.folder.some_settings, LOOKED_AT)]:
                self.warming.ask(given)
        yield
        self.warming.end()
        await run_in_threadpool(self.folder.close)

    async def _writer(self, name: str) -> Writer:
        found = self.folder.opened(name)
        return await run_in_threadpool(self.folder.get, name) if found is None else found

    async def _carried_out(
        self, name: str, kind: str, entry: Body = NOTHING, key: str | None = None, **more: Any
    ) -> Any:
        """What the writer of a model answers to a job; arguments as for :class:`Job`."""
        if self._answers is None:
            self._answers = Answers(asyncio.get_running_loop())
        later = self._answers.later()
        job = Job(kind, entry, key, answer=later, **more)
        for _ in range(3):  # a model may be closed for another one at this moment
            writer = await self._writer(name)
            try:
                writer.submit(job)
                break
            except Refused as refusal:
                if refusal.status != 503:
                    raise
                await asyncio.sleep(0.05)
        else:
            raise Refused(503, "the model is being closed", "try again", retry_after=1)
        begun = time.perf_counter()
        try:
            found = await later.within(self.limits.seconds)
        except TimeoutError:
            words = f"there is no answer after {self.limits.seconds:g} seconds, and the rows may be learnt or not"
            raise Refused(504, words, "send the request again with the same Idempotency-Key") from None
        writer.watch.took(job.kind, time.perf_counter() - begun)
        return found

    async def page(self, request: Request) -> Response:
        """The page about all models."""
        from giftrl.service.page import headers, page

        return Response(page(), 200, headers(), "text/html; charset=utf-8")

    async def healthz(self, request: Request) -> Response:
        """Whether the service is there."""
        return answer(200, {"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Whether no request will have to wait for a compiler."""
        if not self.warming.ready:
            raise Refused(503, "loops are being compiled", "requests are answered, the first ones late", retry_after=1)
        return answer(200, {"status": "ready"})

    async def openapi(self, request: Request) -> Response:
        """The description of all requests."""
        return answer(200, described())

    async def metrics(self, request: Request) -> Response:
        """Counts and times for Prometheus."""
        return Response(metrics(self.folder, self.requests), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def list(self, request: Request) -> Response:
        """The names of all models, and what those in memory have learnt."""
        names = await run_in_threadpool(lambda: self.folder.names)
        writers = self.folder.writers
        models = [
            {
                "name": name,
                "open": name in writers,
                "examples": writers[name].live.examples if name in writers else None,
            }
            for name in names
        ]
        return answer(200, {"models": models})

    async def create(self, request: Request) -> Response:
        """Create a model."""
        given = await json_in(request, self.limits)
        name = request.path_params["name"]
        made = await run_in_threadpool(self.folder.create, name, given)
        if self.warms:
            self.warming.ask(given)
        return answer(201 if made else 200, {"name": name, "created": made, "settings": given})

    async def show(self, request: Request) -> Response:
        """Counts, loss, certificate and experts of a model."""
        seconds = number(request, "certify", LONGEST)
        writer = await self._writer(request.path_params["name"])
        said = await run_in_threadpool(whole, writer, seconds)
        name = request.path_params["name"]
        told = {"name": name, **said, **self._following(name)}
        return answer(200, orjson.dumps(told, option=orjson.OPT_SERIALIZE_NUMPY))

    def _following(self, name: str) -> dict[str, Any]:
        """How learning from a followed source goes, for a model that has one."""
        followed = self.folder.followed.get(name)
        return {} if followed is None else {"followed": asdict(followed)}

    async def delete(self, request: Request) -> Response:
        """Delete a model, where its name is said twice."""
        name = request.path_params["name"]
        if request.query_params.get("confirm") != name:
            remedy = "say DELETE /models/NAME?confirm=NAME, with the name twice"
            raise Refused(
                400, "to delete a model is to lose what it has learnt, so its name must be said again", remedy
            )
        await run_in_threadpool(self.folder.delete, name)
        return answer(200, {"name": name, "deleted": True})

    async def learn(self, request: Request) -> Response:
        """Learn from rows with labels."""
        await self._writer(request.path_params["name"])  # before a body is read for a model that is not there
        entry = await rows_in(request, self.limits)
        return answer(200, await self._learnt(request.path_params["name"], None, entry, key_of(request)))

    async def _learnt(self, name: str, writer: Writer | None, entry: Body, key: str | None) -> Any:
        """What the answer says of rows that were learnt."""
        return await self._carried_out(name, LEARN, entry, key)

    async def predict(self, request: Request) -> Response:
        """Predict for rows."""
        writer = await self._writer(request.path_params["name"])
        chosen = [kind for kind in KINDS if flag(request, kind)] or [LABEL]
        if len(chosen) > 1:
            raise Refused(422, f"{' and '.join(chosen)} exclude each other", "say one of them")
        entry = await rows_in(request, self.limits)
        if flag(request, "remember"):
            name, key = request.path_params["name"], key_of(request)
            return answer(200, await self._carried_out(name, REMEMBER, entry, key, output=chosen[0]))
        return answer(200, await self._predicted(request.path_params["name"], writer, entry, None, chosen[0]))

    async def _predicted(self, name: str, writer: Writer, entry: Body, key: str | None, kind: str = LABEL) -> bytes:
        """What the answer says of predictions, which no key changes."""
        begun = time.perf_counter()
        found = await self.asking.predict(writer.live, entry, kind)
        writer.watch.took("predict", time.perf_counter() - begun)
        return answered(found)

    def _predicted_soon(self, writer: Writer, entry: Body) -> bytes | None:
        """What the answer says of predictions that take some microseconds; None where they may take longer."""
        begun, core = time.perf_counter(), writer.live.core
        found = None if core is None else core.predict_soon(entry)
        if found is None:
            return None
        writer.watch.took("predict", time.perf_counter() - begun)
        return answered(found)

    async def label(self, request: Request) -> Response:
        """Learn rows that were remembered, whose labels have come."""
        await self._writer(request.path_params["name"])
        entry = await rows_in(request, self.limits)
        if entry.format != "json":
            raise Refused(415, "labels come in JSON", 'send {"id": "...", "label": 1}')
        return answer(200, await self._carried_out(request.path_params["name"], LABELLING, entry, key_of(request)))

    async def file(self, request: Request) -> Response:
        """The model file, as ``giftrl train --model`` writes it."""
        name = request.path_params["name"]
        folder = tempfile.TemporaryDirectory()
        try:
            path = await self._carried_out(name, SAVE, path=Path(folder.name, f"{name}.giftrl"))
            data = await run_in_threadpool(path.read_bytes)
        finally:
            await run_in_threadpool(folder.cleanup)
        headers = {"Content-Disposition": f'attachment; filename="{name}.giftrl"'}
        return Response(data, 200, headers, "application/octet-stream")

    async def events(self, request: Request) -> Response:
        """What a model does, every second, as server-sent events."""
        writer = await self._writer(request.path_params["name"])
        if self._listeners >= LISTENERS:
            raise Refused(429, f"{LISTENERS} pages listen already", "try again later", retry_after=10)

        async def told() -> AsyncIterator[bytes]:
            self._listeners += 1
            try:
                while not self.ending() and not await request.is_disconnected():
                    name = request.path_params["name"]
                    current = self.folder.opened(name) or writer
                    if not await run_in_threadpool(self.folder.has, name):
                        yield b"event: deleted\ndata: {}\n\n"
                        return
                    said = await run_in_threadpool(brief, current) | self._following(name)
                    yield b"data: " + orjson.dumps(said, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n\n"
                    for _ in range(5):
                        if not self.ending():
                            await asyncio.sleep(0.2)
            finally:
                self._listeners -= 1

        return StreamingResponse(told(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
