"""The service as an ASGI application: validates requests, calls handlers, and sends answers.

``openapi.json`` is the table of requests: their paths, handlers (``operationId``), query options and tokens. A handler
is a coroutine method that takes a :class:`Request`, and returns JSON as bytes or a :class:`HttpReply`. It raises
:class:`giftrl.errors.Refused` to reject a request. The module is independent of the ASGI server.
"""

import asyncio
import base64
import contextlib
import functools
import hashlib
import logging
import re
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

import orjson

from giftrl import __version__
from giftrl.errors import Refused
from giftrl.service.bodies import Answer, Body, encode, read_body
from giftrl.service.folder import Folder
from giftrl.service.online_model import LABEL as LABEL_OUTPUT
from giftrl.service.online_model import OUTPUTS, OnlineModel
from giftrl.service.request_limits import LEARN as LEARN_TOKEN
from giftrl.service.request_limits import READ as READ_TOKEN
from giftrl.service.request_limits import Limits, Tokens
from giftrl.service.stats import MAX_CERTIFY_SECONDS, RequestStats, brief, details, prometheus
from giftrl.service.writer import LABEL, LEARN, NO_ROWS, REMEMBER, SAVE, Job, Writer

if TYPE_CHECKING:
    from giftrl.service.server import WarmUp

T = TypeVar("T")
log = logging.getLogger("giftrl.service")

#: Allowed host names of a service without tokens, against DNS rebinding.
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
#: Headers that must not be repeated.
SINGLE_HEADERS = {b"host", b"origin", b"authorization", b"idempotency-key", b"content-type", b"content-encoding"}
#: The longest idempotency key.
MAX_KEY_LENGTH = 200
#: The maximum number of concurrent event streams.
MAX_LISTENERS = 64
#: The maximum bytes of rows scored in the event loop (about a millisecond).
MAX_SMALL_BYTES = 1 << 16
#: Threads for requests that wait for files, and for larger predictions.
FILE_THREADS, PREDICTION_THREADS = 32, 4
#: The Content-Security-Policy of the page.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; connect-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'none'"
)
TRUE, FALSE = ("1", "true", "yes", ""), ("0", "false", "no")
JSON = b"application/json"
MODEL_PATH = re.compile(r"/models/([^/]+)(/[^/]+)?")

Headers = dict[bytes, bytes]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class HttpReply(NamedTuple):
    """An answer other than JSON with status 200; its body may be a generator of stream pieces."""

    body: bytes | AsyncGenerator[bytes, None]
    content_type: bytes = JSON
    status: int = 200
    headers: Mapping[str, str] = {}


