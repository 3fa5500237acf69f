"""The format of a source: what the user said, or what its first bytes or its name show."""

import re
from typing import NamedTuple

from giftrl.errors import BadSource, Given

#: Every format, and the endings of files that have it.
FORMATS: dict[str, tuple[str, ...]] = {
    "libsvm": (".svm", ".libsvm", ".svmlight"),
    "vw": (".vw",),
    "csv": (".csv", ".tsv", ".psv"),
    "json": (".json", ".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".arrows"),
    "npz": (".npz",),
}
#: Formats made of lines.
TEXT_FORMATS = ("libsvm", "vw", "csv", "json")
#: How many bytes of a source are examined; a multiple of a decompressed piece.
HEAD_BYTES = 1 << 18

_PACKED = (".gz", ".zst", ".zstd", ".xz", ".bz2")
_NUMBER = rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_LABEL = re.compile(rb"\s*" + _NUMBER + rb"\s*\Z")
_LIBSVM = re.compile(rb"\s*[^\s:,;|\"]+(?:[ \t]+[^\s:,;\"]+:" + _NUMBER + rb")+\s*\Z")
_DELIMITERS = (b",", b"\t", b";", b"|")


class _Guess(NamedTuple):
    """The formats that a line can have."""

    formats: tuple[str, ...]
    why: str
    lines: bool = False  # whether there are lines of text


def detect(head: bytes, name: str, asked: str | None = None) -> str:
    """The format of a source.

    Args:
        head: its first bytes, after decompression.
        name: its name, used if the bytes leave a choice.
        asked: what the user said; an error if the bytes clearly show another format.
    """
    guess = _by_content(head)
    if asked is not None:
        binary = [each for each in guess.formats if each not in TEXT_FORMATS]
        if (asked in TEXT_FORMATS and binary) or (asked not in TEXT_FORMATS and asked not in guess.formats):
            raise BadSource(name, [Given("format", asked), f" was asked for, but {guess.why}"], _remedy(guess.formats))
        return asked
    named = _by_name(name)
    if named in guess.formats:
        return named
    # A line of no known format, or at most of a table, may be a bad line in the format that the name shows.
    if named in TEXT_FORMATS and guess.lines and guess.formats in ((), ("csv",)):
        return named
    if named is not None and named not in TEXT_FORMATS and guess.formats:
        raise BadSource(name, f"the name says {named}, but {guess.why}", _remedy(guess.formats))
    if len(guess.formats) == 1:
        return guess.formats[0]
    if guess.formats:
        raise BadSource(name, f"the format is not certain: {guess.why}", _remedy(guess.formats))
    raise BadSource(name, f"the format is unknown: {guess.why}", _remedy(()))


def _remedy(formats: tuple[str, ...]) -> str:
    return f"give format, one of: {', '.join(formats or FORMATS)}"


def _by_name(name: str) -> str | None:
    lower = name.lower()
    for ending in _PACKED:
        lower = lower.removesuffix(ending)
    for format_, endings in FORMATS.items():
        if lower.endswith(endings):
            return format_
    return None


def _by_content(head: bytes) -> _Guess:
    if head.startswith(b"PAR1"):
        return _Guess(("parquet",), "it begins like Parquet")
    # An Arrow stream begins with a marker and the length of its first message.
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return _Guess(("arrow",), "it begins like Arrow IPC")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _Guess(("npz",), "it begins like a zip file, as npz does")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _Guess((), "it begins like UTF-16, which must be converted to UTF-8 first (iconv -f UTF-16 -t UTF-8)")
    if b"\0" in head.split(b"\n", 1)[0]:  # further down it is a bad line, which its reader will name
        return _Guess((), "it holds binary data that does not begin like Parquet, Arrow IPC or npz")
    doubtful: _Guess | None = None
    # The last line, or the last word of the only one, may continue behind the head.
    end = head.rfind(b"\n") if b"\n" in head else head.rfind(b" ") if len(head) >= HEAD_BYTES else -1
    whole = head if end < 0 else head[:end]
    for line in whole.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        guess = _by_line(line.rstrip(b"\r"))
        if len(guess.formats) == 1:
            return guess
        doubtful = doubtful or guess
        if not _LABEL.match(line):
            break  # the next line can only decide if this one is nothing but a label
    return doubtful or _Guess((), "it holds no line of data")


def _by_line(line: bytes) -> _Guess:
    shown = f"its first line is {line[:60].decode('utf-8', 'backslashreplace')!r}"
    if line.lstrip().startswith(b"{"):
        return _Guess(("json",), shown, True)
    if line.lstrip().startswith(b"["):
        return _Guess((), "it begins like a JSON array, and must have one object in each line", True)
    before, bar, _ = line.partition(b"|")
    if bar and not any(mark in before for mark in b',\t;"'):
        # "id|age|label" can be both; a space, or nothing before the bar, makes it VW.
        sure = b" " in line or not before
        return _Guess(("vw",) if sure else ("vw", "csv"), shown, True)
    if _LIBSVM.match(line.partition(b"#")[0]):
        return _Guess(("libsvm",), shown, True)
    if _LABEL.match(line):
        return _Guess(("libsvm", "vw", "csv"), f"{shown}, a label and nothing else", True)
    if any(mark in line for mark in _DELIMITERS):
        return _Guess(("csv",), shown, True)
    return _Guess((), shown, True)
