"""Files cut into shards, one for each worker: a pure function of the files and of how many workers there are.

Plain text is cut into blocks of bytes, which go to the workers in turn: so every worker meets all of the data, which
matters where rows are in the order of time. A line belongs to the block that its first byte is in. Compressed files,
Parquet, Arrow and npz, and CSV with newlines inside quotes, are not cut: whole files go to the workers in turn.
"""

import io
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from giftrl.distributed.files import File, source_of
from giftrl.streams.sources.source import Source

#: A block has this many bytes at most, and at least; there are this many for each worker where that allows it.
LARGEST, SMALLEST, EACH = 4 << 20, 4 << 10, 16
#: How many bytes are read at a time behind a block, to the end of its last line.
AHEAD = 1 << 16


class Cut(NamedTuple):
    """A part of a file: the lines that begin in these bytes; all of a file that has no lines."""

    file: int  # its number
    begin: int
    end: int


def block_size(total: int, workers: int) -> int:
    """How many bytes a block has: a 16th of a worker's part, but at least 4 KiB and at most 4 MiB.

    >>> block_size(1 << 20, 4), block_size(1 << 40, 4)
    (16384, 4194304)
    """
    return min(max(total // (EACH * workers), SMALLEST), LARGEST)


def deal(files: Sequence[File], workers: int) -> tuple[tuple[Cut, ...], ...]:
    """The shards of the workers. The header of CSV is in no block.

    >>> deal([File("a.svm", 10_000, lines=True), File("b.gz", 7)], 2)
    ((Cut(file=0, begin=0, end=4096), Cut(file=0, begin=8192, end=10000), Cut(file=1, begin=0, end=7)),
     (Cut(file=0, begin=4096, end=8192),))
    """
    size = block_size(sum(file.size for file in files if file.lines), workers)
    shards: list[list[Cut]] = [[] for _ in range(workers)]
    blocks = whole = 0
    for number, file in enumerate(files):
        if not file.lines:
            shards[whole % workers].append(Cut(number, 0, file.size))
            whole += 1
            continue
        for begin in range(len(file.header), file.size, size):
            shards[blocks % workers].append(Cut(number, begin, min(begin + size, file.size)))
            blocks += 1
    return tuple(map(tuple, shards))


def source_of_cut(file: File, cut: Cut) -> Source:
    """The rows of a part of a file, as a reader takes them."""
    if not file.lines:
        return source_of(file.name)
    return Source(f"{file.name} from byte {cut.begin}", opener=partial(open_cut, file, cut))


def open_cut(file: File, cut: Cut) -> Any:
    """The lines of a block, behind the header of its file."""
    with file_object(file) as raw:
        return io.BytesIO(file.header + whole_lines(raw, cut.begin, cut.end, cut.begin == len(file.header)))


def file_object(file: File) -> Any:
    """A file, opened to be read."""
    source = source_of(file.name)
    return source.path.open("rb") if source.path is not None else source.again


def whole_lines(raw: Any, begin: int, end: int, first: bool = False) -> bytes:
    """The lines of an open file whose first bytes are at ``begin`` or behind it, and before ``end``.

    ``first`` says that a line begins at ``begin``.

    >>> file = io.BytesIO(b"one\\ntwo\\nthree")
    >>> [whole_lines(file, k, k + 4, k == 0) for k in (0, 4, 8, 12)]
    [b'one\\n', b'two\\n', b'three', b'']
    """
    before = 0 if first else 1  # a line begins at ``begin`` if the byte before it ends one
    raw.seek(begin - before)
    data = bytearray(raw.read(end - begin + before))
    start = 0 if first else data.find(b"\n") + 1
    if before and (start == 0 or start == len(data)):  # no line begins here
        return b""
    while not data.endswith(b"\n") and (more := raw.read(AHEAD)):
        rest = more.find(b"\n") + 1
        data += more[:rest] if rest else more
        if rest:
            break
    return bytes(data[start:])