class Request:
    """A request: model, query options, headers, and the body, read on demand."""

    __slots__ = ("_limits", "_receive", "headers", "name", "options")

    def __init__(self, name: str, options: dict[str, str], headers: Headers, receive: Receive, limits: Limits) -> None:
        self.name, self.options, self.headers, self._receive, self._limits = name, options, headers, receive, limits

    async def body(self) -> bytes:
        """Read the body; refused if it is encoded, too large or too slow."""
        limits, headers = self._limits, self.headers
        coding = headers.get(b"content-encoding", b"identity").lower()
        if coding != b"identity":
            shown = coding.decode("latin-1")
            raise Refused(415, f"bodies cannot have the content encoding {shown!r:.40}", "send them plain")
        declared = headers.get(b"content-length", b"")
        size, received, more = int(declared) if declared.isdigit() else 0, 0, True
        pieces: list[bytes] = []
        begun = perf_counter()
        try:
            while more and max(size, received) <= limits.body:
                receiving = self._receive()
                if pieces:  # the server limits the wait for the first piece
                    receiving = asyncio.wait_for(receiving, begun + limits.seconds - perf_counter())
                message = await receiving
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the body ends too early", "send all of it")
                more = message.get("more_body", False)
                pieces.append(message.get("body", b""))
                received += len(pieces[-1])
        except TimeoutError:
            words = f"the body did not arrive within {limits.seconds:g} seconds"
            raise Refused(408, words, "send it faster") from None
        if max(size, received) > limits.body:
            raise Refused(413, f"the body has more than {limits.body} bytes", "send fewer rows at a time")
        return b"".join(pieces)

    async def rows(self) -> Body:
        """Read the rows in the body."""
        data, options = await self.body(), self.options
        on_error = options.get("on_error", "stop")
        if on_error not in ("stop", "skip"):
            words = f"on_error={on_error!r:.40} is neither stop nor skip"
            raise Refused(422, words, "leave it out, or send ?on_error=skip")
        kind = self.headers.get(b"content-type", b"").decode("latin-1")
        return read_body(data, kind, options.get("format"), skip=on_error == "skip", limits=self._limits)

    def flag(self, name: str) -> bool:
        """Return an option that is true or false."""
        given = self.options.get(name, "no")
        if given.lower() not in TRUE + FALSE:
            raise Refused(422, f"{name}={given!r:.40} is neither true nor false", f"send ?{name}=1")
        return given.lower() in TRUE

    def number(self, name: str, largest: float) -> float:
        """Return an option that is a number from 0 to a limit; 0 if it is not given."""
        given = self.options.get(name, "0")
        try:
            value = float(given)
        except ValueError:
            value = -1.0
        if not 0.0 <= value <= largest:
            raise Refused(422, f"{name}={given!r:.40} is no number from 0 to {largest:g}", f"send ?{name}=1")
        return value

    @property
    def output(self) -> str:
        """The requested output."""
        chosen = [output for output in OUTPUTS if self.flag(output)] or [LABEL_OUTPUT]
        if len(chosen) > 1:
            raise Refused(422, f"{' and '.join(chosen)} exclude each other", "send one of them")
        return chosen[0]

    @property
    def key(self) -> str | None:
        """The idempotency key, if there is one."""
        if b"idempotency-key" not in self.headers:
            return None
        key = self.headers[b"idempotency-key"].decode("latin-1")
        if not (0 < len(key) <= MAX_KEY_LENGTH and key.isprintable()):
            raise Refused(422, "the Idempotency-Key is empty or too long", f"use 1 to {MAX_KEY_LENGTH} characters")
        return key


class Route(NamedTuple):
    """A route: its name in metrics, the required token (or ""), query options, and handler."""

    endpoint: str
    need: str
    options: tuple[str, ...]
    handler: Callable[[Request], Awaitable[bytes | HttpReply]]


