"""Compressed bytes in, plain bytes out: gzip, zstd, xz and bz2, told apart by their first bytes.

The decoders are those of the standard library, driven here and not by its file objects: ``BZ2File`` and ``LZMAFile``
ignore whatever follows a member if it is not another sound one, so that a file whose second half is damaged would end
early without a word. ``LZMAFile`` has no limit of memory and takes zeros after the last member for a truncated one;
``ZstdFile`` takes them for damage.
"""

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: How many bytes are read, or made, at a time. Small, since what a decoder made in a call that fails is lost.
PIECE_BYTES = 1 << 16
#: xz files may ask for up to 4 GB before the first byte; ``xz -9`` needs 65 MB.
XZ_MEMORY = 1 << 29


class Broken(Exception):
    """Compressed data that ends too early or makes no sense; all that was made before has been handed over."""


class _Gzip:
    """zlib behind the interface of the other decoders."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        made = self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)
        # Output that filled the buffer may have more behind it, even if all input has been taken.
        self.needs_input = not self._decoder.unconsumed_tail and len(made) < max_length
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)  # eof and unused_data


class Codec(NamedTuple):
    """A way to compress: its name, how members of its files begin, how to make a decoder, and what decoders raise."""

    name: str
    magic: tuple[bytes, ...]
    decoder: Callable[[], Any]
    errors: tuple[type[Exception], ...]


CODECS = (
    Codec("gzip", (b"\x1f\x8b",), _Gzip, (zlib.error,)),
    # zstd has frames to be skipped, with 16 magic numbers.
    Codec(
        "zstd",
        (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + low]) + b"\x2a\x4d\x18" for low in range(16))),
        zstd.ZstdDecompressor,
        (zstd.ZstdError,),
    ),
    Codec("xz", (b"\xfd7zXZ\0",), lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY), (lzma.LZMAError, MemoryError)),
    # After "BZh" and a digit: a block of data, or the end. Three letters alone could be text.
    Codec(
        "bz2",
        tuple(b"BZh%d%b" % (level, mark) for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")),
        bz2.BZ2Decompressor,
        (OSError, ValueError),
    ),
)


def codec_of(head: bytes) -> Codec | None:
    """The codec of compressed bytes, by their beginning."""
    return next((codec for codec in CODECS if head.startswith(codec.magic)), None)


def decompressed(read: Callable[[int], bytes], head: bytes, codec: Codec) -> Iterator[bytes]:
    """Decompress in pieces; ``head`` are the bytes that ``read`` has returned already.

    Several members one after the other are one file, as they are for ``zcat``, and so are zeros behind them.
    """
    data = head
    while True:  # once for each member
        decoder = codec.decoder()
        while not decoder.eof:
            if decoder.needs_input and not data:
                data = read(PIECE_BYTES)
                if not data:
                    raise Broken(f"the {codec.name} data ends too early")
            try:
                made = decoder.decompress(data, PIECE_BYTES)
            except codec.errors as problem:
                raise Broken(f"the {codec.name} data is damaged ({problem})") from problem
            data = b""
            if made:
                yield made
        data = decoder.unused_data.lstrip(b"\0")
        while len(data) < max(map(len, codec.magic)) and (more := read(PIECE_BYTES)):
            data = (data + more).lstrip(b"\0")
        if not data:
            return
        if not data.startswith(codec.magic):
            raise Broken(f"the {codec.name} data is followed by something else")
