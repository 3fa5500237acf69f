"""What can be followed: sources as they are named on the command line, and the formats of what they bring."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from giftrl.errors import BadSource, InvalidInput, Refused, require
from giftrl.service.folder import require_name
from giftrl.streams.formats import HEAD, detect
from giftrl.streams.sources.source import STANDARD_INPUT

#: The formats that can be followed.
TEXT = ("json", "libsvm", "vw")


def parse(given: str) -> tuple[str, str]:
    """The name of the model and the source in ``NAME=SOURCE``; the name of a file is that of its model.

    >>> parse("logs/clicks.jsonl"), parse("shop=logs/clicks.jsonl")
    (('clicks', 'logs/clicks.jsonl'), ('shop', 'logs/clicks.jsonl'))
    """
    name, equals, source = given.partition("=")
    if not equals:
        name, source = re.sub(r"[^A-Za-z0-9_-]", "-", Path(given).name.split(".")[0]) or "-", given
    require(bool(source), "follow", given, "names no source", "give a file, a folder, or - for standard input")
    try:
        require_name(name)
    except Refused:
        rule = "has no name for its model"
        raise InvalidInput("follow", given, rule, "write --follow NAME=SOURCE") from None
    return name, source


def followable(given: Sequence[str]) -> list[tuple[str, str]]:
    """The models and sources that were named; an error where one cannot be followed, or would be learnt twice.

    >>> followable(["a.jsonl", "a=./a.jsonl"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: follow='a=./a.jsonl': is the same source as 'a.jsonl', ...
    """
    found: list[tuple[str, str]] = []
    for each in given:
        name, source = parse(each)
        for earlier, (other, known) in zip(given, found, strict=False):
            if source == known == STANDARD_INPUT:
                rule = f"is standard input, as {earlier!r} is, and each row would come to one of them alone"
                raise InvalidInput("follow", each, rule, "leave one of them out")
            twice = name == other and STANDARD_INPUT not in (source, known) and _same(source, known)
            rule = f"is the same source as {earlier!r}, whose rows would be learnt twice"
            require(not twice, "follow", each, rule, "leave one of them out")
        if source == STANDARD_INPUT:
            require(
                sys.stdin is not None, "follow", each, "is closed", "give a file or a folder, or open standard input"
            )
        else:
            _require_format(source, each)
        found.append((name, source))
    return found


def format_of(heads: Sequence[bytes], name: str) -> str:
    """The format of a source, by the first of some pieces of it that shows one; an error where none can be followed.

    >>> format_of([b"1 3:0.5"], "rows.txt")
    'libsvm'
    >>> format_of([b"a,b"], "rows.csv")
    Traceback (most recent call last):
    giftrl.errors.BadSource: rows.csv: is csv, which cannot be followed; give one of json, libsvm, vw
    """
    failure: BadSource | None = None
    for head in heads:
        try:
            found = detect(head[:HEAD], name)
        except BadSource as problem:
            failure = problem
            continue
        if found in TEXT:
            return found
        failure = BadSource(name, f"is {found}, which cannot be followed", f"give one of {', '.join(TEXT)}")
    assert failure is not None
    raise failure


def is_blank(data: bytes) -> bool:
    """Whether there are only empty lines and comments, which show no format and are no rows.

    >>> is_blank(b"# rows of today"), is_blank(b"1 3:0.5")
    (True, False)
    """
    return all(not line.strip() or line.lstrip().startswith(b"#") for line in data.split(b"\n"))


def _require_format(source: str, given: str) -> None:
    """Refuse a file that is there, has lines, and has a format that cannot be followed."""
    path = Path(source)
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:  # which may mend; the follower says so until it does
        return
    end = head.rfind(b"\n")
    if is_blank(head[: end + 1]):
        return
    try:
        format_of([head], source)
    except BadSource as problem:
        raise InvalidInput("follow", given, problem.rule, f"give one of {', '.join(TEXT)}") from None


def _same(one: str, other: str) -> bool:
    """Whether two sources are one file or folder, or one is a file in the folder that the other is."""
    first, second = (Path(os.path.realpath(each)) for each in (one, other))
    if first == second or (first.is_dir() and second.parent == first) or (second.is_dir() and first.parent == second):
        return True
    try:
        return first.samefile(second)
    except OSError:  # one of them is not there yet
        return False
