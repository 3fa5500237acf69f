"""Interactions (products of features of two or more groups) and n-grams (consecutive names as one feature)."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.errors import BadSource, InvalidInput, require
from giftrl.streams.names.tables import CARET, Sections

ALL = ":"
#: Between the names of features, in the name of their product.
SEPARATOR = " \u00d7 "
#: How many choices of groups the products of three or more factors may have.
MAX_GROUP_CHOICES = 1 << 16


class Interactions:
    """Groups of features to multiply with each other; a group is a namespace or a column.

    A product has two or more factors, given by their groups. A group that is named twice stands for the product of each
    two of its entries, and for the square of each; one that is named n times, for the products of each n of its
    entries, of which some or all may be the same. The order of factors does not count. A name of one letter stands for
    all groups that begin with it, as in Vowpal Wabbit's ``-q ab``; ":" stands for all groups. A product that is asked
    for several times is added once.

    Args:
        products: names of groups, ``("user", "ad")`` or ``("user", "ad", "page")``; or letters, ``"ua"`` or ``"uap"``.

    >>> Interactions(["ua", ("user", "ad", "page")]).products
    (('u', 'a'), ('user', 'ad', 'page'))
    """

    def __init__(self, products: Sequence[str | tuple[str, ...]]) -> None:
        for given in products:
            good = len(given) >= 2 and all(isinstance(term, str) and term for term in given)
            require(good, "products", given, "must be two or more names, or letters", "try ('user', 'ad') or 'ua'")
        self.products = tuple(tuple(given) for given in products)
        self._codes: dict[frozenset[str], int] = {frozenset(): 0}  # which terms a group matches, and its number
        self._by_name: dict[str, int] = {}
        self._allowed = np.zeros((256, 256), np.uint8)
        self._patterns: set[tuple[int, ...]] = set()

    def code(self, group: str) -> int:
        """The number of a group. Groups that the products do not tell apart share one; groups in no product have 0.

        >>> interactions = Interactions(["ab"])
        >>> [interactions.code(name) for name in ("age", "city", "birth", "ad")]
        [1, 0, 2, 1]
        """
        known = self._by_name.get(group)
        if known is not None:
            return known
        terms = {term for given in self.products for term in given}
        matched = frozenset(term for term in terms if matches(term, group))
        if matched not in self._codes:
            fits = len(self._codes) < 256
            require(fits, "products", self.products, "must not tell more than 255 groups apart", "use fewer products")
            self._codes[matched] = len(self._codes)
            self._allow(self._codes[matched])
        if len(self._by_name) < 1 << 16:
            self._by_name[group] = self._codes[matched]
        return self._codes[matched]

    def _allow(self, new: int) -> None:
        """Note the products that a new number of a group is in."""
        for given in self.products:
            choices = [[number for matched, number in self._codes.items() if term in matched] for term in given]
            if len(given) > 2:
                fits = math.prod(map(len, choices)) <= MAX_GROUP_CHOICES
                rule = f"must not stand for more than {MAX_GROUP_CHOICES} choices of groups"
                require(fits, "products", given, rule, "use fewer or shorter products")
            for numbers in product(*choices):
                if new not in numbers:
                    continue
                if len(given) == 2:
                    self._allowed[numbers] = self._allowed[numbers[::-1]] = 1
                else:
                    self._patterns.add(tuple(sorted(numbers)))

    @property
    def allowed(self) -> NDArray[np.uint8]:
        """A matrix with 1 if entries of two groups are multiplied, by the numbers of groups in use."""
        size = len(self._codes)
        return np.ascontiguousarray(self._allowed[:size, :size])

    @property
    def patterns(self) -> NDArray[np.uint8]:
        """The products of three or more factors: a row each of the numbers of their groups, sorted, and zeros behind.

        >>> interactions = Interactions(["aab"])
        >>> _ = interactions.code("bird"), interactions.code("ape")
        >>> interactions.patterns.tolist()
        [[1, 2, 2]]
        """
        made = np.zeros((len(self._patterns), self.width), np.uint8)
        for row, numbers in enumerate(sorted(self._patterns)):
            made[row, : len(numbers)] = numbers
        return made

    @property
    def width(self) -> int:
        """The largest number of factors."""
        return max(map(len, self.products), default=2)

    @property
    def unmatched(self) -> tuple[tuple[str, ...], ...]:
        """The products that name a group which has not been there so far.

        >>> interactions = Interactions(["ab", "ac"])
        >>> _ = interactions.code("age"), interactions.code("city")
        >>> interactions.unmatched
        (('a', 'b'),)
        """
        there = frozenset().union(*self._codes)
        return tuple(given for given in self.products if not there.issuperset(given))

    def require_all(self, format_: str) -> int:
        """The number of the single group of a format without groups; only ":" stands for it."""
        if not self.code(""):
            rule = f"must be made of ':' alone, such as (':', ':'): {format_} has no namespaces"
            raise InvalidInput("products", self.products, rule, "use another format")
        return self.code("")


def matches(term: str, group: str) -> bool:
    """True if a term means a group: by its name, by its first letter, or by ":" for all."""
    return term == ALL or (group.startswith(term) if len(term) == 1 else group == term)


# n-grams: consecutive names of a namespace as one feature.

#: The longest n-grams. The text of all of them is up to 2 + 3 + ... + LONGEST times as long as that of the names.
MAX_NGRAM = 8
#: How many n-grams a row may have.
MAX_NGRAMS_PER_ROW = 1 << 24


class Ngrams:
    """Namespaces whose consecutive names are joined, and how many of them.

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
            whole = isinstance(given[1], (int, np.integer)) and 2 <= given[1] <= MAX_NGRAM
            require(whole, "ngram", given[1], f"must be a whole number from 2 to {MAX_NGRAM}", "try 2")
        self.sizes = tuple((name, int(size)) for name, size in sizes)
        self._there: set[str] = set()

    def size(self, namespace: str) -> int:
        """The size of the largest n-grams of a namespace; 1 for none."""
        matched = [(name, size) for name, size in self.sizes if matches(name, namespace)]
        self._there |= {name for name, _ in matched}
        return max((size for _, size in matched), default=1)

    @property
    def most_names(self) -> int:
        """The maximum number of names in a row, so that n-grams fit into memory."""
        return MAX_NGRAMS_PER_ROW // (max((size for _, size in self.sizes), default=2) - 1)

    @property
    def unmatched(self) -> tuple[tuple[str, int], ...]:
        """The sizes that name a namespace which has not been there so far."""
        return tuple((name, size) for name, size in self.sizes if name not in self._there)


