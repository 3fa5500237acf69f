"""Losses of a whole vector x: any convex function, known by its values and subgradients.

A black-box loss is any object with ``value(x)`` and ``subgradient(x)``. It may also bring

- ``lower_bound()``: a lower bound on the loss, needed by the truncated update;
- ``conjugate(z)``: l*(z), which makes the certificate tighter. Without it the certificate uses an upper bound that
  comes for free: every z an update picks is a mean of subgradients, and l* is convex;
- ``prox(v, step)``: argmin over x of l(x) + norm2(x - v)^2 / (2 step), which the proximal update uses in place of its
  inner solver when psi is a multiple of the squared norm and V the whole space.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from giftrl.ops.loss import infimum, slope, value

Vector = NDArray[np.float64]


@runtime_checkable
class VectorLoss(Protocol):
    """The methods that a black-box convex loss must bring.

    >>> import numpy as np
    >>> from giftrl import Learner
    >>> class Distance:
    ...     def value(self, x):
    ...         return float(np.abs(x - 1.0).sum())
    ...     def subgradient(self, x):
    ...         return np.sign(x - 1.0)
    >>> Learner(2).observe(Distance()).loss
    2.0
    """

    def value(self, x: Vector) -> float: ...
    def subgradient(self, x: Vector) -> Vector: ...


class LinearModelLoss:
    """The loss x -> phi(<s, x>; y) of one example, as a loss of the whole vector.

    >>> import numpy as np
    >>> from giftrl.losses import Squared
    >>> loss = LinearModelLoss(Squared(), np.array([1.0, 2.0]), 1.0)
    >>> loss.value(np.array([1.0, 1.0]))
    2.0
    >>> loss.subgradient(np.array([1.0, 1.0]))
    array([2., 4.])
    """

    def __init__(self, loss: Any, s: Vector, y: float) -> None:
        self.loss = loss
        self.s = s
        self.y = y

    def value(self, x: Vector) -> float:
        return value(self.loss, float(self.s @ x), self.y)

    def subgradient(self, x: Vector) -> Vector:
        return slope(self.loss, float(self.s @ x), self.y) * self.s

    def lower_bound(self) -> float:
        return infimum(self.loss, self.y)
