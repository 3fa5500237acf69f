"""What every request passes: who may ask, how long it took, and errors that tell nothing of the machine."""

import functools
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import Response

from giftrl.errors import Refused
from giftrl.service.connection import WHOLE
from giftrl.service.direct import Direct
from giftrl.service.limits import LEARN, READ, Tokens
from giftrl.service.metrics import Requests
from giftrl.service.requests import Headers, headers_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("giftrl.service")

#: Requests that need no token: they tell nothing of any model.
FREE = {"/", "/healthz", "/readyz", "/openapi.json"}
#: The paths to which a POST only reads.
PREDICT = re.compile(r"/models/[^/]+/predict")
#: The hosts that a service without tokens answers to. A page of another site could have its own name lead here.
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def answer(status: int, said: Any, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(said if isinstance(said, bytes) else orjson.dumps(said), status, headers, "application/json")


def refused(refusal: Refused) -> Response:
    """The answer to a request that is not carried out."""
    more = dict(refusal.more)
    after = more.pop("retry_after", None)
    headers = {} if after is None else {"Retry-After": str(after)}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    said = {"status": refusal.status, "problem": refusal.problem, "remedy": refusal.remedy, **more}
    return answer(refusal.status, {"error": said}, headers)


class Door:
    """The application behind checks, counts and answers to errors.

    Args:
        app: the application.
        short: the short way for the usual requests.
        tokens: of the service.
        requests: where requests are counted.
        hosts: the names that this service may be called by; None for any.
    """

    def __init__(self, app: App, short: Direct, tokens: Tokens, requests: Requests, hosts: set[str] | None) -> None:
        self.app, self.short, self.tokens, self.requests, self.hosts = app, short, tokens, requests, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0
        scope["app"] = self  # so that a path that is not there is an exception

        async def noting(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            headers = headers_of(scope)
            self._check(scope, headers)
            said = await self.short.answer(scope, headers, receive)
            if said is None:
                await self.app(scope, receive, noting)
            else:
                status = 200
                whole = scope.get("extensions", {}).get(WHOLE)
                if whole is None or not whole(said):
                    await answer(200, said)(scope, receive, send)
        except Refused as refusal:
            await self._say(refused(refusal), scope, receive, noting, status)
        except HTTPException as problem:
            words = {404: "there is nothing under this path", 405: "this path does not take that method"}
            strange = Refused(problem.status_code, words.get(problem.status_code, "no"), "look at /openapi.json")
            await self._say(refused(strange), scope, receive, noting, status)
        except Exception:
            log.exception("a request failed")
            failed = Refused(500, "the service failed at this request", "look at its log")
            await self._say(refused(failed), scope, receive, noting, status)
        finally:
            self.requests.add(
                scope.get("state", {}).get("endpoint", "other"), status or 499, time.perf_counter() - begun
            )

    def at_once(self, scope: Scope, body: bytes) -> bytes | None:
        """The answer, in JSON, to a request that waits for nothing; None where the application is to be called."""
        begun = time.perf_counter()
        try:
            headers = headers_of(scope)
            self._check(scope, headers)
            said = self.short.at_once(scope, headers, body)
        except Exception:  # which the application meets as well, and answers
            return None
        if said is not None:
            self.requests.add("predict", 200, time.perf_counter() - begun)
        return said

    async def _say(self, said: Response, scope: Scope, receive: Receive, send: Send, status: int) -> None:
        if status == 0:  # otherwise the answer has begun, and breaks off
            await said(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Refuse what is not allowed."""
        host = headers.get(b"host", b"")
        if self.hosts is not None and _name(host) not in self.hosts:
            raise Refused(403, "this service is not called by that name", "call it localhost or 127.0.0.1")
        origin = headers.get(b"origin")
        if origin is not None and _of(origin) != host:
            raise Refused(403, "pages of other sites may not use this service", "call it from a page of its own")
        if self.tokens.needed and scope["path"] not in FREE:
            given = headers.get(b"authorization", b"").decode("latin-1")
            self.tokens.require(given, READ if _reads(scope) else LEARN)


def _reads(scope: Scope) -> bool:
    """Whether a request changes nothing, whatever it says."""
    if scope["method"] in ("GET", "HEAD"):
        return True
    # To remember a prediction is to write.
    remembers = "remember" in QueryParams(scope["query_string"])
    return scope["method"] == "POST" and PREDICT.fullmatch(scope["path"]) is not None and not remembers


def _of(origin: bytes) -> bytes | None:
    """The host and the port in an Origin header; None where there is none."""
    try:
        return urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") or None
    except ValueError:
        return None


@functools.lru_cache(256)
def _name(host: bytes) -> str:
    """The name in a Host header, without the port."""
    try:
        return (urlsplit(f"//{host.decode('latin-1')}").hostname or "").lower()
    except ValueError:
        return ""
