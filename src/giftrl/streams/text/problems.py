"""What can be wrong with a line of text, in words."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Rejected

RAW = 4096  # bytes of a rejected line that are kept
TOKEN = 40  # bytes of what is wrong that a message shows


class Problem(IntEnum):
    """The codes that a compiled loop gives for what is wrong with a line; 0 is nothing."""

    (
        LABEL, LABEL_TOO_LARGE, NO_LABEL, QUERY, INDEX, INDEX_RANGE, NO_COLON, VALUE, VALUE_TOO_LARGE, REPEATED,
        STRAY_RETURN, SUM_TOO_LARGE, NO_BAR, TAB_BEFORE_BAR, MANY_NUMBERS, IMPORTANCE, IMPORTANCE_TOO_LARGE,
        NEGATIVE_IMPORTANCE, BASE, BASE_TOO_LARGE, NAMESPACE, LONG_NAMESPACE, SCALE, SCALE_TOO_LARGE,
        SCALED_TOO_LARGE, NO_NAME, ENCODING, NUL, MANY_NAMES,
        HARD,  # nothing wrong: a number that the loop leaves to Python
    ) = range(1, 31)  # fmt: skip


FINITE = "a finite number"
RANGE = "at most 1.797e308 in magnitude"

#: For each code: the problem, whether the text there is shown, and what was expected.
PROBLEMS: dict[int, tuple[str, bool, str]] = {
    Problem.LABEL: ("a label that is not a number", True, FINITE),
    Problem.LABEL_TOO_LARGE: ("a label too large for float64", True, RANGE),
    Problem.NO_LABEL: ("no label before the first feature", True, "a label at the beginning of the line"),
    Problem.QUERY: ("a qid that is not a whole number", True, "qid:digits"),
    Problem.INDEX: ("an index that is not a whole number", True, "index:value, the index written in digits"),
    Problem.INDEX_RANGE: (
        "an index out of range", True, "an index from 1 to 9223372036854775807; add 1 where a file counts from 0",
    ),
    Problem.NO_COLON: ("a feature without a colon", True, "index:value"),
    Problem.VALUE: ("a value that is not a number", True, FINITE),
    Problem.VALUE_TOO_LARGE: ("a value too large for float64", True, RANGE),
    Problem.REPEATED: ("an index used twice in a row", True, "each index at most once"),
    Problem.STRAY_RETURN: ("a carriage return inside a line", False, "one only before the newline"),
    Problem.SUM_TOO_LARGE: ("values of one feature whose sum is too large for float64", False, RANGE),
    Problem.NO_BAR: ("no bar", True, "label | features, with a bar before the features"),
    Problem.TAB_BEFORE_BAR: ("a tab before the first bar", False, "spaces there"),
    Problem.MANY_NUMBERS: ("a fourth number before the first bar", True, "at most label, importance and base"),
    Problem.IMPORTANCE: ("an importance that is not a number", True, FINITE + ", or a tag that touches the bar"),
    Problem.IMPORTANCE_TOO_LARGE: ("an importance too large for float64", True, RANGE),
    Problem.NEGATIVE_IMPORTANCE: ("an importance below 0", True, "0 or more"),
    Problem.BASE: ("a base that is not a number", True, FINITE + ", or a tag that touches the bar or begins with '"),
    Problem.BASE_TOO_LARGE: ("a base too large for float64", True, RANGE),
    Problem.NAMESPACE: ("a colon where a namespace should be", True, "a namespace, or a space after the bar"),
    Problem.LONG_NAMESPACE: ("a namespace of more than 255 bytes", True, "at most 255"),
    Problem.SCALE: ("a factor of a namespace that is not a number", True, FINITE),
    Problem.SCALE_TOO_LARGE: ("a factor of a namespace too large for float64", True, RANGE),
    Problem.SCALED_TOO_LARGE: ("a value that is too large for float64 times the factor of its namespace", True, RANGE),
    Problem.NO_NAME: ("a feature without a name", True, "feature or feature:value"),
    Problem.ENCODING: ("bytes that are not UTF-8", True, "names and tags in UTF-8"),
    Problem.NUL: ("a NUL byte", False, "text"),
    Problem.MANY_NAMES: ("more features than n-grams can be made of", False, "a shorter row, or shorter n-grams"),
}  # fmt: skip


def rejected(block: NDArray[np.uint8], source: str, line: int, begin: int, spot: int, code: int) -> Rejected:
    """The record of a line that begins at one place of a block and is wrong at another."""
    problem, shown, expected = PROBLEMS[code]
    if shown:
        there = block[spot : spot + TOKEN + 1].tobytes()
        words = there.partition(b"\n")[0].split()
        token = words[0] if words and not there[:1].isspace() else b""
        text = token[:TOKEN].decode(errors="backslashreplace")
        problem += f": {text!r}" + ("..." if len(token) > TOKEN else "")
    raw = block[begin : begin + RAW].tobytes().partition(b"\n")[0]
    return Rejected(source, line, spot - begin + 1, problem, expected, raw.removesuffix(b"\r"))
