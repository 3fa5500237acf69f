"""A connection of the server: answers leave in one piece, and a head that comes too slowly ends it."""

import time
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    Protocol: Any = object
else:
    Protocol = AutoHTTPProtocol

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

    def write(self, data: bytes) -> None:
        """Send a piece, unless it is a head that a body will follow."""
        if self._held:
            data, self._held = self._held + data, b""
        elif data.startswith(b"HTTP/1.1 ") and b"\r\ncontent-length: " in data:
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


class Connection(Protocol):  # type: ignore[misc]
    """A connection whose heads must arrive within a time; see :meth:`end_if_slow`."""

    waits_since: float | None = None  # for the rest of a head

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
