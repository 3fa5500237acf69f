"""A connection of the server: answers leave in one piece, some of them at once, and too slow a head ends it."""

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    Protocol: Any = object
else:
    Protocol = AutoHTTPProtocol

#: Under this name among the extensions of a request is what sends its answer in one piece: :func:`sent_whole`.
WHOLE = "giftrl.whole"
#: What uvicorn's cycle of a request and its answer has with httptools; with h11 heads must be written by h11.
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


def ready(cycle: Any) -> bool:
    """Whether an answer can be sent now: nothing of it has been, and somebody is there who reads."""
    return not (cycle.response_started or cycle.disconnected or cycle.flow.write_paused)


def sent_whole(cycle: Any, said: bytes) -> bool:
    """Send an answer in JSON, head and body; False where that is not possible now.

    uvicorn takes two messages for it, whose headers it checks and writes one by one: 4 microseconds more.

    Args:
        cycle: of a request and its answer, in uvicorn.
        said: the body.
    """
    if not ready(cycle):
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
    """A connection whose heads must arrive within a time; see :meth:`end_if_slow`.

    A request whose body came with its head is shown to the application's method ``at_once``, if it has one. Where that
    answers, no task is made for the request, which takes as long as a prediction does.
    """

    waits_since: float | None = None  # for the rest of a head
    able: bool | None = None  # whether an answer can be sent whole; unknown before the first request
    receiving = False
    begun: tuple[Any, Any] | None = None  # a request and its application, while it is being received

    def on_headers_complete(self) -> None:
        """The head of a request is here."""
        super().on_headers_complete()
        if self.able is None:
            self.able = vars(self.cycle).keys() >= USED
        if self.able:
            self.scope["extensions"] = {WHOLE: partial(sent_whole, self.cycle)}

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """What uvicorn does with a request whose head is here; its body may be here in a moment."""
        if self.receiving and self.begun is None:
            self.begun = cycle, app
        else:
            super()._start_asgi_task(cycle, app)

    def _answer(self, cycle: Any, app: Any) -> None:
        """Answer a request at once, or start the task that does."""
        if self.able and not cycle.more_body and ready(cycle) and not self.transport.is_closing():
            at_once = getattr(app, "at_once", None)
            said = None if at_once is None else at_once(cycle.scope, bytes(cycle.body))
            if said is not None:
                sent_whole(cycle, said)
                return
        super()._start_asgi_task(cycle, app)

    def connection_made(self, transport: Any) -> None:
        """A client has come."""
        self.waits_since = time.monotonic()
        super().connection_made(Together(transport))

    def data_received(self, data: bytes) -> None:
        """A client has sent something."""
        if self.waits_since is None:
            self.waits_since = time.monotonic()
        self.receiving = True
        super().data_received(data)
        self.receiving = False
        # A request may be refused before all of its body is here: what comes then is no head.
        if self.cycle is not None and (self.cycle.more_body or not self.cycle.response_complete):
            self.waits_since = None
        if self.begun is not None:
            begun, self.begun = self.begun, None
            self._answer(*begun)

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
