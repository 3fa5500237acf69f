"""Which products of features are wanted: every entry of one group with every entry of another, and so on."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import InvalidInput, require

ALL = ":"
#: Between the names of features, in the name of their product.
SEPARATOR = " \u00d7 "
#: How many choices of groups the products of three or more factors may have.
MOST_CHOICES = 1 << 16


class Interactions:
    """Which groups of features to multiply with each other; a group is a namespace or a column.

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
                fits = math.prod(map(len, choices)) <= MOST_CHOICES
                rule = f"must not stand for more than {MOST_CHOICES} choices of groups"
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
        """Whether entries of two groups are multiplied, by the numbers that are in use."""
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
    """Whether a group is meant: by its name, by its first letter, or by ":", which means all."""
    return term == ALL or (group.startswith(term) if len(term) == 1 else group == term)
