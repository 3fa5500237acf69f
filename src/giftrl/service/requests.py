"""What requests say: their bodies, within limits of size and time, and their options."""

import asyncio
import functools
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, cast

import orjson
from starlette.requests import Request

from giftrl.errors import Refused
from giftrl.service.bodies import Body, read_body
from giftrl.service.limits import Limits

Headers = dict[bytes, bytes]
Receive = Callable[[], Coroutine[Any, Any, Any]]

TRUE, FALSE = ("1", "true", "yes", ""), ("0", "false", "no")
#: The longest idempotency key.
LONGEST_KEY = 200


def headers_of(scope: Any) -> Headers:
    """The headers of a request; of one that is there twice, the first."""
    return dict(reversed(scope["headers"]))


async def body_of(headers: Headers, receive: Receive, limits: Limits) -> bytes:
    """The body of a request; refused where it is too large or comes too slowly."""
    coding = headers.get(b"content-encoding", b"identity").lower()
    if coding != b"identity":
        shown = coding.decode("latin-1")
        raise Refused(415, f"bodies cannot have the content encoding {shown!r:.40}", "send them plain")
    declared = headers.get(b"content-length", b"0")
    _require_small(int(declared) if declared.isdigit() else 0, limits)
    try:
        message = await _soon(receive, limits.seconds)
        data = _piece_of(message)
        _require_small(len(data), limits)
        if not message.get("more_body", False):
            return data
        pieces, size = [data], len(data)
        async with asyncio.timeout(limits.seconds):
            while message.get("more_body", False):
                message = await receive()
                pieces.append(_piece_of(message))
                size += len(pieces[-1])
                _require_small(size, limits)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {limits.seconds:g} seconds", "send it faster") from None
    return b"".join(pieces)


def _piece_of(message: Any) -> bytes:
    if message["type"] == "http.disconnect":
        raise Refused(400, "the body ends too early", "send all of it")
    piece: bytes = message.get("body", b"")
    return piece


def _require_small(size: int, limits: Limits) -> None:
    if size > limits.body:
        raise Refused(413, f"the body has more than {limits.body} bytes", "send fewer rows at a time")


async def _soon(receive: Receive, seconds: float) -> Any:
    """What the protocol gives; only where that must be waited for is a clock started."""
    waiting = receive()
    try:
        first = waiting.send(None)
    except StopIteration as done:
        return done.value
    async with asyncio.timeout(seconds):
        return await _rest(waiting, first)


@types.coroutine
def _rest(waiting: Any, asked: Any) -> Generator[Any, Any, Any]:
    """Go on with a coroutine that has asked for something to be waited for."""
    while True:
        try:
            given = yield asked
        except BaseException as problem:  # such as the end of the time
            step = functools.partial(waiting.throw, problem)
        else:
            step = functools.partial(waiting.send, given)
        try:
            asked = step()
        except StopIteration as done:
            return done.value


async def rows_in(request: Request, limits: Limits) -> Body:
    """The rows of a request."""
    headers = headers_of(request.scope)
    data = await body_of(headers, cast("Receive", request.receive), limits)
    query = request.query_params
    on_error = query.get("on_error", "stop")
    if on_error not in ("stop", "skip"):
        raise Refused(422, f"on_error={on_error!r:.40} is neither stop nor skip", "leave it out, or say ?on_error=skip")
    return rows_of_body(data, headers, limits, query.get("format"), skip=on_error == "skip")


def rows_of_body(
    data: bytes, headers: Headers, limits: Limits, asked: str | None = None, *, skip: bool = False
) -> Body:
    """The rows of a body, of which there may not be too many; options as for :func:`read_body`."""
    entry = read_body(data, headers.get(b"content-type", b"").decode("latin-1"), asked, skip=skip)
    if entry.format == "json" and len(entry.data) <= limits.rows:  # of which each row has a byte or more
        return entry
    if entry.format == "arrow":
        from giftrl.service.arrow import require_small

        require_small(entry.data, limits.rows, 16 * limits.body)
    elif entry.lines > limits.rows:
        raise Refused(413, f"the body has more than {limits.rows} rows", "send fewer at a time")
    return entry


async def json_in(request: Request, limits: Limits) -> Any:
    """The JSON of a request; an empty object where there is no body."""
    data = await body_of(headers_of(request.scope), cast("Receive", request.receive), limits)
    try:
        return orjson.loads(data or b"{}")
    except orjson.JSONDecodeError as problem:
        raise Refused(400, f"the body is not JSON ({problem.msg} at byte {problem.pos})", "send an object") from None


def require_known(request: Request, known: Sequence[str]) -> None:
    """Refuse options that a request does not know: one that is misspelt would do nothing."""
    for name in request.query_params:
        if name not in known:
            remedy = f"this request knows {', '.join(known) or 'no options'}"
            raise Refused(400, f"{name!r:.60} is no option of this request", remedy)


def flag(request: Request, name: str) -> bool:
    """An option that is true or false."""
    given = request.query_params.get(name)
    if given is not None and given.lower() not in TRUE + FALSE:
        raise Refused(422, f"{name}={given!r:.40} is neither true nor false", f"say ?{name}=1")
    return given is not None and given.lower() in TRUE


def number(request: Request, name: str, most: float) -> float:
    """An option that is a number from 0 to a limit; 0 where it is not given."""
    given = request.query_params.get(name, "0")
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= most:
        raise Refused(422, f"{name}={given!r:.40} is no number from 0 to {most:g}", f"say ?{name}=1")
    return value


def key_of(request: Request) -> str | None:
    """The idempotency key of a request; None where it has none."""
    return key_in(headers_of(request.scope))


def key_in(headers: Headers) -> str | None:
    """The idempotency key in the headers of a request; None where there is none."""
    if b"idempotency-key" not in headers:
        return None
    key = headers[b"idempotency-key"].decode("latin-1")
    if not (0 < len(key) <= LONGEST_KEY and key.isprintable()):
        raise Refused(422, "the Idempotency-Key is empty or too long", f"use 1 to {LONGEST_KEY} characters")
    return key