def no_order(source: str) -> BadSource:
    """The error for n-grams of a source whose names have no order."""
    return BadSource(source, "has no n-grams: only names in VW text have an order", "use VW text, or no n-grams")


class NamedEntries(NamedTuple):
    """Entries with their values, the places of their names in a text, and their sections."""

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
    named: NamedEntries, sizes: NDArray[np.int64], row_ends: NDArray[np.int64], *, compiled: bool = True
) -> tuple[NamedEntries, NDArray[np.int64]]:
    """Entries with their n-grams, and how many there are up to the end of each row.

    Args:
        named: the entries of a block.
        sizes: of the largest n-grams of each section, 1 if it has none.
        row_ends: how many entries there are up to the end of each row, without n-grams.
        compiled: False to run the loop as plain Python.

    >>> text = np.frombuffer(b"the cat sat", np.uint8)
    >>> at = NamedEntries(text, np.ones(3), np.array([0, 4, 8]), np.array([3, 7, 11]), Sections.none())
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
    made = NamedEntries(text, floats, *places, named.sections._replace(first=np.empty(len(sizes), np.int64)))
    written = int(ready(join_names, compiled, counted=False)(named, sizes, made, len(named.text)))
    # A section belongs to a row if it begins before the row ends; an empty one adds nothing to either of two rows.
    before = np.concatenate([[0], np.cumsum(added)])
    return made._replace(text=text[:written]), row_ends + before[np.searchsorted(first, row_ends, side="left")]
