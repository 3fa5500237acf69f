"""Factors for the duals of groups of rows, chosen when the run is over."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from giftrl.certificates.groups import FACTOR, STEPS
from giftrl.certificates.problem import Problem
from giftrl.certificates.scaled import Scaled
from giftrl.certificates.solver import solve
from giftrl.certificates.units import Array, Units, exact_sum
from giftrl.losses import Hinge

if TYPE_CHECKING:
    from giftrl.certificates.kept import Kept

#: The factors for which there are sums, in increasing order.
KNOTS = np.array([0.0, *(FACTOR ** (STEPS - step) for step in range(1, STEPS + 1))])
#: A gain that is a smaller share than this of the largest one is left out.
SMALL = 1e-9


@dataclass(frozen=True)
class Groups:
    """What groups of committed rows were summed up to (:mod:`giftrl.certificates.groups`).

    Group g has theta_g, and C_g(w) for the factors w in :data:`KNOTS`. With any factors w_g from 0 to 1,

        L(u) >= -sum_g C_g(w_g) - <sum_g w_g theta_g, u>,

    where C_g, being convex, is not above the straight line between two knots. With these lines the bound over a ball is
    largest for factors that solve a problem of the hinge loss: line k of group g, of length d_k and slope -b_gk, is a
    row theta_g/b_gk of weight d_k b_gk and label +1, and its dual the share of the line that is part of w_g. As C_g is
    convex, lines are taken in order.

    Attributes:
        theta: features x G, or features x G x K for K scores.
        ladder: G x knots.
    """

    theta: Array
    ladder: Array

    def shrunk(self, kept: "Kept", factors: Array) -> "Kept":
        """A record whose duals are scaled by these factors, one for each group.

        Rounding: the entries of theta are sums of G products more, and C is read between two knots.

        >>> from giftrl.certificates.kept import Kept
        >>> empty = Kept.of_rows("hinge", np.ones((2, 1)), [1.0, -1.0]).without_rows()
        >>> groups = Groups(np.array([[1.0, -1.0]]), np.outer([-1.0, -1.0], KNOTS))
        >>> half = groups.shrunk(empty, np.array([0.5, 0.5]))
        >>> half.conjugate, half.theta
        (-1.0, array([0.]))
        """
        w = np.clip(factors, 0.0, 1.0)
        usable = w > 0.0
        at = np.clip(np.searchsorted(KNOTS, w, side="right") - 1, 0, STEPS - 1)
        share, each = (w - KNOTS[at]) / np.diff(KNOTS)[at], np.arange(len(w))
        low, high = self.ladder[each, at], self.ladder[each, np.minimum(at + 1, STEPS)]
        costs = np.where(usable, (1.0 - share) * low + np.where(share > 0.0, share * high, 0.0), self.ladder[:, 0])
        more = (kept.committed + len(w) + 8.0) / (kept.committed + 4.0)
        return replace(
            kept, theta=np.tensordot(self.theta[:, usable], w[usable], (1, 0)), conjugate=exact_sum(costs.tolist()),
            conjugate_size=2.0 * kept.conjugate_size, dual_squares=more * more * kept.dual_squares, groups=None,
        )  # fmt: skip

    def best(
        self, units: Units, radius: float, ridge: float, start: Array | None, time_limit: float, steps: int
    ) -> Array:
        """Factors for which the bound is nearly as high as it can be.

        Args:
            units, radius, ridge, start, time_limit, steps: as for :meth:`Kept.within`.
        """
        theta = np.moveaxis(self.theta, 1, 0)
        rows = np.array([units.dual(units.compared(each)).ravel() for each in theta])
        lengths = np.diff(KNOTS)
        gains = -np.diff(self.ladder, axis=1) / lengths
        gains[~(np.isfinite(rows).all(axis=1) & np.isfinite(gains).all(axis=1))] = 0.0
        rows[~np.isfinite(rows)] = 0.0
        group, line = np.nonzero(gains > SMALL * gains.max(initial=0.0))
        factors = np.zeros(len(theta))
        if not len(group) or not math.isfinite(float(np.vdot(rows, rows))):
            return factors
        # Coordinates in the span of the groups: there are no more than groups.
        basis, coordinates = np.linalg.qr(rows.T)
        size, gain = len(coordinates), gains[group, line]
        plain = Units("the span of groups", np.ones(size), np.zeros(size), None)
        scaled = Scaled(coordinates.T[group] / gain[:, None], plain, np.ones(size))
        problem = Problem(
            Hinge(), scaled, np.ones(len(group)), lengths[line] * gain, np.zeros(size), radius, ridge, 0.0
        )  # fmt: skip
        z = np.zeros(size) if start is None else basis.T @ units.coordinates(units.compared(start)).ravel()
        norm = float(np.linalg.norm(z))
        z = z * min(1.0, radius / norm) if norm > 0.0 else z
        duals = solve(problem, z, time_limit, steps).duals
        np.add.at(factors, group, -duals * lengths[line])
        return factors
