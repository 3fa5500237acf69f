"""The scalar part of a round, shared by every loop: choose b on a line and account for it."""

from typing import Any

from giftrl.compiled.registry import formula
from giftrl.kernels.scalars import CONJUGATE, DELTA, LAM, LOSS, ROUNDING, TIME
from giftrl.ops.line import arrive, at, energy
from giftrl.ops.loss import conjugate, curvature, slope, value
from giftrl.updates.contract import minimises, pick

__all__ = ["account", "choose", "soft"]


@formula(fast=True)
def soft(u: float, level: float) -> float:
    """u moved towards 0 by the level, and no further."""
    if level == 0.0 or u == 0.0:
        return u
    if u > level:
        return u - level
    if u < -level:
        return u + level
    return 0.0


@formula(fast=True)
def choose(
    loss: Any, update: Any, y: float, h: float, p: float, line: Any, arrival: bool
) -> tuple[float, float, float, float, float, float]:
    """b for an example of weight h predicted as p, with phi(p), phi*(b) and (H(g) - H(b))/h.

    And phi and phi'' at the point to which b leads, where ``arrival`` asks for them.
    """
    phi = value(loss, p, y)
    if h == 0.0:
        return 0.0, phi, 0.0, 0.0, phi, 0.0
    g = slope(loss, p, y)
    phi_star_g = g * p - phi  # phi*(g), since g is the slope at p
    phi_led, bend = 0.0, 0.0
    if minimises(update):
        b, phi_star, phi_led, bend = arrive(line, loss, y)
    else:
        b = pick(update, loss, y, p, line)
        phi_star = phi_star_g if b == g else conjugate(loss, b, y)
        if arrival:
            q = at(line, b)
            phi_led, bend = value(loss, q, y), curvature(loss, q, y)
    if b == g:
        return b, phi, phi_star_g, 0.0, phi_led, bend
    return b, phi, phi_star, energy(line, g) + phi_star_g - energy(line, b) - phi_star, phi_led, bend


@formula(fast=True)
def account(
    state: Any, m: int, h: float, phi: float, phi_star: float, delta: float, stored: float, next_lam: float
) -> None:
    """Add a round to the sums of model m; ``stored`` is norm2^2 of the part of theta that it stored."""
    state[m, LOSS] += h * phi
    state[m, CONJUGATE] += h * phi_star
    state[m, DELTA] += h * delta
    state[m, ROUNDING] += stored
    state[m, LAM] = next_lam
    state[m, TIME] += 1.0
