"""Running the service: socket, server thread, signals, and compilation ahead of requests.

The first row that a model learns takes some twenty seconds if its loops must be compiled. Compiled loops are cached on
disk, so this happens once per machine. :class:`WarmUp` trains small models with the same settings ahead of the first
request.
"""

import asyncio
import contextlib
import errno
import functools
import gc
import logging
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httptools
import numpy as np
import orjson
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import HANDLED_SIGNALS

from giftrl import system
from giftrl.errors import InvalidInput
from giftrl.service.bodies import Body
from giftrl.service.folder import Folder
from giftrl.service.follow import Follower
from giftrl.service.http import Service
from giftrl.service.online_model import OnlineModel
from giftrl.service.request_limits import Limits, Tokens
from giftrl.service.requested_settings import RequestedSettings

log = logging.getLogger("giftrl.service")

#: Seconds for requests to finish during shutdown.
GRACE_SECONDS = 30
#: The maximum number of open connections (more get 503), and of bytes in a request head.
MAX_CONNECTIONS, MAX_HEAD_BYTES = 1_000, 64 << 10
#: The minimum size of arrays whose memory is returned to the system when freed.
LARGE_ARRAY_BYTES = 4 << 20
#: The maximum number of models whose loops are compiled at startup.
MAX_WARMED_MODELS = 100
#: Candidate labels, of which every loss accepts two, and bits of hashed names, of models that have loops compiled.
CANDIDATE_LABELS, WARM_UP_BITS = (0.0, 1.0, -1.0, 0.5, 2.0), 4


class WarmUp(threading.Thread):
    """A thread that compiles the loops of models, one after the other."""

    def __init__(self) -> None:
        super().__init__(name="compiles loops", daemon=True)
        self._asked: set[bytes] = set()
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue()

    @property
    def ready(self) -> bool:
        """True if all loops are compiled."""
        return self._queue.unfinished_tasks == 0

    def ask(self, given: dict[str, Any]) -> None:
        """Queue compilation for these settings, unless already queued."""
        key = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
        if key not in self._asked:
            self._asked.add(key)
            self._queue.put(given)

    def run(self) -> None:
        """Compile loops until the process ends."""
        while True:
            given = self._queue.get()
            try:
                compile_loops(given)
            except Exception as problem:  # a request will get the same error
                log.warning("loops for %.200r could not be compiled: %s", given, problem)
            self._queue.task_done()


def compile_loops(given: dict[str, Any]) -> None:
    """Learn and predict a few rows with a small model of some settings."""
    requested = RequestedSettings(given if given.get("dictionary") else given | {"bits": WARM_UP_BITS})
    labels: Any = requested.labels
    if labels is None and requested.loss_undecided:
        labels = [0, 1]
    elif labels is None:
        accepted = requested.settings(requested.target).accepts(np.array(CANDIDATE_LABELS))
        labels = [label for label, good in zip(CANDIDATE_LABELS, accepted, strict=True) if good]
    lines = [orjson.dumps({"label": label, "a": 1.5, "b": "x"}) + b"\n" for label in labels[:2]]
    model = OnlineModel(requested)
    for data in (b"".join(lines), lines[0], lines[0]):  # the last one as a single row
        model.learn([Body("json", data, skip=True)])
    row = b'{"a": 1.5}\n'
    for data in (2 * row, row):
        model.predict([Body("json", data)])


class HeadGuard(asyncio.Protocol):
    """A connection of uvicorn with limits for the heads of requests: their size, and the time until the body begins.

    uvicorn has no such limits. A parser of httptools finds the ends of heads; uvicorn's protocol does everything else.
    The time counts from the start of a head or of the connection.
    """

    def __init__(self, seconds: float, **more: Any) -> None:
        self._inner = HttpToolsProtocol(**more)
        for name in ("eof_received", "pause_writing", "resume_writing"):
            setattr(self, name, getattr(self._inner, name))
        self._parser: Any = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self._seconds, self._loop = seconds, asyncio.get_running_loop()
        self._since: float | None = self._loop.time()
        self._head_bytes = 0
        self._in_body = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._timer = self._loop.call_later(self._seconds, self._check)
        self._inner.connection_made(transport)

    def connection_lost(self, problem: Exception | None) -> None:
        self._timer.cancel()
        self._inner.connection_lost(problem)

    def _check(self) -> None:
        """Close the connection if a head is late."""
        if self._since is not None and self._loop.time() - self._since >= self._seconds:
            self._end(b"408 Request Timeout")
        else:
            self._timer = self._loop.call_later(self._seconds / 4.0, self._check)

    def _end(self, status: bytes) -> None:
        self._transport.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
        self._transport.close()

    # Calls of the parser: at the end of a head, for a piece of a body, and at the end of a request.

    def on_headers_complete(self) -> None:
        self._in_body, self._head_bytes = True, 0

    def on_body(self, data: bytes) -> None:
        self._since = None

    def on_message_complete(self) -> None:
        self._since, self._in_body = None, False

    def data_received(self, data: bytes) -> None:
        begins_in_body = self._in_body
        if self._since is None and not begins_in_body:
            self._since = self._loop.time()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError:  # uvicorn answers with 400, and ends the connection
            self._since = None
        if self._since is not None and not (begins_in_body or self._in_body):
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._end(b"431 Request Header Fields Too Large")
                return
        self._inner.data_received(data)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once only if the protocol is named; otherwise each waits 40 ms.
    at = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    system.claim_address(at)
    try:
        at.bind((host, port))
    except OSError as problem:
        at.close()
        taken = problem.errno == errno.EADDRINUSE
        rule = "is in use" if taken else f"cannot be listened at ({problem.strerror})"
        argument, value = ("port", port) if taken else ("host", host)
        raise InvalidInput(argument, value, rule, "give another one, or --port 0 for any that is free") from None
    at.listen(1024)
    return at


