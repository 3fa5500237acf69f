"""A connection of the server: answers leave in one piece, and a head that comes too slowly ends it."""

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    Protocol: Any = object
else:
    Protocol = AutoHTTPProtocol

#: Under this name among the extensions of a request is :func:`sent_at_once`, where the protocol has it.
AT_ONCE = "giftrl.at_once"
#: What a cycle of a request and its answer has in uvicorn where heads are written as here: that of httptools, not of h11.
USED = {"chunked_encoding", "default_headers", "disconnected", "flow", "keep_alive", "message_event", "on_response",
        "response_complete", "response_started", "transport"}  # fmt: skip
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
CLOSE = b"connection: close\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Together:
    """A transport that sends the head of an answer together with the first piece of its body.

    Each piece costs a call of the system, and wakes the client. In one piece, the median of a request for one
    prediction went from 0.18 to 0.16 ms; other programs ran beside, so that this is rough.

    Args:
        transport: of a connection.
    """

    def __init__(self, transport: Any) -> None:
        self._transport, self._held = transport, b""
        self.is_closing = transport.is_closing  # which is asked for at every request

    def write(self, data: bytes) -> None:
        """Send a piece, unless it is a head that a body will follow."""
        if self._held:
            data, self._held = self._held + data, b""
        elif data.endswith(b"\r\n\r\n") and data.startswith(b"HTTP/1.1 ") and b"\r\ncontent-length: " in data:
            self._held = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Send what was kept back."""
        if self._held:
            self.write(b"")

    def close(self) -> None:
        """Close the connection, once everything is sent."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def sent_at_once(cycle: Any, said: bytes) -> bool:
    """Send an answer in JSON, head and body; False where it must wait or nobody is there.

    uvicorn takes two messages for it, whose headers it checks and writes one by one: 4 microseconds more.

    Args:
        cycle: of a request and its answer, in uvicorn.
        said: the body.
    """
    if cycle.response_started or cycle.disconnected or cycle.flow.write_paused:
        return False
    cycle.response_started = cycle.response_complete = True
    head = JSON % len(said) + b"".join([b"%b: %b\r\n" % header for header in cycle.default_headers])
    cycle.transport.write(head + (b"\r\n" if cycle.keep_alive else CLOSE + b"\r\n") + said)
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


class Connection(Protocol):  # type: ignore[misc]
    """A connection whose heads must arrive within a time; see :meth:`end_if_slow`."""

    waits_since: float | None = None  # for the rest of a head
    able: bool | None = None  # whether an answer can be sent at once; unknown before the first request

    def on_headers_complete(self) -> None:
        """The head of a request is here."""
        super().on_headers_complete()
        if self.able is None:
            self.able = USED <= vars(self.cycle).keys()
        if self.able:
            self.scope["extensions"] = {AT_ONCE: partial(sent_at_once, self.cycle)}

    def connection_made(self, transport: Any) -> None:
        """A client has come."""
        self.waits_since = time.monotonic()
        super().connection_made(Together(transport))

    def data_received(self, data: bytes) -> None:
        """A client has sent something."""
        if self.waits_since is None:
            self.waits_since = time.monotonic()
        super().data_received(data)
        # A request may be refused before all of its body is here: what comes then is no head.
        if self.cycle is not None and (self.cycle.more_body or not self.cycle.response_complete):
            self.waits_since = None

    def on_response_complete(self) -> None:
        """An answer has been given."""
        self.transport.flush()
        super().on_response_complete()

    def end_if_slow(self, seconds: float) -> None:
        """Close the connection if the head of a request has not arrived within a time."""
        if self.waits_since is not None and time.monotonic() - self.waits_since > seconds:
            self.waits_since = None
            self.transport.write(TOO_SLOW)
            self.transport.close()
