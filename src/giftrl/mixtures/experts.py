"""The experts: linear learners on a grid of parameters, side by side in memory, in units in which features are alike.

In these units (:mod:`giftrl.mixtures.features`, :mod:`giftrl.mixtures.labels`) a coordinate of an expert is a proximal
step x_j -= a u_j/(kappa L_j), with a the proximal scalar of its own prediction and c = sum_j u_j^2/(kappa L_j), as
everywhere in this package. N is the mean of norm2(u)^2, kappa the curvature of the loss in units of labels, and

    curvature(beta, rho)   L_j = (N/beta + q_j)/rho,            q_j the sum of (h/kappa) u_j^2, h the curvature met,
    AdaGrad(beta)          L_j = sqrt(N) sqrt(1 + r_j)/beta,    r_j the sum of (g u_j/S)^2, g the slope met.

These are the strengths of :class:`giftrl.regularizers.Curvature` and :class:`giftrl.regularizers.AdaGrad`. h and g are
those of the *combined* prediction, so that one q_j and one r_j serve all experts: measured, that is no worse than one
for each, and a coordinate takes half the memory. Every L_j is then one formula with three factors,

    L_j = prior N + curve q_j + root sqrt(N) sqrt(1 + r_j),

in numbers near 1 whatever the scale of features and labels.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import between, load, nothing, store, wide
from giftrl.compiled.registry import formula, operation
from giftrl.errors import require
from giftrl.mixtures.layout import CURVE, LANES, ROOT
from giftrl.regularizers import AdaGrad, Curvature
from giftrl.regularizers.contract import accumulate, strength

__all__ = [
    "Eight", "Expert", "Four", "adagrad", "bets", "coin", "columns", "curvature", "drift", "factors", "full", "grid",
    "grow", "lanes", "measure", "step", "strengths",
]  # fmt: skip

CURVATURE = Curvature()
ADAGRAD = AdaGrad(np.float32(1.0))  # type: ignore[arg-type]  # of the narrower type, so that it widens no other
#: Steps in units of kappa are clipped here.
LARGEST = 1e30


class Expert(NamedTuple):
    """The factors of one expert's strengths, and its name."""

    name: str
    prior: float
    curve: float
    root: float


def curvature(beta: float, rho: float) -> Expert:
    """An expert of curvature: beta is its first strength, rho its rate.

    >>> curvature(10.0, 4.0)
    Expert(name='curvature 10, rate 4', prior=0.025, curve=0.25, root=0.0)
    """
    return Expert(f"curvature {beta:g}, rate {rho:g}", 1.0 / (beta * rho), 1.0 / rho, 0.0)


def adagrad(beta: float) -> Expert:
    """An expert of AdaGrad.

    >>> adagrad(10.0)
    Expert(name='adagrad 10', prior=0.0, curve=0.0, root=0.1)
    """
    return Expert(f"adagrad {beta:g}", 0.0, 0.0, 1.0 / beta)


@operation
def lanes(grid: Any) -> int:
    """How many experts are side by side."""
    return len(grid.prior)


@operation
def bets(grid: Any) -> bool:
    """Whether there is a coin-betting expert besides."""
    return True


@formula(fast=True)
def coin(grid: Any) -> int:
    """The column of the coin, where experts of all kinds have one each."""
    return lanes(grid)


@formula(fast=True)
def full(grid: Any) -> int:
    """The column of the full matrix."""
    return lanes(grid) + 1


@formula(fast=True)
def columns(grid: Any) -> int:
    """How many columns there are; the last are empty, and there because a wide register holds four numbers."""
    return lanes(grid) + 4


class Eight(NamedTuple):
    """Eight experts."""

    prior: NDArray[np.float64]
    curve: NDArray[np.float64]
    root: NDArray[np.float64]

    def lanes(self) -> int:
        return 8


class Four(NamedTuple):
    """Four experts, for haste: without the coin."""

    prior: NDArray[np.float64]
    curve: NDArray[np.float64]
    root: NDArray[np.float64]

    def lanes(self) -> int:
        return 4

    def bets(self) -> bool:
        return False


def grid(experts: tuple[Expert, ...]) -> Eight | Four:
    """Four or eight experts side by side."""
    require(len(experts) in (4, 8), "experts", experts, "must be four or eight", "repeat one to fill up")
    prior, curve, root = (np.array([getattr(each, name) for each in experts]) for name in ("prior", "curve", "root"))
    return Eight(prior, curve, root) if len(experts) == 8 else Four(prior, curve, root)


@formula(fast=True)
def factors(grid: Any, norm: float, room: Any) -> tuple[Any, Any, Any]:
    """The three factors of the strengths of a row; ``room`` has the type in which weights are stored."""
    for r in range(lanes(grid)):
        room[0, r] = grid.prior[r] * norm
        room[1, r] = grid.curve[r]
        room[2, r] = grid.root[r] * math.sqrt(norm)
    return load(grid, room, 0, 0), load(grid, room, 1, 0), load(grid, room, 2, 0)


@formula(fast=True)
def strengths(x: Any, q: Any, z2: Any, prior: Any, curve: Any, root: Any) -> Any:
    """L_j of all experts, in the type in which weights are stored."""
    return strength(CURVATURE, prior, curve * q) + root * strength(ADAGRAD, x.dtype.type(1.0), z2)


@formula(fast=True)
def grow(grid: Any, x: Any, j: int, factor: float, prior: Any, curve: Any, root: Any) -> None:
    """Follow a scale m_j that has grown, factor = m_old/m_new: duals are kept, and strengths rise.

    The dual L_j x_j of the original feature stays as it is, so that a value far beyond the others does not meet the
    weight that these have earned: in units of m_j, x_j <- factor x_j L_old/L_new, q_j <- factor^2 q_j.
    """
    f, q, z2 = x.dtype.type(factor), x[j, CURVE], x[j, ROOT]
    new_q, new_z2 = f * f * q, f * f * z2
    shrunk = strengths(x, q, z2, prior, curve, root) / strengths(x, new_q, new_z2, prior, curve, root) * f
    store(x, j, LANES, between(load(grid, x, j, LANES) * shrunk, x.dtype.type(LARGEST)))
    x[j, CURVE], x[j, ROOT] = new_q, new_z2


@formula(fast=True)
def measure(x: Any, j: int, u: float, prior: Any, curve: Any, root: Any) -> Any:
    """u_j/L_j, in the type in which weights are stored: by what a coordinate moves, and u_j times its part of c_r."""
    return x.dtype.type(u) / strengths(x, x[j, CURVE], x[j, ROOT], prior, curve, root)


@formula(fast=True)
def drift(grid: Any, x: Any, row: Any) -> Any:
    """How far the constants move with the centres of features."""
    moved = nothing(grid)
    for place in range(row.many[0]):
        k = row.moved[place]
        moved = moved + wide(load(grid, x, row.j[k], LANES)) * row.drift[k]
    return moved


@formula(fast=True)
def step(grid: Any, x: Any, j: int, u: float, a: Any, along: Any, h: float, g: float) -> None:
    """x_j -= a_r u_j/L_j, and what the coordinate remembers: h is the curvature, g the slope, in units of kappa and S.

    The a_r are in units of kappa too.
    """
    real = x.dtype.type
    most, v = real(LARGEST), real(u)
    store(x, j, LANES, between(load(grid, x, j, LANES) - a * along, most))
    x[j, CURVE] = min(accumulate(CURVATURE, x[j, CURVE], real(0.0), real(h) * v * v), most)
    x[j, ROOT] = min(accumulate(ADAGRAD, x[j, ROOT], real(g) * v, real(0.0)), most)
