"""The text of a model of Vowpal Wabbit."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.errors import InvalidInput, require
from giftrl.streams.names.murmur import add_bytes, end_name
from giftrl.training.given_weights import Given, named, wrong

Array = NDArray[np.float64]

#: VW's number of its constant feature, before it is cut to the bits of the model.
CONSTANT = 11650396
AGAIN = "write it again with vw --readable_model or --invert_hash"
NAMED = re.compile(r"(.*):([0-9]+):(\S+)(?: .*)?$")
NUMBERED = re.compile(r"([0-9]+):(\S+)(?: .*)?$")


class Header(NamedTuple):
    """What stands above the weights: named lines, the options that the model was trained with, and the weights' lines.

    >>> header = read_header("m.txt", "Version 9\\nMin label:-1\\nbits:18\\noptions: --quadratic ab\\n:0\\n7:0.5\\n")
    >>> header.said["Min label"], header.options, header.body
    ('-1', ' --quadratic ab', [(6, '7:0.5')])
    """

    path: str
    said: dict[str, str]
    options: str
    body: list[tuple[int, str]]  # with the numbers of lines

    def number(self, name: str, usual: float) -> float:
        """The number that a line of this name says; without one, the usual number."""
        try:
            return float(self.said.get(name, usual))
        except ValueError:
            rule = f"has {self.said[name][:80]!r} where a number should be, after {name!r}"
            raise InvalidInput("weights", self.path, rule, AGAIN) from None

    @property
    def bits(self) -> int:
        """The bits of hashes."""
        bits = self.number("bits", 18.0)
        require(1.0 <= bits <= 62.0 and bits.is_integer(), "weights", self.path, f"has hashes of {bits:g} bits", AGAIN)
        return int(bits)

    def require_indices(self, found: Iterable[tuple[int, str]]) -> None:
        """Raise an error if the index of a weight, on the line of a number, does not fit into the bits of hashes.

        >>> read_header("m.txt", "Version 9\\nbits:2\\n:0\\n4:1\\n").require_indices([(4, "4")])
        Traceback (most recent call last):
        giftrl.errors.InvalidInput: m.txt:4: the weight 4 is beyond the 2 bits of the model; write it again with
        vw --readable_model or --invert_hash
        """
        if "bits" not in self.said:
            return
        for line, index in found:
            if int(index) >> self.bits:
                rule = f"the weight {index[:40]} is beyond the {self.bits} bits of the model"
                raise wrong(f"{self.path}:{line}", rule, AGAIN)

    def final(self, weights: Array) -> Array:
        """The weights w that VW predicts with: sign(w) max(|w| - l1_state, 0) l2_state.

        With ``--l1`` and ``--l2``, VW adds up how far weights have shrunk, and shrinks each one when it is used.

        >>> read_header("m.txt", "Version 9\\n:1\\nl1_state 0.5\\nl2_state 0.25\\n").final(np.array([-2.5, 0.1]))
        array([-0.5,  0. ])
        """
        shrunk = np.maximum(np.abs(weights) - self.number("l1_state", 0.0), 0.0)
        return np.copysign(shrunk, weights) * self.number("l2_state", 1.0) + 0.0


def read_header(path: str, text: str) -> Header:
    """Take apart the text of a model."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")  # other breaks of lines may be in names
    first = next((number for number, line in enumerate(lines) if re.fullmatch(":[0-9]+", line)), None)
    if first is None:
        raise InvalidInput("weights", path, "ends before its weights begin", AGAIN)
    said = dict(line.split(":", 1) for line in lines[:first] if ":" in line)
    said |= dict(line.split(" ") for line in lines[first + 1 :] if re.fullmatch(r"l[12]_state \S+", line))
    return Header(path, said, said.get("options", ""), list(enumerate(lines[first + 1 :], first + 2)))


def read_vw(path: str, text: str) -> Given:
    """The weights that ``vw --invert_hash FILE`` or ``vw --readable_model FILE`` wrote.

    A line of the former is ``namespace^feature:hash:weight``, a line of the latter ``hash:weight``. With ``--oaa K``,
    the names of the classes after the first end in ``[1]``, ``[2]`` and so on.

    >>> text = "Version 9.11.9\\nbits:18\\noptions:\\n:0\\na^x:123:0.5\\nConstant:116060:-1\\n"
    >>> given = read_vw("m.txt", text)
    >>> given.names, given.values.tolist(), given.places[0]
    (['a^x', '(constant)'], [[0.5], [-1.0]], 'm.txt:5')
    """
    header = read_header(path, text)
    options, body = header.options, header.body
    oaa = re.search(r"--oaa ([0-9]+)", options)
    for option in ("--nn", "--lrq", "--boosting", "--csoaa", "--ect", "--cb", "--ksvm", "--lda"):
        if re.search(rf"{option}\w*\b", options):
            remedy = "give a linear model of one score, or of --oaa"
            raise InvalidInput("weights", path, f"is a model of {option}, which is not linear", remedy)
    byname = [(number, match) for number, line in body if (match := NAMED.match(line))]
    if byname:
        header.require_indices((number, match[2]) for number, match in byname)
        found = ((f"{path}:{number}", match[1], match[3]) for number, match in byname)
        if oaa is not None:
            classes = int(oaa[1])
            given = named(path, _classes(found, classes), products=True, classes=tuple(range(1, classes + 1)))
        else:
            given = named(path, ((place, _constant(name), number) for place, name, number in found), products=True)
        if re.search(r"--(quadratic|cubic|interactions)\b", options):
            _require_one_order(given)
        return given._replace(values=header.final(given.values))
    if oaa is not None:
        raise InvalidInput("weights", path, "has several classes and no names", "write it with vw --invert_hash")
    numbered = [(number, match) for number, line in body if (match := NUMBERED.match(line))]
    header.require_indices((number, match[1]) for number, match in numbered)
    given = named(path, ((f"{path}:{number}", match[1], match[2]) for number, match in numbered))
    hashes = dict(zip(map(int, given.names or ()), header.final(given.values[:, 0]).tolist(), strict=True))
    return given._replace(hashed=hashes, bits=header.bits, names=None)


def in_order(factors: list[str]) -> tuple[str, ...]:
    """The factors of a product, whose order does not count here.

    >>> in_order(["b^y", "a^x"])
    ('a^x', 'b^y')
    """
    return tuple(sorted(factors))


def _require_one_order(given: Given) -> None:
    """Refuse weights that depend on the order of factors: VW has two for ``a^x*a^y`` and ``a^y*a^x``."""
    names, found = given.names or [], dict[tuple[str, ...], int]()
    for k, name in enumerate(names):
        first = found.setdefault(in_order(name.split("*")), k)
        if (given.values[first] != given.values[k]).any():
            rule = f"{name!r} and {names[first]!r} have different weights, and the order of factors does not count"
            remedy = "train vw on rows that have the features of a namespace in one order"
            raise InvalidInput("weights", given.places[k], rule, remedy)


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