@contextlib.contextmanager
def running(
    folder: Folder, at: socket.socket, tokens: Tokens | None = None, host: str = "127.0.0.1",
    warm_up: WarmUp | None = None,
) -> Iterator[threading.Thread]:  # fmt: skip
    """Serve a folder in a thread; at the end, finish waiting requests and close the folder."""
    service = Service(folder, tokens, host, warm_up)
    protocol: Any = functools.partial(HeadGuard, folder.limits.seconds)
    config = uvicorn.Config(
        service, log_level="warning", access_log=False, server_header=False, lifespan="off", ws="none",
        http=protocol, timeout_keep_alive=30, timeout_graceful_shutdown=GRACE_SECONDS,
        limit_concurrency=MAX_CONNECTIONS, proxy_headers=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    service.ending = lambda: server.should_exit
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at]}, name="serves")
    thread.start()
    try:
        yield thread
    finally:
        server.should_exit = True
        thread.join()
        service.close()
        folder.close()


@contextlib.contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Graceful shutdown on SIGTERM and Ctrl-C: signals are collected in a list instead of ending the process. If there
    was one, later signals are ignored after the block, because the process is about to end.
    """
    signals: list[int] = []
    earlier = {each: signal.signal(each, lambda number, _: signals.append(number)) for each in HANDLED_SIGNALS}
    try:
        yield signals
    finally:
        for each, handler in earlier.items():
            signal.signal(each, signal.SIG_IGN if signals else handler)


def serve(
    path: Path, limits: Limits, tokens: Tokens, host: str, port: int, *, end_after: float | None = None,
    follow: Sequence[tuple[str, str]] = (), tell: Callable[[str], None] = print,
) -> None:  # fmt: skip
    """Serve a folder until a signal comes, or for some seconds; ``follow`` has names of models and their sources."""
    system.give_back_memory(LARGE_ARRAY_BYTES)
    end = float("inf") if end_after is None else time.monotonic() + end_after
    with noted_signals() as signals, listening(host, port) as at:
        folder, warm_up = Folder(path, limits), WarmUp()
        followers: list[Follower] = []
        try:
            followers += [Follower(folder, name, source) for name, source in follow]
            for given in [{}, *folder.some_settings(MAX_WARMED_MODELS)]:
                warm_up.ask(given)
            warm_up.start()
            gc.collect()
            gc.freeze()  # exclude modules and loops from garbage collection
            with running(folder, at, tokens, host, warm_up) as thread:
                for follower in followers:
                    follower.start()
                shown = f"[{host}]" if ":" in host else host
                tell(f"giftrl serves {path} at http://{shown}:{at.getsockname()[1]}/")
                while thread.is_alive() and not signals and time.monotonic() < end:
                    thread.join(0.1)
        finally:
            for follower in followers:
                follower.end()
            folder.close()
            tell("every model is on the disk; the service has ended")


@contextlib.contextmanager
def background(path: Path, tokens: Tokens | None = None) -> Iterator[str]:
    """Serve a folder in a thread of this process, at any free port; the address.

    >>> import tempfile, urllib.request
    >>> with tempfile.TemporaryDirectory() as folder, background(Path(folder)) as address:
    ...     urllib.request.urlopen(f"{address}/healthz").read()
    b'{"status":"ok"}'
    """
    with listening("127.0.0.1", 0) as at, running(Folder(path, Limits()), at, tokens):
        yield f"http://127.0.0.1:{at.getsockname()[1]}"
