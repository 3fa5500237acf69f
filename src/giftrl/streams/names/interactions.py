"""Which products of features are wanted: every entry of one group with every entry of another."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import InvalidInput, require

ALL = ":"


class Interactions:
    """Which groups of features to multiply with each other; a group is a namespace or a column.

    A pair of a group with itself stands for the product of each two of its entries, and for the square of each. A name
    of one letter stands for all groups that begin with it, as in Vowpal Wabbit's ``-q ab``; ":" stands for all groups.
    A product that several pairs ask for is added once.

    Args:
        pairs: names of groups, ``("user", "ad")``; or two letters, ``"ua"``.

    >>> Interactions(["ua", ("user", "ad")]).pairs
    (('u', 'a'), ('user', 'ad'))
    """

    def __init__(self, pairs: Sequence[str | tuple[str, str]]) -> None:
        for pair in pairs:
            good = len(pair) == 2 and all(isinstance(term, str) and term for term in pair)
            require(good, "pairs", pair, "must be two names, or two letters", "try ('user', 'ad') or 'ua'")
        self.pairs = tuple((pair[0], pair[1]) for pair in pairs)
        self._codes: dict[frozenset[str], int] = {frozenset(): 0}  # which terms a group matches, and its number
        self._by_name: dict[str, int] = {}
        self._allowed = np.zeros((256, 256), np.uint8)

    def code(self, group: str) -> int:
        """The number of a group. Groups that the pairs do not tell apart share a number; groups in no pair have 0.

        >>> interactions = Interactions(["ab"])
        >>> [interactions.code(name) for name in ("age", "city", "birth", "ad")]
        [1, 0, 2, 1]
        """
        known = self._by_name.get(group)
        if known is not None:
            return known
        terms = {term for pair in self.pairs for term in pair}
        matched = frozenset(term for term in terms if _matches(term, group))
        if matched not in self._codes:
            fits = len(self._codes) < 256
            require(fits, "pairs", self.pairs, "must not tell more than 255 groups apart", "use fewer pairs")
            new = self._codes[matched] = len(self._codes)
            for other, number in self._codes.items():
                if any((a in matched and b in other) or (b in matched and a in other) for a, b in self.pairs):
                    self._allowed[new, number] = self._allowed[number, new] = 1
        if len(self._by_name) < 1 << 16:
            self._by_name[group] = self._codes[matched]
        return self._codes[matched]

    @property
    def allowed(self) -> NDArray[np.uint8]:
        """Whether entries of two groups are multiplied, by the numbers that are in use."""
        size = len(self._codes)
        return np.ascontiguousarray(self._allowed[:size, :size])

    @property
    def unmatched(self) -> tuple[tuple[str, str], ...]:
        """The pairs that name a group which has not been there so far.

        >>> interactions = Interactions(["ab", "ac"])
        >>> _ = interactions.code("age"), interactions.code("city")
        >>> interactions.unmatched
        (('a', 'b'),)
        """
        there = frozenset().union(*self._codes)
        return tuple(pair for pair in self.pairs if not there.issuperset(pair))

    def require_all(self, format_: str) -> int:
        """The number of the single group of a format without groups; only ":" stands for it."""
        if not self.code(""):
            raise InvalidInput(
                "pairs", self.pairs, f"must be [(':', ':')] here: {format_} has no namespaces", "use another format"
            )
        return self.code("")


def _matches(term: str, group: str) -> bool:
    return term == ALL or (group.startswith(term) if len(term) == 1 else group == term)