class Service:
    """The service of a folder, listening at a host, as an ASGI application."""

    def __init__(
        self, folder: Folder, tokens: Tokens | None = None, host: str = "127.0.0.1", warm_up: "WarmUp | None" = None
    ) -> None:
        self.folder, self.limits, self.warm_up = folder, folder.limits, warm_up
        self.ending: Callable[[], bool] = lambda: False  # True during shutdown
        self.requests = RequestStats()
        self._tokens = tokens if tokens is not None and tokens.needed else None
        self._hosts = LOOPBACK | {host}
        self._listeners = 0
        self._files = ThreadPoolExecutor(FILE_THREADS, "request")
        self._predictions = ThreadPoolExecutor(PREDICTION_THREADS, "prediction")
        self._batches: dict[tuple[OnlineModel, str, str], list[tuple[Body, asyncio.Future[Answer]]]] = {}
        self._routes: dict[str, dict[str, Route]] = {}
        for path, operations in openapi()["paths"].items():
            self._routes[path] = {}
            for method in operations.keys() - {"parameters"}:
                name, need, options = route_of(operations[method])
                self._routes[path][method.upper()] = Route(name, need, options, getattr(self, name))

    def close(self) -> None:
        """End the threads."""
        self._files.shutdown()
        self._predictions.shutdown()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # servers treat this as an unsupported protocol
            raise NotImplementedError(scope["type"])
        begun, endpoint, status = perf_counter(), "other", 0
        try:
            try:
                path, name = split_path(scope["path"])
                method = "GET" if scope["method"] == "HEAD" else scope["method"]
                methods = self._routes.get(path, {})
                route = methods.get(method)
                query = scope["query_string"]
                options = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {}
                headers = dict(scope["headers"])
                if len(headers) < len(scope["headers"]):
                    require_single(scope["headers"])
                self._check(method, route, options, headers)
                if route is None:
                    words = "this path does not take that method" if methods else "there is nothing under this path"
                    raise Refused(405 if methods else 404, words, "look at /openapi.json")
                endpoint = route.endpoint
                for option in options:  # a misspelt option would be ignored
                    if option not in route.options:
                        remedy = f"this request knows {', '.join(route.options) or 'no options'}"
                        raise Refused(400, f"{option!r:.60} is no option of this request", remedy)
                answer = await route.handler(Request(name, options, headers, receive, self.limits))
                reply = HttpReply(answer) if isinstance(answer, bytes) else answer
            except Refused as refusal:
                reply = refused(refusal)
            except Exception:
                log.exception("a request failed")
                reply = refused(Refused(500, "the service failed at this request", "look at its log"))
            status = reply.status
            head: list[tuple[bytes, bytes]] = [(b"content-type", reply.content_type)]
            if reply.headers:
                head += [(key.lower().encode(), value.encode()) for key, value in reply.headers.items()]
            start = {"type": "http.response.start", "status": status, "headers": head}
            if isinstance(reply.body, bytes):
                head.append((b"content-length", b"%d" % len(reply.body)))
                await send(start)
                await send({"type": "http.response.body", "body": reply.body})
            else:
                await send(start)
                await stream(reply.body, receive, send)
        finally:
            self.requests.add(endpoint, status or 499, perf_counter() - begun)

    def _check(self, method: str, route: Route | None, options: dict[str, str], headers: Headers) -> None:
        """Refuse a request that is not allowed."""
        host = headers.get(b"host", b"")
        if self._tokens is None and host_name(host) not in self._hosts:
            raise Refused(403, "this service is not called by that name", "call it localhost or 127.0.0.1")
        if b"origin" in headers and netloc(headers[b"origin"]) != host:
            raise Refused(403, "pages of other sites may not use this service", "call it from a page of its own")
        if self._tokens is not None:
            need = route.need if route is not None else READ_TOKEN if method == "GET" else LEARN_TOKEN
            if need == READ_TOKEN and "remember" in options:  # which writes, whatever its value
                need = LEARN_TOKEN
            self._tokens.require(headers.get(b"authorization", b"").decode("latin-1"), need)

    async def _in_thread(self, call: Callable[..., T], *given: Any) -> T:
        """Call a blocking function in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._files, call, *given)

    async def _writer(self, name: str) -> Writer:
        """The writer of a model; opens the model if necessary."""
        writer = self.folder.writers.get(name)
        if writer is None:
            return await self._in_thread(self.folder.get, name)
        writer.used = time.monotonic()
        return writer

    async def _written(self, request: Request, writer: Writer, kind: str, body: Body = NO_ROWS, **more: Any) -> Any:
        """Run a job in a model's writer; returns the answer."""
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
                await asyncio.sleep(0.05)  # the model is being closed to free memory
                writer = await self._writer(request.name)
        begun = perf_counter()
        timer = loop.call_later(self.limits.seconds, self._give_up, future)
        try:
            answer = await future
        finally:
            timer.cancel()
        writer.stats.durations[kind].append(perf_counter() - begun)
        return answer

    def _give_up(self, future: "asyncio.Future[Any]") -> None:
        """Reject a request after a timeout."""
        if not future.done():
            words = f"there is no answer after {self.limits.seconds:g} seconds, and the rows may be learned or not"
            future.set_exception(Refused(504, words, "send the request again with the same Idempotency-Key"))

    # The handlers, by the names of their operations in openapi.json.

    async def page(self, request: Request) -> HttpReply:
        text, headers = page()
        return HttpReply(text, b"text/html; charset=utf-8", headers=headers)

    async def healthz(self, request: Request) -> bytes:
        return b'{"status":"ok"}'

    async def readyz(self, request: Request) -> bytes:
        if self.warm_up is not None and not self.warm_up.ready:
            raise Refused(503, "loops are being compiled", "requests are answered, the first ones late", retry_after=1)
        return b'{"status":"ready"}'

    async def openapi(self, request: Request) -> bytes:
        return orjson.dumps(openapi())

    async def metrics(self, request: Request) -> HttpReply:
        text = prometheus(self.folder, self.requests)
        return HttpReply(text.encode(), b"text/plain; version=0.0.4; charset=utf-8")

    async def list(self, request: Request) -> bytes:
        names, writers = await self._in_thread(lambda: self.folder.names), self.folder.writers.copy()
        examples = {name: writers[name].model.examples if name in writers else None for name in names}
        models = [{"name": name, "open": name in writers, "examples": count} for name, count in examples.items()]
        return orjson.dumps({"models": models})

    async def create(self, request: Request) -> HttpReply:
        try:
            given = orjson.loads(await request.body() or b"{}")
        except orjson.JSONDecodeError as problem:
            words = f"the body is not JSON ({problem.msg} at byte {problem.pos})"
            raise Refused(400, words, "send an object") from None
        created = await self._in_thread(self.folder.create, request.name, given)
        if self.warm_up is not None:
            self.warm_up.ask(given)
        parts = {"name": request.name, "created": created, "settings": given}
        return HttpReply(orjson.dumps(parts), status=201 if created else 200)

    async def show(self, request: Request) -> bytes:
        seconds = request.number("certify", MAX_CERTIFY_SECONDS)
        writer = await self._writer(request.name)
        parts = {"name": request.name} | await self._in_thread(details, writer, seconds)
        return self._with_source(request.name, parts)

    def _with_source(self, name: str, parts: dict[str, Any]) -> bytes:
        """Encode the state of a model and of its followed source."""
        followed = self.folder.followed.get(name)
        parts |= {} if followed is None else {"followed": asdict(followed)}
        return orjson.dumps(parts, option=orjson.OPT_SERIALIZE_NUMPY)

    async def delete(self, request: Request) -> bytes:
        if request.options.get("confirm") != request.name:
            words = "deleting a model loses everything it has learned, so its name must be given again"
            raise Refused(400, words, "send DELETE /models/NAME?confirm=NAME, with the name twice")
        await self._in_thread(self.folder.delete, request.name)
        return orjson.dumps({"name": request.name, "deleted": True})

    async def learn(self, request: Request) -> Any:
        writer = await self._writer(request.name)  # before the body is read for a model that does not exist
        return await self._written(request, writer, LEARN, await request.rows())

    async def predict(self, request: Request) -> Any:
        writer = await self._writer(request.name)
        output = request.output if request.options else LABEL_OUTPUT
        body = await request.rows()
        if request.options and request.flag("remember"):
            return await self._written(request, writer, REMEMBER, body, output=output)
        begun = perf_counter()
        answer = writer.model.predict_soon(body, output) or await self._predicted(writer.model, body, output)
        writer.stats.durations["predict"].append(perf_counter() - begun)
        return encode(answer)

    async def _predicted(self, model: OnlineModel, body: Body, output: str) -> Answer:
        """Predict in a thread, or batched with other small requests of this event loop iteration."""
        loop = asyncio.get_running_loop()
        if len(body.data) > MAX_SMALL_BYTES or body.format not in model.compiled_formats or model.lock.locked():
            return (await loop.run_in_executor(self._predictions, model.predict, [body], output))[0]
        future: asyncio.Future[Answer] = loop.create_future()
        key = model, body.format, output
        if key not in self._batches:
            self._batches[key] = []
            loop.call_soon(self._predict_batch, key)
        self._batches[key].append((body, future))
        return await future

    def _predict_batch(self, key: tuple[OnlineModel, str, str]) -> None:
        """Answer all small prediction requests of one event loop iteration."""
        model, _, output = key
        waiting = self._batches.pop(key)
        try:
            answers = model.predict([body for body, _ in waiting], output)
        except Exception:  # one request is invalid; found below
            answers = []
        for k, (body, future) in enumerate(waiting):
            if not future.done():
                try:
                    future.set_result(answers[k] if answers else model.predict([body], output)[0])
                except Exception as problem:
                    future.set_exception(problem)

    async def label(self, request: Request) -> Any:
        writer = await self._writer(request.name)
        return await self._written(request, writer, LABEL, await request.rows())

    async def file(self, request: Request) -> HttpReply:
        writer, folder = await self._writer(request.name), tempfile.TemporaryDirectory()
        try:
            path = await self._written(request, writer, SAVE, path=Path(folder.name, f"{request.name}.giftrl"))
            data = await self._in_thread(path.read_bytes)
        finally:
            await self._in_thread(folder.cleanup)
        headers = {"Content-Disposition": f'attachment; filename="{request.name}.giftrl"'}
        return HttpReply(data, b"application/octet-stream", headers=headers)

    async def events(self, request: Request) -> HttpReply:
        writer = await self._writer(request.name)
        if self._listeners >= MAX_LISTENERS:
            raise Refused(429, f"{MAX_LISTENERS} pages listen already", "try again later", retry_after=10)
        pieces = self._events(request.name, writer)
        return HttpReply(pieces, b"text/event-stream", headers={"Cache-Control": "no-store"})

    async def _events(self, name: str, writer: Writer) -> AsyncGenerator[bytes, None]:
        self._listeners += 1
        try:
            while not self.ending():
                if not await self._in_thread(self.folder.has, name):
                    yield b"event: deleted\ndata: {}\n\n"
                    return
                parts = await self._in_thread(brief, self.folder.writers.get(name) or writer)
                yield b"data: " + self._with_source(name, parts) + b"\n\n"
                for _ in range(5):
                    if not self.ending():
                        await asyncio.sleep(0.2)
                        yield b""  # to detect a closed connection
        finally:
            self._listeners -= 1


