"""n-grams: consecutive names of a namespace as one feature."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.errors import BadSource, require
from giftrl.streams.names.interactions import matches
from giftrl.streams.names.loops import CARET, Sections

#: The longest n-grams. The text of all of them is up to 2 + 3 + ... + LONGEST times as long as that of the names.
LONGEST = 8
#: How many n-grams a row may have.
MOST = 1 << 24


class Ngrams:
    """In which namespaces to join how many consecutive names.

    n-grams of 2, 3, ..., n names are added to a namespace. The name of one is ``the^cat``, and ``text^the^cat`` in the
    namespace ``text``; its value is 1, whatever the values of its names are, as in Vowpal Wabbit. Names that follow one
    bar are consecutive; a feature of value 0 is as if it were not there. A name of one letter stands for all namespaces
    that begin with it; ":" stands for all namespaces. Where several sizes match a namespace, the largest counts.

    Args:
        sizes: the name of a namespace and n, for each: ``[(":", 2)]`` or ``[("t", 2), ("title", 3)]``.

    >>> ngrams = Ngrams([("t", 2), ("title", 3)])
    >>> [ngrams.size(name) for name in ("text", "title", "user")]
    [2, 3, 1]
    """

    def __init__(self, sizes: Sequence[tuple[str, int]]) -> None:
        for given in sizes:
            named = len(given) == 2 and isinstance(given[0], str) and given[0] != ""
            require(named, "ngrams", given, "must be the name of a namespace and a size", "try (':', 2) for all")
            whole = isinstance(given[1], (int, np.integer)) and 2 <= given[1] <= LONGEST
            require(whole, "ngram", given[1], f"must be a whole number from 2 to {LONGEST}", "try 2")
        self.sizes = tuple((name, int(size)) for name, size in sizes)
        self._there: set[str] = set()

    def size(self, namespace: str) -> int:
        """The size of the largest n-grams of a namespace; 1 where it has none."""
        matched = [(name, size) for name, size in self.sizes if matches(name, namespace)]
        self._there |= {name for name, _ in matched}
        return max((size for _, size in matched), default=1)

    @property
    def most_names(self) -> int:
        """How many names a row may have, so that n-grams fit into memory."""
        return MOST // (max((size for _, size in self.sizes), default=2) - 1)

    @property
    def unmatched(self) -> tuple[tuple[str, int], ...]:
        """The sizes that name a namespace which has not been there so far."""
        return tuple((name, size) for name, size in self.sizes if name not in self._there)


def no_order(source: str) -> BadSource:
    """The error for n-grams of a source whose names have no order."""
    return BadSource(source, "has no n-grams: only names in VW text have an order", "use VW text, or no n-grams")


class Named(NamedTuple):
    """Entries: their values, and where their names are in a text; and the sections that they are in."""

    text: NDArray[np.uint8]
    values: NDArray[np.float64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    sections: Sections


@formula
def join_names(old: Any, sizes: Any, new: Any, written: Any) -> Any:
    """Copy entries section by section, each with its n-grams behind it; their names go to the end of the text."""
    out = 0
    for section in range(len(sizes)):
        first = old.sections.first[section]
        last = old.sections.first[section + 1] if section + 1 < len(sizes) else len(old.values)
        new.sections.first[section] = out
        for k in range(first, last):
            new.values[out], new.starts[out], new.ends[out] = old.values[k], old.starts[k], old.ends[k]
            out += 1
        for size in range(2, sizes[section] + 1):
            for k in range(first, last - size + 1):
                new.values[out], new.starts[out] = 1.0, written
                for word in range(k, k + size):
                    if word > k:
                        new.text[written] = CARET
                        written += 1
                    for at in range(old.starts[word], old.ends[word]):
                        new.text[written] = old.text[at]
                        written += 1
                new.ends[out] = written
                out += 1
    return written


def with_ngrams(
    named: Named, sizes: NDArray[np.int64], row_ends: NDArray[np.int64], *, compiled: bool = True
) -> tuple[Named, NDArray[np.int64]]:
    """Entries with their n-grams, and how many there are up to the end of each row.

    Args:
        named: the entries of a block.
        sizes: of the largest n-grams of each section, 1 where it has none.
        row_ends: how many entries there are up to the end of each row, without n-grams.
        compiled: False to run the loop as plain Python.

    >>> text = np.frombuffer(b"the cat sat", np.uint8)
    >>> at = Named(text, np.ones(3), np.array([0, 4, 8]), np.array([3, 7, 11]), Sections.none())
    >>> more, ends = with_ngrams(at, np.array([2]), np.array([3]), compiled=False)
    >>> [more.text[a:b].tobytes().decode() for a, b in zip(more.starts, more.ends)], ends.tolist()
    (['the', 'cat', 'sat', 'the^cat', 'cat^sat'], [5])
    """
    first, count = named.sections.first, len(named.values)
    words, longest = np.diff(first, append=count), int(sizes.max(initial=1))
    added, room = np.zeros(len(sizes), np.int64), 0
    for size in range(2, longest + 1):
        added += np.where(sizes >= size, np.maximum(words - size + 1, 0), 0)
        room += size * int((named.ends - named.starts + 1).sum())
    size = count + int(added.sum())
    text = np.empty(len(named.text) + room, np.uint8)
    text[: len(named.text)] = named.text
    floats, places = np.empty(size), (np.empty(size, np.int64), np.empty(size, np.int64))
    made = Named(text, floats, *places, named.sections._replace(first=np.empty(len(sizes), np.int64)))
    written = int(ready(join_names, compiled, counted=False)(named, sizes, made, len(named.text)))
    # A section belongs to a row if it begins before the row ends; an empty one adds nothing to either of two rows.
    before = np.concatenate([[0], np.cumsum(added)])
    return made._replace(text=text[:written]), row_ends + before[np.searchsorted(first, row_ends, side="left")]
