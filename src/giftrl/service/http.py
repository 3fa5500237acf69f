"""HTTP: one ASGI application that checks a request, calls its handler and sends the answer.

A handler is a coroutine function that takes a :class:`Request`, and returns JSON as bytes or a :class:`HttpReply`. It
raises :class:`giftrl.errors.Refused` for a request that it does not carry out. Nothing here depends on the server
that calls the application.
"""

import asyncio
import contextlib
import functools
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from importlib import resources
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import orjson

from giftrl import __version__
from giftrl.errors import Refused
from giftrl.service.bodies import Body, read_body
from giftrl.service.request_limits import LEARN, READ, Limits, Tokens
from giftrl.service.stats import RequestStats

log = logging.getLogger("giftrl.service")

#: The token that a route needs: none, as its answer tells nothing of any model.
NO_TOKEN = ""
#: Host names of a service without tokens. A page of another site could have its own name resolve to this machine.
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
#: Headers that a request may have once.
SINGLE_HEADERS = {b"host", b"origin", b"authorization", b"idempotency-key", b"content-type", b"content-encoding"}
#: The longest idempotency key.
MAX_KEY_LENGTH = 200
TRUE, FALSE = ("1", "true", "yes", ""), ("0", "false", "no")
JSON = b"application/json"
MODEL_PATH = re.compile(r"/models/([^/]+)(/[^/]+)?")

Headers = dict[bytes, bytes]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class HttpReply(NamedTuple):
    """An answer that is not JSON with status 200.

    Args:
        body: the bytes, or a generator of the pieces of a stream.
        content_type: of the body.
        status: the status code.
        headers: others than the type and the length of the body.
    """

    body: bytes | AsyncGenerator[bytes, None]
    content_type: bytes = JSON
    status: int = 200
    headers: Mapping[str, str] = {}


class Request:
    """A request, whose body is read when the handler asks for it.

    Args:
        name: of the model in the path.
        options: of the query.
        headers: by their names in lower case.
        receive: the next message of the server.
        limits: of the service.
    """

    __slots__ = ("_limits", "_receive", "headers", "name", "options")

    def __init__(self, name: str, options: dict[str, str], headers: Headers, receive: Receive, limits: Limits) -> None:
        self.name, self.options, self.headers, self._receive, self._limits = name, options, headers, receive, limits

    async def body(self) -> bytes:
        """Read the body; refuse one that is encoded, too large or too slow."""
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

    async def json(self) -> Any:
        """Read the JSON in the body; an empty body is an empty object."""
        try:
            return orjson.loads(await self.body() or b"{}")
        except orjson.JSONDecodeError as problem:
            words = f"the body is not JSON ({problem.msg} at byte {problem.pos})"
            raise Refused(400, words, "send an object") from None

    def flag(self, name: str) -> bool:
        """Return an option that is true or false."""
        given = self.options.get(name)
        if given is None:
            return False
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
    def key(self) -> str | None:
        """The idempotency key, if there is one."""
        if b"idempotency-key" not in self.headers:
            return None
        key = self.headers[b"idempotency-key"].decode("latin-1")
        if not (0 < len(key) <= MAX_KEY_LENGTH and key.isprintable()):
            raise Refused(422, "the Idempotency-Key is empty or too long", f"use 1 to {MAX_KEY_LENGTH} characters")
        return key


class Route(NamedTuple):
    """A route: its name in the metrics, the token that it needs, and its handler."""

    endpoint: str
    need: str
    handler: Callable[[Request], Awaitable[bytes | HttpReply]]


class Http:
    """The ASGI application.

    Args:
        routes: by method and path, such as ``("GET", "/models/{name}")``.
        limits: of the service.
        tokens: of the service.
        hosts: the host names that it answers to; None for any.
    """

    def __init__(
        self, routes: Mapping[tuple[str, str], Route], limits: Limits, tokens: Tokens, hosts: set[str] | None
    ) -> None:
        self._limits, self._tokens, self._hosts = limits, tokens, hosts
        self._needs_token = tokens.needed
        self._routes = {path: {m: r for (m, p), r in routes.items() if p == path} for _, path in routes}
        self._options = {(method, path): options_of(method, path) for method, path in routes}
        self.requests = RequestStats()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # which servers take for a protocol that is not supported
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
                self._check(scope["method"], route, options, headers)
                if route is None:
                    words = "this path does not take that method" if methods else "there is nothing under this path"
                    raise Refused(405 if methods else 404, words, "look at /openapi.json")
                endpoint = route.endpoint
                if options:
                    require_known(options, self._options[method, path])
                answer = await route.handler(Request(name, options, headers, receive, self._limits))
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
        if self._hosts is not None and host_name(host) not in self._hosts:
            raise Refused(403, "this service is not called by that name", "call it localhost or 127.0.0.1")
        if b"origin" in headers and netloc(headers[b"origin"]) != host:
            raise Refused(403, "pages of other sites may not use this service", "call it from a page of its own")
        if self._needs_token:
            need = route.need if route is not None else READ if method in ("GET", "HEAD") else LEARN
            if need == READ and "remember" in options:  # which writes, whatever its value
                need = LEARN
            if need != NO_TOKEN:
                self._tokens.require(headers.get(b"authorization", b"").decode("latin-1"), need)


@functools.lru_cache(256)
def split_path(path: str) -> tuple[str, str]:
    """Split a path into the path of a route and the name of a model.

    >>> split_path("/models/churn/learn"), split_path("/metrics")
    (('/models/{name}/learn', 'churn'), ('/metrics', ''))
    """
    found = MODEL_PATH.fullmatch(path)
    return (path, "") if found is None else (f"/models/{{name}}{found[2] or ''}", found[1])


def require_single(headers: list[tuple[bytes, bytes]]) -> None:
    """Refuse repeated headers that decide something."""
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
    """The host and the port in an Origin header, if there are any."""
    try:
        return urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") or None
    except ValueError:
        return None


def require_known(options: dict[str, str], known: tuple[str, ...]) -> None:
    """Refuse unknown options: a misspelt one would do nothing."""
    for name in options:
        if name not in known:
            remedy = f"this request knows {', '.join(known) or 'no options'}"
            raise Refused(400, f"{name!r:.60} is no option of this request", remedy)


def refused(refusal: Refused) -> HttpReply:
    """The answer to a request that is not carried out."""
    more = dict(refusal.more)
    after = more.pop("retry_after", None)
    headers = {} if after is None else {"Retry-After": str(after)}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    error = {"status": refusal.status, "problem": refusal.problem, "remedy": refusal.remedy, **more}
    return HttpReply(orjson.dumps({"error": error}), status=refusal.status, headers=headers)


async def stream(pieces: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> None:
    """Send pieces until they end or the client is gone; empty ones are not sent."""

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
    """The description of all requests in OpenAPI 3.1; every request may be answered with any of the errors.

    >>> sorted(openapi()["paths"]["/models/{name}"])
    ['delete', 'get', 'parameters', 'put']
    """
    description: dict[str, Any] = orjson.loads(resources.files("giftrl.service").joinpath("openapi.json").read_bytes())
    description["info"]["version"] = __version__
    errors = description.pop("errors")
    for operations in description["paths"].values():
        for method, operation in operations.items():
            if method != "parameters":
                operation["responses"] |= errors
    return description


def options_of(method: str, path: str) -> tuple[str, ...]:
    """The names of the query options of a route.

    >>> options_of("POST", "/models/{name}/learn")
    ('format', 'on_error')
    """
    parameters = openapi()["paths"][path][method.lower()].get("parameters", [])
    return tuple(each["name"] for each in parameters if each["in"] == "query")
