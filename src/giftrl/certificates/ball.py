"""Quadratic functions over a ball, and linear ones."""

import math
import time
from collections.abc import Callable

import numpy as np

from giftrl.certificates.units import Array


def price(norm: float, radius: float, ridge: float = 0.0) -> float:
    """The largest value of <theta, z> - (ridge/2) |z|^2 over |z| <= radius, for |theta| = norm.

    With a radius and no ridge it is radius times norm; with a ridge and an infinite radius, norm^2/(2 ridge).

    >>> price(3.0, 2.0), price(3.0, math.inf, 0.5), price(3.0, 2.0, 1.0)
    (6.0, 9.0, 4.0)
    """
    if not norm < math.inf:
        return math.inf  # also where the radius is 0: models that differ in an unmeasured way have no size
    if norm == 0.0 or radius == 0.0:
        return 0.0
    if norm <= ridge * radius:
        return 0.5 * norm * norm / ridge
    return radius * norm - 0.5 * ridge * radius * radius


def newton_step(hessian: Array, g: Array, z: Array, radius: float, ridge: float) -> Array:
    """A step s that minimises <g, s> + <s, H s>/2 over |z + s| <= radius, from the eigenvectors of H + ridge I.

    g contains the slope of the ridge. z + s = (H + mu I)^{-1} (H z - g), with the least mu >= 0 at which it is in the
    ball. 1/norm of this point is concave in mu, so that Newton's method for it rises to the mu where it is 1/radius.

    >>> import numpy as np
    >>> newton_step(np.diag([1.0, 4.0]), np.array([-3.0, 0.0]), np.zeros(2), 2.0, 0.0).round(9) + 0.0
    array([2., 0.])
    """
    if radius == 0.0:
        return -z
    values, vectors = np.linalg.eigh(hessian)
    values = np.maximum(values, 0.0) + ridge
    c = values * (vectors.T @ z) - vectors.T @ g
    # |c|/(largest + mu) <= |v(mu)|: below |c|/radius - largest the point is outside. Less than 1e-14 is rounding.
    largest, far = float(values[-1]), float(np.linalg.norm(c)) / radius
    mu = max(1e-14 * max(largest, far), far - largest, 1e-300)
    for _ in range(100):
        v = c / (values + mu)
        norm = float(np.linalg.norm(v))
        if not norm > radius * (1.0 + 1e-12):
            break
        slope = float(v @ (v / (values + mu)))
        if not slope > 0.0:  # numbers too small for float64
            break
        mu += (norm / radius - 1.0) * norm * norm / slope
    # The step itself, and not the difference of two long vectors.
    step: Array = vectors @ (-(vectors.T @ (g + mu * z)) / (values + mu))
    return step


def conjugate_gradients(times: Callable[[Array], Array], b: Array, share: float, most: int, end: float) -> Array:
    """An x with |b - H x| <= share |b|, or what ``most`` products H v, or the time until ``end``, lead to.

    >>> import numpy as np
    >>> conjugate_gradients(lambda v: np.array([1.0, 4.0]) * v, np.array([1.0, 2.0]), 1e-9, 10, math.inf).round(9)
    array([1. , 0.5])
    """
    x, r = np.zeros(len(b)), b.copy()
    p, rr = r.copy(), float(r @ r)
    goal = share * share * rr
    for k in range(most):
        if rr <= goal or (k > 0 and time.monotonic() >= end):
            break
        hp = times(p)
        bend = float(p @ hp)
        if not bend > 0.0:
            break
        x += (rr / bend) * p
        r -= (rr / bend) * hp
        new = float(r @ r)
        p = r + (new / rr) * p
        rr = new
    return x
