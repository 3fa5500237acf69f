"""The bound that follows from any dual numbers."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from giftrl.certificates import loops
from giftrl.certificates.ball import price
from giftrl.certificates.units import EPS, TINY, Array, Units, exact_sum
from giftrl.compiled.compiler import ready
from giftrl.ops.loss import residual

if TYPE_CHECKING:
    from giftrl.certificates.kept import Kept


def sizes(loss: Any, a: Array, labels: Any, phi_star: Array) -> Array:
    """How large the terms of phi*(a) are at most, row by row: abs(phi*(a)) + (1 + abs(a)) (abs(a) + abs(y)).

    A loss of residuals has phi*(a) = a y + f(a), so there the 1 is left out; classes have no size.

    >>> from giftrl.losses import Squared
    >>> sizes(Squared(), np.array([-2.0]), np.array([1.0]), np.array([0.0]))
    array([6.])
    """
    if a.ndim == 2:
        length = np.sqrt((a * a).sum(axis=1))
        return np.asarray(np.abs(phi_star) + (1.0 + length) * length)
    unit = 0.0 if residual(loss) else 1.0
    return np.asarray(np.abs(phi_star) + (unit + np.abs(a)) * (np.abs(a) + np.abs(labels)))


def lower_bound(kept: "Kept", duals: Array, units: Units, radius: float, ridge: float = 0.0) -> float:
    """What sum_t h_t phi(<s_t, u>; y_t) + (ridge/2)|u|^2 is never below, for |u| <= radius in these units.

    For any a in the domain of phi*, phi(p) >= a p - phi*(a) (Fenchel and Young). Summed over the rows kept, with duals
    a_i, and the committed rows, whose duals were summed to theta and C before,

        L(u) >= -C - sum_i h_i phi*(a_i) - <res, u>,     res = theta - sum_i h_i a_i s_i,

    and <res, u> is at most the dual norm of res times the norm of u. The duals may come from anywhere; a dual outside
    the domain makes the bound minus infinity.

    Rounding. Each phi* is computed to a few units in the last place of its terms (:func:`sizes`), and summed exactly
    (math.fsum). The sum C of n committed numbers is off by at most n eps times the sum of the sizes of their terms.
    Entry j of the sum of h_i a_i s_i over n_j rows is off by at most (n_j + 4) eps sum_i abs(h_i a_i s_ij), and
    theta_j, by Cauchy and Schwarz, by at most n eps sqrt(sum_t h_t a_t^2) sqrt(sum_t h_t s_tj^2). All of this is
    subtracted, and as much for numbers so small that they lose digits.

    >>> from giftrl.certificates.kept import Kept
    >>> kept = Kept.of_rows("absolute", np.ones((3, 1)), [1.0, 2.0, 4.0])
    >>> round(lower_bound(kept, np.array([1.0, 0.0, -1.0]), kept.units()[0], radius=9.0), 9)
    3.0
    >>> round(lower_bound(kept, np.array([0.5, 0.0, -1.0]), kept.units()[0], radius=9.0), 9)
    -1.0
    """
    n = len(kept.labels)
    phi_star, a = np.empty(n), duals.copy()
    loop = ready(loops.conjugates if a.ndim == 1 else loops.conjugate_scores)
    loop(kept.loss, np.zeros_like(a), kept.labels, a, phi_star)
    if not np.array_equal(a, duals):
        return -math.inf
    terms = kept.weights * sizes(kept.loss, a, kept.labels, phi_star)
    size = np.abs(a) if a.ndim == 1 else np.sqrt((a * a).sum(axis=1))
    columns = 1 if a.ndim == 1 else a.shape[1]
    conjugate = exact_sum([kept.conjugate, *(kept.weights * phi_star).tolist()])
    allowance = (16.0 + columns) * EPS * float(terms.sum()) + (kept.committed + 16.0) * EPS * kept.conjugate_size
    allowance += 16.0 * TINY * (kept.weight + kept.committed + n)

    rows = kept.rows
    res = kept.theta - rows.T @ (a.T * kept.weights).T
    counts = np.bincount(kept.indices, minlength=rows.shape[1])
    held = np.abs(kept.theta) if a.ndim == 1 else np.sqrt((kept.theta * kept.theta).sum(axis=1))
    error = (counts + 4.0 + columns) * EPS * (held + abs(rows).T @ (kept.weights * size))
    error += (kept.committed + 4.0) * EPS * np.sqrt(kept.dual_squares) * np.sqrt(kept.squares)
    error += np.where(kept.squares > 0.0, (kept.committed + n) * TINY, 0.0)  # others are 0 in every row
    cost = price(units.dual_norm(res, error), radius, ridge)
    bound = -conjugate - cost - allowance
    return bound - 8.0 * EPS * (abs(conjugate) + cost + allowance) if math.isfinite(bound) else -math.inf
