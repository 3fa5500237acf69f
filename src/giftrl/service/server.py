"""The service on a port."""

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import uvicorn

from giftrl import system
from giftrl.errors import InvalidInput
from giftrl.service.app import Service
from giftrl.service.connection import Connection
from giftrl.service.ending import noted_signals
from giftrl.service.folder import Folder
from giftrl.service.follow import Follower
from giftrl.service.limits import Limits, Tokens
from giftrl.service.writer import Clock

#: Seconds for which requests may finish when the service is asked to end.
GRACE = 30
#: Connections that may be open; more are answered with 503.
CONNECTIONS = 1_000
#: Bytes of an array that goes back to the system as soon as it is freed, such as those of a model that is closed.
LARGE = 4 << 20


class Server(uvicorn.Server):
    """A server that ends after a time, where one is given, or when a signal has come.

    Args:
        config: of uvicorn.
        seconds: for the head of a request to arrive.
        end_after: seconds after which it ends; None for never.
        asked: the signals that have come; others may add to it.
    """

    def __init__(
        self, config: uvicorn.Config, seconds: float, end_after: float | None = None, asked: Sequence[int] = ()
    ) -> None:
        super().__init__(config)
        self.seconds, self.end_after, self.asked = seconds, end_after, asked

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to :func:`serve`: uvicorn would raise them again, and give requests up at a second one."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second."""
        for each in list(self.server_state.connections):
            if isinstance(each, Connection):
                each.end_if_slow(self.seconds)
        over = self.end_after is not None and counter >= 10.0 * self.end_after
        self.should_exit = self.should_exit or over or bool(self.asked)
        return await super().on_tick(counter)


def make_server(
    folder: Folder, tokens: Tokens | None = None, host: str = "127.0.0.1", end_after: float | None = None,
    warms: bool = False, asked: Sequence[int] = (),
) -> Server:  # fmt: skip
    """A server of a folder, to be run with a socket."""
    server: Server | None = None
    service = Service(folder, tokens, host, lambda: server is not None and server.should_exit, warms)
    config = uvicorn.Config(
        service.app, log_level="warning", access_log=False, server_header=False, lifespan="on", ws="none",
        http=Connection, timeout_keep_alive=30, timeout_graceful_shutdown=GRACE, limit_concurrency=CONNECTIONS,
        proxy_headers=False,
    )  # fmt: skip
    server = Server(config, folder.limits.seconds, end_after, asked)
    return server


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only where the protocol is named does asyncio send small answers at once; otherwise each waits 40 ms.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    system.claim_address(found)
    try:
        found.bind((host, port))
    except OSError as problem:
        found.close()
        taken = problem.errno == errno.EADDRINUSE
        rule = "is in use" if taken else f"cannot be listened at ({problem.strerror})"
        argument, value = ("port", port) if taken else ("host", host)
        raise InvalidInput(argument, value, rule, "give another one, or --port 0 for any that is free") from None
    found.listen(1024)
    return found


def serve(
    path: Path, limits: Limits, tokens: Tokens, host: str, port: int, *, end_after: float | None = None,
    follow: Sequence[tuple[str, str]] = (), tell: Callable[[str], None] = print,
) -> None:  # fmt: skip
    """Serve a folder until a signal comes, or for so many seconds; ``follow`` are names of models and their sources."""
    system.give_back_memory(LARGE)
    with noted_signals() as asked, listening(host, port) as at:
        folder = Folder(path, limits)
        followers: list[Follower] = []
        try:
            followers += [Follower(folder, name, source) for name, source in follow]
            server = make_server(folder, tokens, host, end_after, warms=True, asked=asked)
            for each in followers:
                each.start()
            shown = f"[{host}]" if ":" in host else host
            tell(f"giftrl serves {path} at http://{shown}:{at.getsockname()[1]}/")
            with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
                runner.run(server.serve(sockets=[at]))
        finally:
            for each in followers:
                each.end()
            folder.close()
            tell("every model is on the disk; the service has ended")


@contextlib.contextmanager
def background(
    path: Path, limits: Limits | None = None, tokens: Tokens | None = None, clock: Clock | None = None
) -> Iterator[str]:
    """A service of a folder in a thread of this process, at a port that is free; its address.

    >>> import tempfile, urllib.request
    >>> with tempfile.TemporaryDirectory() as folder, background(Path(folder)) as address:
    ...     urllib.request.urlopen(f"{address}/healthz").read()
    b'{"status":"ok"}'
    """
    with listening("127.0.0.1", 0) as at:
        folder = Folder(path, limits or Limits(), clock)
        server = make_server(folder, tokens)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{at.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            folder.close()