@functools.lru_cache(256)
def split_path(path: str) -> tuple[str, str]:
    """Split a path into the path of a route and the name of a model."""
    found = MODEL_PATH.fullmatch(path)
    return (path, "") if found is None else (f"/models/{{name}}{found[2] or ''}", found[1])


def require_single(headers: list[tuple[bytes, bytes]]) -> None:
    """Refuse repeated security-relevant headers."""
    names = [name for name, _ in headers]
    for name in SINGLE_HEADERS:
        if names.count(name) > 1:
            raise Refused(400, f"the header {name.decode()} is there twice", "send it once")


@functools.lru_cache(256)
def host_name(host: bytes) -> str:
    """The name in a Host header, without the port."""
    try:
        return (urlsplit(f"//{host.decode('latin-1')}").hostname or "").lower()
    except ValueError:
        return ""


def netloc(origin: bytes) -> bytes | None:
    """The host and port of an Origin header, if any."""
    try:
        return urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") or None
    except ValueError:
        return None


def refused(refusal: Refused) -> HttpReply:
    """The answer to a rejected request."""
    more = dict(refusal.more)
    after = more.pop("retry_after", None)
    headers = {} if after is None else {"Retry-After": str(after)}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    error = {"status": refusal.status, "problem": refusal.problem, "remedy": refusal.remedy, **more}
    return HttpReply(orjson.dumps({"error": error}), status=refusal.status, headers=headers)


