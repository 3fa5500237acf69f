"""Curvature, a full matrix."""

from typing import NamedTuple

import numpy as np

from giftrl.regularizers.contract import Evidence
from giftrl.regularizers.potentials import FullQuadratic


class CurvatureFull(NamedTuple):
    """A second-order regularizer with a full matrix: A_{t+1} = A_t + h phi''(p) s s^T, centred at the new point.

    It starts at A_1 = lambda_1 I; a growing schedule adds (lambda_{t+1} - lambda_t) I. The inverse is kept by
    rank-one updates, O(d^2) a round, and recomputed every d rounds against rounding errors (and when lambda changes).
    It needs a linear model's loss, and updates use H'.

    >>> CurvatureFull().start(2, 0.5).matrix
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    def centred(self) -> bool:
        return True

    def uses_curvature(self) -> bool:
        return True

    def start(self, dimension: int, lam: float) -> FullQuadratic:
        identity = np.eye(dimension)
        return FullQuadratic(lam * identity, identity / lam, np.zeros(dimension), 0.0, lam, 0)

    def advance(self, psi: FullQuadratic, lam: float, seen: Evidence) -> FullQuadratic:
        s = np.zeros_like(seen.x) if seen.s is None else seen.s
        k = seen.curvature or 0.0
        gain = k * np.outer(s, s)
        if lam != psi.lam:
            gain += (lam - psi.lam) * np.eye(len(s))
        matrix = psi.matrix + gain
        if lam != psi.lam or psi.age + 1 >= len(s):
            inverse, age = np.linalg.inv(matrix), 0
        else:  # Sherman and Morrison
            v = psi.inverse @ s
            inverse, age = psi.inverse - np.outer(v, v) * (k / (1.0 + k * float(s @ v))), psi.age + 1
        pull = gain @ seen.x
        offset = psi.offset + 0.5 * float(seen.x @ pull)
        return FullQuadratic(matrix, 0.5 * (inverse + inverse.T), psi.tilt + pull, offset, lam, age)
