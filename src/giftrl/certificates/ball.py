"""Quadratic functions over a ball, and linear ones."""

import math
from collections.abc import Callable

import numpy as np

from giftrl.certificates.units import Array


def price(norm: float, radius: float, ridge: float = 0.0) -> float:
    """The largest value of <theta, z> - (ridge/2) |z|^2 over |z| <= radius, for |theta| = norm.

    With a radius and no ridge it is radius times norm; with a ridge and an infinite radius, norm^2/(2 ridge).

    >>> price(3.0, 2.0), price(3.0, math.inf, 0.5), price(3.0, 2.0, 1.0)
    (6.0, 9.0, 4.0)
    """
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
        mu += (norm / radius - 1.0) * norm * norm / float(v @ (v / (values + mu)))
    # The step itself, and not the difference of two long vectors.
    step: Array = vectors @ (-(vectors.T @ (g + mu * z)) / (values + mu))
    return step


def truncated_step(
    times: Callable[[Array], Array], g: Array, z: Array, radius: float, mu: float, floor: float, late: Callable[[], bool]
) -> tuple[Array, float]:
    """:func:`newton_step` for many features: approximate, by conjugate gradients with products H v only.

    Returns:
        The step, and a better multiplier than ``mu`` to begin with next time; not below ``floor``.

    >>> import numpy as np
    >>> step, mu = truncated_step(lambda v: 4.0 * v, np.array([-4.0]), np.zeros(1), 9.0, 0.0, 0.0, lambda: False)
    >>> step, mu
    (array([1.]), 0.0)
    """
    c = times(z) - g
    length = float(np.linalg.norm(c))
    if length > 0.0 and 0.0 < radius < math.inf:  # where H is nearly 0 along c, so must mu not be
        mu = max(mu, 0.1 * (length / radius - float(c @ times(c)) / length**2))
    v = z + _conjugate_gradients(lambda x: times(x) + mu * x, -(g + mu * z), 1e-2, late)
    norm = float(np.linalg.norm(v))
    if norm > 0.0 and (norm > radius or mu > floor):
        w = _conjugate_gradients(lambda x: times(x) + mu * x, v, 1e-1, late)
        lift = (norm / radius - 1.0) * norm * norm / max(float(v @ w), 1e-300) if radius > 0.0 else math.inf
        new = min(max(mu + lift, floor, 0.1 * mu), 10.0 * mu + norm / max(float(v @ w), 1e-300) * norm)
        v, mu = v - (new - mu) * w, new
        norm = float(np.linalg.norm(v))
    if norm > radius:
        v = v * (radius / norm)
    return v - z, mu


def _conjugate_gradients(times: Callable[[Array], Array], b: Array, share: float, late: Callable[[], bool]) -> Array:
    """An x with |b - H x| <= share |b|, or what 200 products lead to."""
    x, r = np.zeros(len(b)), b.copy()
    p, rr = r.copy(), float(r @ r)
    goal = share * share * rr
    for _ in range(200):
        if rr <= goal or late():
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