async def stream(pieces: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> None:
    """Send nonempty pieces until the end or until the client disconnects."""

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.ensure_future(disconnected())
    try:
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                if gone.done():
                    return
                if piece:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except Exception:
        log.exception("a stream broke off")
    finally:
        gone.cancel()


@functools.cache
def openapi() -> dict[str, Any]:
    """The OpenAPI 3.1 description of all requests, with all possible errors."""
    description: dict[str, Any] = orjson.loads(resources.files("giftrl.service").joinpath("openapi.json").read_bytes())
    description["info"]["version"] = __version__
    errors = description.pop("errors")
    for operations in description["paths"].values():
        for method in operations.keys() - {"parameters"}:
            operations[method]["responses"] |= errors
    return description


def route_of(operation: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    """The handler, the token and the query options of an operation."""
    options = tuple(each["name"] for each in operation.get("parameters", []) if each["in"] == "query")
    need = "".join(role for each in operation["security"] for role in each.get("token", []))
    return operation["operationId"], need, options


@functools.cache
def page() -> tuple[bytes, dict[str, str]]:
    """The page, with its style and its script, and its headers."""
    style = resources.files("giftrl.reports").joinpath("page.css").read_text(encoding="utf-8")
    html = resources.files("giftrl.service").joinpath("page.html").read_text(encoding="utf-8")
    text = html.replace("/* style */", style)
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return text.encode(), {
        "Content-Security-Policy": POLICY.format(digest),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
