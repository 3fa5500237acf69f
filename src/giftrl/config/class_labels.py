"""Labels as users have them, and as losses take them: the one mapping between the two."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.ops.loss import accepts

Array = NDArray[np.float64]


class Labels(NamedTuple):
    """The labels of classes: label number k stands for class k.

    A loss of one score takes -1 and +1: for two classes, class 1 is +1; for more, each class has a model of its own
    that tells it from the rest. A loss of K scores takes the number of the class.

    Args:
        values: different labels, of any type that can be sorted.

    >>> fruit = Labels(np.array(["apple", "pear", "plum"]))
    >>> codes = fruit.codes(np.array(["plum", "apple", "fig"]))
    >>> codes, fruit.values[codes[:2]]
    (array([ 2,  0, -1]), array(['plum', 'apple'], dtype='<U5'))
    >>> fruit.one_against_rest(codes[:2])
    array([[-1., -1.,  1.],
           [ 1., -1., -1.]])
    """

    values: NDArray[Any]

    def codes(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The number of the class of each label; -1 where it is none of these labels."""
        order = np.argsort(self.values)
        places = np.searchsorted(self.values, y, sorter=order)
        codes: NDArray[np.int64] = order[np.minimum(places, len(self.values) - 1)]
        return np.where(self.values[codes] == y, codes, -1)

    def one_against_rest(self, codes: NDArray[np.int64]) -> Array:
        """A column for each class: +1 in its own rows, -1 in all others."""
        return as_signs(codes[:, None] == np.arange(len(self.values)))

    def best(self, scores: Array) -> NDArray[Any]:
        """The label of the class with the largest score; the second of two that share one score, if it is positive."""
        codes = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0.0).astype(np.int64)
        labels: NDArray[Any] = self.values[codes]
        return labels


def as_signs(positive: Any) -> Array:
    """+1 where true, -1 where false."""
    return np.where(positive, 1.0, -1.0)


def takes_signs(loss: Any, only: bool = False) -> bool:
    """True if the labels of a loss are -1 and +1; with ``only``, if nothing in between is.

    >>> from giftrl.losses import Absolute, Hinge
    >>> takes_signs(Hinge(), only=True), takes_signs(Absolute()), takes_signs(Absolute(), only=True)
    (True, True, False)
    """
    return accepts(loss, -1.0) and accepts(loss, 1.0) and not (only and accepts(loss, 0.5))
