"""Clients that send requests one after the other over open connections, in one process, and measure each answer."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple


class Measured(NamedTuple):
    """What a load came to.

    >>> Measured([0.001] * 99 + [0.5], 2.0, 0).rate
    50.0
    """

    seconds: list[float]  # of each request
    elapsed: float
    refused: int  # answers that were no success

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.seconds) / self.elapsed

    def slowest(self, share: float) -> float:
        """The latency that this share of the requests stays below."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def request(path: str, body: bytes) -> bytes:
    """A request as it goes over the line."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _client(port: int, bodies: Sequence[bytes], first: int, end: float, pause: float, into: Measured) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    refused = 0
    for k in itertools.count(first):
        begun = time.perf_counter()
        if begun >= end:
            break
        writer.write(bodies[k % len(bodies)])
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(size)
        into.seconds.append(time.perf_counter() - begun)
        refused += not head.startswith(b"HTTP/1.1 200")
        if pause:
            await asyncio.sleep(pause)
    writer.close()
    return refused


def load(port: int, groups: Sequence[tuple[Sequence[bytes], int, float]], seconds: float) -> list[Measured]:
    """Run groups of clients at the same time.

    A group has requests, which its clients send in turn, the number of clients, and the seconds that a client waits
    after an answer.
    """

    async def run() -> list[Measured]:
        begun = time.perf_counter()
        found = [Measured([], seconds, 0) for _ in groups]
        refused = await asyncio.gather(*(
            _client(port, bodies, 7 * k, begun + seconds, pause, into)
            for (bodies, clients, pause), into in zip(groups, found, strict=True)
            for k in range(clients)
        ))  # fmt: skip
        elapsed, counts = time.perf_counter() - begun, iter(refused)
        return [
            Measured(each.seconds, elapsed, sum(itertools.islice(counts, clients)))
            for each, (_, clients, _) in zip(found, groups, strict=True)
        ]

    return asyncio.run(run())
