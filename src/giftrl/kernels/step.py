"""The scalar part of a round, shared by every loop: choose b on a line and account for it."""

from typing import Any

from giftrl.kernels.scalars import CONJUGATE, DELTA, LAM, LOSS, ROUNDING, THETA2, TIME
from giftrl.ops.line import energy
from giftrl.ops.loss import conjugate, slope, value
from giftrl.ops.registry import formula
from giftrl.updates.contract import pick

__all__ = ["account", "choose", "soft"]


@formula
def soft(u: float, level: float) -> float:
    """u moved towards 0 by the level, and no further."""
    if level == 0.0 or u == 0.0:
        return u
    if u > level:
        return u - level
    if u < -level:
        return u + level
    return 0.0


@formula
def choose(loss: Any, update: Any, y: float, h: float, p: float, line: Any) -> tuple[float, float, float, float]:
    """b for an example of weight h predicted as p, with phi(p), phi*(b) and (H(g) - H(b))/h."""
    phi = value(loss, p, y)
    if h == 0.0:
        return 0.0, phi, 0.0, 0.0
    g = slope(loss, p, y)
    b = pick(update, loss, y, p, line)
    phi_star = g * p - phi  # phi*(g), since g is the slope at p
    if b == g:
        return b, phi, phi_star, 0.0
    at_g = energy(line, g) + phi_star
    phi_star = conjugate(loss, b, y)
    return b, phi, phi_star, at_g - energy(line, b) - phi_star


@formula
def account(state: Any, h: float, phi: float, phi_star: float, delta: float, gained: float, next_lam: float) -> None:
    """Add a round to the sums of a state; ``gained`` is what norm2(theta)^2 gains."""
    state[LOSS] += h * phi
    state[CONJUGATE] += h * phi_star
    state[DELTA] += h * delta
    state[THETA2] += gained
    state[ROUNDING] += state[THETA2]
    state[LAM] = next_lam
    state[TIME] += 1.0
