"""What requests say: their bodies, within limits of size and time, and their options."""

import asyncio
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from giftrl.errors import Refused
from giftrl.service.bodies import Entry, read_body
from giftrl.service.limits import Limits

TRUE, FALSE = ("1", "true", "yes", ""), ("0", "false", "no")
#: The longest idempotency key.
LONGEST_KEY = 200


async def body_of(request: Request, limits: Limits) -> bytes:
    """The body of a request; refused where it is too large or comes too slowly."""
    coding = request.headers.get("content-encoding", "identity").lower()
    if coding != "identity":
        raise Refused(415, f"bodies cannot have the content encoding {coding!r:.40}", "send them plain")
    declared = request.headers.get("content-length", "0")
    too_large = Refused(413, f"the body has more than {limits.body} bytes", "send fewer rows at a time")
    if declared.isdecimal() and int(declared) > limits.body:
        raise too_large
    pieces, size = [], 0
    try:
        async with asyncio.timeout(limits.seconds):
            async for piece in request.stream():
                size += len(piece)
                if size > limits.body:
                    raise too_large
                pieces.append(piece)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {limits.seconds:g} seconds", "send it faster") from None
    except ClientDisconnect:
        raise Refused(400, "the body ends too early", "send all of it") from None
    return b"".join(pieces)


async def rows_in(request: Request, limits: Limits) -> Entry:
    """The rows of a request."""
    data = await body_of(request, limits)
    query = request.query_params
    on_error = query.get("on_error", "stop")
    if on_error not in ("stop", "skip"):
        raise Refused(422, f"on_error={on_error!r:.40} is neither stop nor skip", "leave it out, or say ?on_error=skip")
    kind = request.headers.get("content-type", "")
    entry = read_body(data, kind, query.get("format"), skip=on_error == "skip")
    if entry.format == "arrow":
        from giftrl.service.arrow import require_small

        require_small(entry.data, limits.rows, 16 * limits.body)
    elif entry.lines > limits.rows:
        raise Refused(413, f"the body has more than {limits.rows} rows", "send fewer at a time")
    return entry


async def json_in(request: Request, limits: Limits) -> Any:
    """The JSON of a request; an empty object where there is no body."""
    data = await body_of(request, limits)
    try:
        return orjson.loads(data or b"{}")
    except orjson.JSONDecodeError as problem:
        raise Refused(400, f"the body is not JSON ({problem.msg} at byte {problem.pos})", "send an object") from None


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
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= LONGEST_KEY and key.isprintable()):
        raise Refused(422, "the Idempotency-Key is empty or too long", f"use 1 to {LONGEST_KEY} characters")
    return key
