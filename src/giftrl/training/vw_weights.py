"""The text of a model of Vowpal Wabbit."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.errors import InvalidInput
from giftrl.streams.names.murmur import add_bytes, end_name
from giftrl.training.given_weights import Given, named

#: VW's number of its constant feature, before it is cut to the bits of the model.
CONSTANT = 11650396
NAMED = re.compile(r"(.*):([0-9]+):(\S+)(?: .*)?$")
NUMBERED = re.compile(r"([0-9]+):(\S+)(?: .*)?$")


def read_vw(path: str, text: str) -> Given:
    """The weights that ``vw --invert_hash FILE`` or ``vw --readable_model FILE`` wrote.

    A line of the former is ``namespace^feature:hash:weight``, a line of the latter ``hash:weight``. With ``--oaa K``,
    the names of the classes after the first end in ``[1]``, ``[2]`` and so on.

    >>> text = "Version 9.11.9\\nbits:18\\noptions:\\n:0\\na^x:123:0.5\\nConstant:116060:-1\\n"
    >>> given = read_vw("m.txt", text)
    >>> given.names, given.values.tolist(), given.places[0]
    (['a^x', '(constant)'], [[0.5], [-1.0]], 'm.txt:5')
    """
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if re.fullmatch(":[0-9]+", line)) + 1
    header = dict(line.split(":", 1) for line in lines[: first - 1] if ":" in line)
    options = header.get("options", "")
    oaa = re.search(r"--oaa ([0-9]+)", options)
    for option in ("--nn", "--lrq", "--boosting", "--csoaa", "--ect", "--cb", "--ksvm", "--lda"):
        if re.search(rf"{option}\w*\b", options):
            remedy = "give a linear model of one score, or of --oaa"
            raise InvalidInput("weights", path, f"is a model of {option}, which is not linear", remedy)
    body = list(enumerate(lines[first:], first + 1))
    byname = [(number, match) for number, line in body if (match := NAMED.match(line))]
    if byname:
        found = ((f"{path}:{number}", match[1], match[3]) for number, match in byname)
        if oaa is not None:
            classes = int(oaa[1])
            given = named(path, _classes(found, classes))
            return given._replace(classes=tuple(range(1, classes + 1)), products=True)
        return named(path, ((place, _constant(name), number) for place, name, number in found), products=True)
    if oaa is not None:
        raise InvalidInput("weights", path, "has several classes and no names", "write it with vw --invert_hash")
    numbered = [match for _, line in body if (match := NUMBERED.match(line))]
    given = named(path, ((path, match[1], match[2]) for match in numbered))
    bits = int(header.get("bits", "18"))
    hashes = dict(zip(map(int, given.names or ()), given.values[:, 0].tolist(), strict=True))
    return given._replace(hashed=hashes, bits=bits, names=None)


def _constant(name: str) -> str:
    return "(constant)" if name == "Constant" else name


def _classes(found: Iterable[tuple[str, str, Any]], classes: int) -> Iterable[tuple[str, str, Any]]:
    """One entry for each name, with the weights of all classes; those that are not there are 0."""
    rows: dict[str, tuple[str, list[Any]]] = {}
    for place, name, number in found:
        match = re.fullmatch(r"(.*)\[([0-9]+)\]", name)
        plain, column = (match[1], int(match[2])) if match and int(match[2]) < classes else (name, 0)
        rows.setdefault(_constant(plain), (place, [0.0] * classes))[1][column] = number
    return ((place, name, row) for name, (place, row) in rows.items())


def vw_hashes(names: list[str], bits: int) -> list[int]:
    """The numbers that VW gives to names such as ``namespace^feature``.

    MurmurHash3 of the feature with that of the namespace as the seed, which is 0 without a namespace; a whole number is
    added to the seed instead.

    >>> vw_hashes(["user^age", "user^7", "a", "7", "(constant)"], 18)
    [23567, 15636, 92594, 7, 116060]
    """
    mask = (1 << bits) - 1
    seeds: dict[str, int] = {"": 0}
    found = []
    for name in names:
        space, caret, feature = name.partition("^")
        if not caret:
            space, feature = "", name
        if space not in seeds:
            seeds[space] = _hash(space, 0)
        found.append((CONSTANT if name == "(constant)" else _hash(feature, seeds[space])) & mask)
    return found


def _hash(name: str, seed: int) -> int:
    if re.fullmatch("[0-9]+", name):
        return (int(name) + seed) & 0xFFFFFFFF
    text = np.frombuffer(name.encode("utf-8", "surrogateescape"), np.uint8)
    return int(ready(seeded)(text, np.uint64(seed)))


@formula
def seeded(text: Any, seed: Any) -> Any:
    """MurmurHash3 of bytes, with a seed."""
    return end_name(add_bytes(text, 0, len(text), (seed, np.uint64(0), 0)))
