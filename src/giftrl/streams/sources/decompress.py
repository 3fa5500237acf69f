"""Compressed bytes in, plain bytes out: gzip, zstd, xz and bz2, told apart by their first bytes."""

import bz2
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["Broken", "Codec", "codec_of", "decompressed"]

#: How many bytes are read, or made, at a time. Small, since what a decoder made in a call that fails is lost.
PIECE = 1 << 16
#: xz files may ask for up to 4 GB before the first byte; ``xz -9`` needs 65 MB.
XZ_MEMORY = 1 << 29


class Broken(Exception):
    """Compressed data that ends too early or makes no sense; all that was made before has been handed over."""


class Codec(NamedTuple):
    """A way to compress: its name, the bytes that files begin with, and how to make a decoder for one member."""

    name: str
    magic: bytes
    decoder: Callable[[], Any]
    errors: tuple[type[Exception], ...]


class _Gzip:
    """zlib behind the interface of the other decoders."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        made = self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)
        # Output that filled the room may have more behind it, even where all input has been taken.
        self.needs_input = not self._decoder.unconsumed_tail and len(made) < max_length
        return made

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdDecompressor()


def _zstd_error() -> type[Exception]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdError


CODECS = (
    Codec("gzip", b"\x1f\x8b", _Gzip, (zlib.error,)),
    Codec("zstd", b"\x28\xb5\x2f\xfd", _zstd, ()),
    Codec("xz", b"\xfd7zXZ\x00", lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY), (lzma.LZMAError, MemoryError)),
    Codec("bz2", b"BZh", bz2.BZ2Decompressor, (OSError, ValueError)),
)


def codec_of(head: bytes) -> Codec | None:
    """How bytes that begin like this are compressed.

    >>> codec_of(b"BZh91AY&SY").name
    'bz2'
    >>> codec_of(b"1 2:3") is None
    True
    """
    for codec in CODECS:
        if _begins(codec, head) and (codec.name != "bz2" or head[4:10] in _BZ2_SECOND):
            return codec
    return None


#: What follows ``BZh9`` in a bz2 file with and without data. Three letters alone could be text.
_BZ2_SECOND = (b"1AY&SY", b"\x17rE8P\x90")


def _begins(codec: Codec, head: bytes) -> bool:
    """Whether a member of this codec can begin like that; zstd has frames to be skipped, with magic numbers too."""
    if codec.name == "zstd" and len(head) >= 4 and head[0] & 0xF0 == 0x50 and head[1:4] == b"\x2a\x4d\x18":
        return True
    return head[: len(codec.magic)] == codec.magic


def decompressed(raw: io.RawIOBase | Any, head: bytes, codec: Codec) -> Iterator[bytes]:
    """What was compressed, in pieces; ``head`` are the bytes already read from ``raw``.

    Several members one after the other are one file, as they are for ``zcat``, and so are zeros behind them.

    >>> import gzip, io
    >>> packed = gzip.compress(b"a\\n") + gzip.compress(b"b\\n")
    >>> b"".join(decompressed(io.BytesIO(packed), b"", CODECS[0]))
    b'a\\nb\\n'
    """
    errors = codec.errors or (_zstd_error(),)
    data = head
    while True:  # once for each member
        decoder = codec.decoder()
        while not decoder.eof:
            if decoder.needs_input and not data:
                data = raw.read(PIECE) or b""
                if not data:
                    raise Broken(f"the {codec.name} data ends too early")
            try:
                made = decoder.decompress(data, PIECE)
            except errors as problem:
                raise Broken(f"the {codec.name} data is damaged ({problem})") from problem
            data = b""
            if made:
                yield made
        data = decoder.unused_data
        while True:
            data = data.lstrip(b"\0")
            if data:
                break
            data = raw.read(PIECE) or b""
            if not data:
                return
        while len(data) < len(codec.magic) and (more := raw.read(PIECE)):
            data += more
        if not _begins(codec, data):
            raise Broken(f"the {codec.name} data is followed by something else")
