"""The multiclass hinge loss."""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.ops.vector_loss import mass_moved, prox, slope, value


@formula
def sift(heap: Any, top: int, size: int) -> None:
    """Sift down the element at ``top`` of a heap."""
    at, number = top, heap[top]
    below = 2 * at + 1
    while below < size:
        if below + 1 < size and heap[below + 1] < heap[below]:
            below += 1
        if not heap[below] < number:
            break
        heap[at] = heap[below]
        at, below = below, 2 * below + 1
    heap[at] = number


@formula
def runner_up(p: Any, y: int) -> float:
    """The largest score of a class that is not y; minus infinity if there is no other class."""
    label, largest = np.uint64(y), -math.inf
    for k in range(np.uint64(len(p))):
        if k != label and p[k] > largest:
            largest = float(p[k])
    return largest


class MulticlassHinge(NamedTuple):
    """The hinge loss of K scores (Crammer and Singer), for classes 0 to K - 1: the gap to the best of the others.

    phi(p; y) = max(0, 1 + max over k != y of p_k - p_y). It has a kink where it becomes 0, with the slope 0, and one
    where m other classes share the largest score, with the slope 1/m for each of these.
    phi*(a) = a_y for a_k >= 0 (k != y), a_y = -sum of these >= -1.

    References:
        Crammer and Singer (2001). On the algorithmic implementation of multiclass kernel-based vector machines. JMLR.

    >>> import numpy as np
    >>> MulticlassHinge().value(np.array([0.5, 0.25, -2.0]), 0)
    0.75
    >>> a = np.empty(3)
    >>> MulticlassHinge().prox(np.array([0.5, 0.25, -2.0]), 0, 1.0, a)
    >>> a
    array([-0.375,  0.375,  0.   ])
    """

    def multiclass(self) -> bool:
        return True

    def value(self, p: Any, y: int) -> float:
        return max(0.0, 1.0 + (runner_up(p, y) - float(p[y])))

    def slope(self, p: Any, y: int, out: Any) -> None:
        label, largest, ties = np.uint64(y), runner_up(p, y), 0.0
        active = value(self, p, y) > 0.0
        for k in range(np.uint64(len(p))):
            if active and k != label and p[k] == largest:
                ties += 1.0
        for k in range(np.uint64(len(p))):
            out[k] = 1.0 / ties if active and k != label and p[k] == largest else 0.0
        out[label] = -1.0 if active else 0.0

    def infimum(self, y: int) -> float:
        return 0.0

    def reach(self) -> float:
        return 1.0

    def curvature(self, p: Any, y: int) -> float:
        return 0.0

    def conjugate(self, a: Any, y: int) -> float:
        moved = mass_moved(a, y)
        return -moved if moved >= 0.0 else math.inf

    def prox(self, p: Any, y: int, c: float, out: Any) -> None:
        # With d_k = max - p_k >= 0 for the others, and w the gap 1 + max - p_y: the others come down to the level
        # max - t, so c a_k = [t - d_k]_+, and y rises by the sum F(t) of these. Either the whole slope is spent,
        # F(t) = c, or the gap is closed, w - t - F(t) = 0; whichever comes first as t grows from 0. With the m smallest
        # d below t and D their sum, t is the smaller of (c + D)/m and (w + D)/(m + 1). For m = 1 these are upper bounds
        # of t, so that only the d below them matter. They are put into a heap; the smallest is taken while it is below
        # t. Working with d and not with p keeps a exact if c is smaller than the rounding of p.
        label, largest = np.uint64(y), runner_up(p, y)
        gap = value(self, p, y)
        if gap == 0.0 or not c > 0.0:
            slope(self, p, y, out)
            return
        c = min(c, 1e300)  # so that sums of K such numbers stay in float64
        bound = min(c, 0.5 * gap)
        near = 0
        for k in range(np.uint64(len(p))):
            if k != label and largest - float(p[k]) < bound:
                out[near] = largest - float(p[k])
                near += 1
        for top in range(near // 2 - 1, -1, -1):
            sift(out, top, near)
        total, t, m = 0.0, bound, 0
        while near > 0 and out[0] < t:
            total += out[0]
            m += 1
            t = min((c + total) / m, (gap + total) / (m + 1.0))
            near -= 1
            out[0] = out[near]
            sift(out, 0, near)
        # D adds up the rounding of K numbers that may all be larger than c; F does not. So correct t once, from F.
        spent, moved = 0.0, 0.0
        for k in range(np.uint64(len(p))):
            if k != label:
                spent += max(0.0, t - (largest - float(p[k])))
        t += min((c - spent) / m, (gap - t - spent) / (m + 1.0))
        for k in range(np.uint64(len(p))):
            out[k] = max(0.0, t - (largest - float(p[k]))) / c if k != label else 0.0
            moved += out[k]
        out[label] = -min(1.0, moved)

    def flow(self, p: Any, y: int, c: float, out: Any) -> None:
        # Classes that share the largest score fall together, y rises as fast as they fall in all, and the path ends
        # where the gap is closed: the same levels as those of the proximal step, reached in the same order.
        prox(self, p, y, c, out)
