"""Blocks of whole lines, of a few megabytes each."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Position, Rejected
from giftrl.streams.source import Stream

BLOCK_BYTES = 1 << 22
MAX_LINE = 1 << 28
#: The minimum size of a block, so that a growing file is read in few blocks.
MIN_BUFFER_BYTES = 1 << 12
#: Bytes of a too long line that are kept for the message.
SHOWN_BYTES = 200
#: The byte order mark that some editors put at the beginning of a file.
BOM = b"\xef\xbb\xbf"


class Block(NamedTuple):
    """Whole lines and their position; the last line of a source may lack its newline."""

    data: NDArray[np.uint8]
    start: Position
    end: Position
    last: bool  # True for the last block of a source
    rejected: tuple[Rejected, ...] = ()


def count_lines(data: NDArray[np.uint8]) -> int:
    """Count newlines in a few large pieces, since each one may wait for the interpreter lock."""
    step = 1 << 20
    return sum(int(np.count_nonzero(data[i : i + step] == 10)) for i in range(0, len(data), step))


def as_block(data: Any) -> NDArray[np.uint8]:
    """Bytes as a read-only array that ends with a newline."""
    block = data if isinstance(data, np.ndarray) else np.frombuffer(data, dtype=np.uint8)
    if len(block) and block[-1] != 10:
        block = np.append(block, np.uint8(10))
    block = np.ascontiguousarray(block).view()
    block.flags.writeable = False
    return block


class LineBlocks:
    """The blocks of a stream from a position.

    ``size`` is the block size in bytes; a longer line makes a larger block. A line longer than ``max_line`` is rejected
    without being held in memory. Truncated data raises :class:`giftrl.errors.BadSource` after the last whole line.
    """

    def __init__(self, stream: Stream, start: Position, size: int = BLOCK_BYTES, max_line: int = MAX_LINE) -> None:
        self.stream = stream
        whole = stream.total + 1 if stream.compression is None and stream.total is not None else size
        self.size = min(size, max_line + 1, max(whole, MIN_BUFFER_BYTES))
        self.max_line = max_line
        stream.skip_to(start.offset)
        self._here = start  # where the next block begins
        self._tail = b""  # bytes read but not returned yet: the beginning of a line
        self._block: Block | None = None

    def give_back(self, count: int) -> None:
        """Return the last ``count`` bytes of the last block, which are whole lines; the next block begins with them."""
        block = self._block
        if count and block is not None:
            kept = len(block.data) - count
            start = block.start
            self._tail = block.data[kept:].tobytes() + self._tail
            self._here = Position(start.source, start.offset + kept, start.line + count_lines(block.data[:kept]))

    def __iter__(self) -> Iterator[Block]:
        while True:
            # A CSV reader has seen the whole first block, header included, so that block keeps its end.
            size = self.size - self._here.offset if 2 * self._here.offset < self.size else self.size
            # The next block must be larger than what was given back, or reading would not advance.
            buffer = bytearray(max(size, min(2 * len(self._tail), self.max_line + 1)))
            filled = len(self._tail)
            buffer[:filled] = self._tail
            self._tail = b""
            cut, seen = 0, 0  # the end of the last newline, and how far has been searched
            while True:
                filled += self.stream.readinto(memoryview(buffer)[filled:])
                last = filled < len(buffer)
                cut = buffer.rfind(b"\n", seen, filled) + 1
                seen = filled
                if cut or last or filled > self.max_line:
                    break
                buffer.extend(bytes(min(len(buffer), self.max_line + 1 - len(buffer))))
            if not cut and filled > self.max_line:
                yield self._too_long(bytes(buffer[:SHOWN_BYTES]), filled)
                continue
            if last and self.stream.broken:
                # The rest is a truncated line.
                if cut:
                    yield self._cut(buffer, cut, False)
                self.stream.check_end(self._here.line)
            if last:
                if filled:
                    yield self._cut(buffer, filled, True)
                if not self._tail:
                    return
                continue
            self._tail = bytes(buffer[cut:filled])
            yield self._cut(buffer, cut, False)

    def _cut(self, buffer: bytearray, cut: int, last: bool) -> Block:
        data = np.frombuffer(buffer, np.uint8, cut)
        lines = count_lines(data) + (last and data[-1] != 10)
        here = self._here
        end = Position(here.source, here.offset + cut, here.line + int(lines))
        self._block, self._here = Block(data, here, end, last), end
        return self._block

    def _too_long(self, beginning: bytes, length: int) -> Block:
        """Reject a too long line; the rest of it is read and discarded."""
        here = self._here
        buffer = bytearray(1 << 20)
        filled, cut = len(buffer), 0
        while not cut and filled == len(buffer):
            filled = self.stream.readinto(memoryview(buffer))
            cut = buffer.find(b"\n", 0, filled) + 1
            length += cut or filled
        self._tail = bytes(buffer[cut:filled]) if cut else b""
        end = Position(here.source, here.offset + length, here.line + 1)
        problem = f"a line of {length} bytes, which begins with {beginning[:40]!r}"
        expected = f"at most {self.max_line} bytes a line"
        rejected = Rejected(self.stream.source.name, here.line, 1, problem, expected, beginning)
        self._here = end
        self._block = Block(np.empty(0, np.uint8), here, end, not cut, (rejected,))
        return self._block
