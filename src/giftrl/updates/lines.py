"""Lines of a general psi and V: what an update sees of them along one direction."""

import sys
from typing import Any

import numpy as np

from giftrl import mirror
from giftrl.domains import Domain
from giftrl.domains.contract import Vector
from giftrl.ops.line import Affine
from giftrl.regularizers import Potential


class MirrorLine:
    """pi(b) = <s, grad psi*_V(theta - h b s)> for any pair that the mirror solves; one solve for each b."""

    def __init__(self, psi: Potential, domain: Domain, theta: Vector, s: Vector, weight: float) -> None:
        self.psi = psi
        self.domain = domain
        self.theta = theta
        self.s = s
        self.weight = weight
        self.origin = mirror.conjugate(psi, domain, theta)

    def at(self, b: float) -> float:
        return float(self.s @ mirror.argmin(self.psi, self.domain, self.theta - (self.weight * b) * self.s))

    def energy(self, b: float) -> float:
        # A step too long for float64 has no finite H, and loses to every other.
        with np.errstate(over="ignore", invalid="ignore"):
            moved = mirror.conjugate(self.psi, self.domain, self.theta - (self.weight * b) * self.s)
        return (moved - self.origin) / self.weight


def make_line(psi: Any, domain: Domain, theta: Vector, s: Vector, weight: float) -> Affine | MirrorLine:
    """The line of an example: affine where psi*_V is quadratic, general otherwise."""
    if mirror.is_affine(psi, domain):
        # Features near the end of float64 overflow their square; the largest number is as good as infinity, and finite.
        c = min(weight * psi.inverse_form(s), sys.float_info.max)
        return Affine(float(s @ mirror.argmin(psi, domain, theta)), c)
    return MirrorLine(psi, domain, theta, s, weight)
