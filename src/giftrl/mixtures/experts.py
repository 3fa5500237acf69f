"""The experts: linear learners on a grid of parameters, side by side in memory, in units in which features are alike.

In these units (:mod:`giftrl.mixtures.scale_row`, :mod:`giftrl.mixtures.label_units`) a coordinate of an expert is a
proximal step x_j -= a u_j/(kappa L_j), with a the proximal scalar of its own prediction and
c = sum_j u_j^2/(kappa L_j), as everywhere in this package. N is the mean of norm2(u)^2, kappa the curvature of the loss
in units of labels, and

    curvature(beta, rho)   L_j = (N/beta + q_j)/rho,            q_j the sum of (h/kappa) u_j^2, h the curvature,
    AdaGrad(beta)          L_j = sqrt(N) sqrt(1 + r_j)/beta,    r_j the sum of (g u_j/S)^2, g the slope.

These are the strengths of :class:`giftrl.regularizers.Curvature` and :class:`giftrl.regularizers.AdaGrad`. h and g are
those of the *combined* prediction, so that one q_j and one r_j serve all experts: measured, that is no worse than one
for each, and a coordinate takes half the memory. Every L_j is then one formula with three factors,

    L_j = prior N + curve q_j + root sqrt(N) sqrt(1 + r_j),

in numbers near 1 whatever the scale of features and labels.

With K scores the classes have L_j in common too, so that c is still one number for each expert; a is a vector of K
numbers, and an expert has a weight of feature j for each class.

A coin-betting expert has no rate at all: each coordinate bets a share of what it has won. With slopes z = g u in
[-1, 1], G the sum of abs(z), theta minus the sum of z and W what was won so far,

    x_j = Y (WEALTH + W_j) theta_j / (1 + G_j) / N,    W_j <- max(0, W_j - z x_j N/Y):

the betting strategy of Orabona and Tommasi (2017), in units in which features are alike. With K scores each class bets
by itself. A block of memory holds the thetas of all scores, then every G, then every W.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import clip, load, store, wide
from giftrl.compiled.registry import formula
from giftrl.errors import UnknownName
from giftrl.kernels.lane_counts import lanes
from giftrl.mixtures.clip_limits import LARGEST_EXPERT_WEIGHT
from giftrl.mixtures.state import BlockColumns
from giftrl.regularizers import AdaGrad, Curvature
from giftrl.regularizers.contract import accumulate, strength

CURVATURE = Curvature()
ADAGRAD = AdaGrad(np.float32(1.0))  # type: ignore[arg-type]  # in the narrower type, so that float32 stays float32


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
    """An expert of AdaGrad."""
    return Expert(f"adagrad {beta:g}", 0.0, 0.0, 1.0 / beta)


class Preset(NamedTuple):
    """The experts of the grid, and how many features the full matrix can hold."""

    experts: tuple[Expert, ...]
    places: int


#: What ``preset`` of the estimators and of ``giftrl train`` may name, with the experts of each.
PRESETS = {
    # The grids are coarse because little depends on them: a factor of 3 in a beta changes the mean loss by under 0.3%.
    "default": Preset(
        (
            *(curvature(beta, 4.0) for beta in (1.0, 10.0, 100.0, 1000.0)),
            curvature(10.0, 1.0),
            *(adagrad(beta) for beta in (0.3, 10.0, 1000.0)),
        ),
        128,
    ),
    # Half of the time: four experts; with one score, no coin either.
    "light": Preset((curvature(1.0, 4.0), curvature(100.0, 4.0), adagrad(10.0), adagrad(1000.0)), 0),
}


def preset(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name]


@formula
def bets(grid: Any) -> bool:
    """True if a mixture of one score has the coin beside this grid: four experts, for haste, go without it."""
    return bool(lanes(grid) == 8)


class StrengthFactors(NamedTuple):
    """The three factors of L_j for a row, each a vector with a lane for each expert."""

    prior: Any
    curve: Any
    root: Any


def factor_table(experts: tuple[Expert, ...], dtype: Any) -> NDArray[Any]:
    """The factors of experts in the type in which weights are stored, a row for each kind."""
    return np.array([[expert[kind] for expert in experts] for kind in (1, 2, 3)], dtype)


@formula(fast=True)
def factors(grid: Any, norm: float, table: Any) -> Any:
    """The factors while the mean of norm2(u)^2 is ``norm``, from :func:`factor_table`."""
    real = table.dtype.type
    prior, root = load(grid, table, 0, 0) * real(norm), load(grid, table, 2, 0) * real(math.sqrt(norm))
    return StrengthFactors(prior, load(grid, table, 1, 0), root)


@formula(fast=True)
def strengths(x: Any, q: Any, z2: Any, by: StrengthFactors) -> Any:
    """L_j of all experts, in the type in which weights are stored."""
    return strength(CURVATURE, by.prior, by.curve * q) + by.root * strength(ADAGRAD, x.dtype.type(1.0), z2)


@formula(fast=True)
def grow(grid: Any, columns: BlockColumns, scores: Any, x: Any, j: int, factor: float, by: StrengthFactors) -> None:
    """Follow a scale m_j that has grown, factor = m_old/m_new: duals are kept, and strengths rise.

    The dual L_j x_j of the original feature stays as it is, so that a value far beyond the others does not get the
    weight that these have earned: in units of m_j, x_j <- factor x_j L_old/L_new, q_j <- factor^2 q_j.
    """
    f, q, z2 = x.dtype.type(factor), x[j, columns.curve], x[j, columns.root]
    new_q, new_z2 = f * f * q, f * f * z2
    shrunk = strengths(x, q, z2, by) / strengths(x, new_q, new_z2, by) * f
    for m in range(scores):
        at = columns.lanes + m * np.uint64(lanes(grid))
        store(x, j, at, clip(load(grid, x, j, at) * shrunk, x.dtype.type(LARGEST_EXPERT_WEIGHT)))
    x[j, columns.curve], x[j, columns.root] = new_q, new_z2


@formula(fast=True)
def measure(columns: BlockColumns, x: Any, j: int, u: float, by: StrengthFactors) -> Any:
    """u_j/L_j, in the type in which weights are stored: a step moves x_j along it, and u_j times it is a part of c."""
    return x.dtype.type(u) / strengths(x, x[j, columns.curve], x[j, columns.root], by)


@formula(fast=True)
def add_products(grid: Any, columns: BlockColumns, x: Any, j: int, u: float, out: Any) -> None:
    """Add u x_j of all experts to ``out``, which has a row for each of K scores."""
    for m in range(np.uint64(len(out))):
        at = columns.lanes + m * np.uint64(lanes(grid))
        store(out, m, 0, load(grid, out, m, 0) + wide(load(grid, x, j, at)) * u)


@formula(fast=True)
def move(grid: Any, x: Any, j: int, at: Any, a: Any, along: Any) -> None:
    """x_j -= a_r u_j/L_j for the experts from column ``at``, with ``along`` from :func:`measure`."""
    store(x, j, at, clip(load(grid, x, j, at) - a * along, x.dtype.type(LARGEST_EXPERT_WEIGHT)))


@formula(fast=True)
def remember(columns: BlockColumns, x: Any, j: int, u: float, h: float, g: float) -> None:
    """Add to q_j and r_j: h is the curvature in units of kappa, g the slope in units of S."""
    real = x.dtype.type
    most, v = real(LARGEST_EXPERT_WEIGHT), real(u)
    x[j, columns.curve] = min(accumulate(CURVATURE, x[j, columns.curve], real(0.0), real(h) * v * v), most)
    x[j, columns.root] = min(accumulate(ADAGRAD, x[j, columns.root], real(g) * v, real(0.0)), most)


#: What a coordinate may bet before it has won anything.
WEALTH = 4.0
#: A coordinate that has won more bets as if it had won this.
MAX_WEALTH = 1e12


@formula(fast=True)
def bet(x: Any, j: int, at: Any, scores: Any, unit: float) -> float:
    """x_j of the score whose theta is in column ``at``, with unit = Y/N."""
    real = x.dtype.type
    won = (real(WEALTH) + x[j, at + scores + scores]) * x[j, at]
    return unit * np.float64(won / (real(1.0) + x[j, at + scores]))


@formula(fast=True)
def bet_all(x: Any, j: int, at: Any, unit: float, out: Any) -> None:
    """:func:`bet` for each of K scores."""
    scores = np.uint64(len(out))
    for m in range(scores):
        out[m] = bet(x, j, at + m, scores, unit)


@formula(fast=True)
def grow_coin(x: Any, j: int, at: Any, scores: Any, factor: float) -> None:
    """Follow a scale m_j that has grown by 1/factor: the slopes of the past are smaller in its units."""
    for m in range(scores + scores):
        x[j, at + m] = factor * np.float64(x[j, at + m])


@formula(fast=True)
def settle_bet(x: Any, j: int, at: Any, scores: Any, z: float, won: float) -> None:
    """Add the slope z of the coordinate, and what its bet has won in units of Y/N."""
    real = x.dtype.type
    x[j, at] -= real(z)
    x[j, at + scores] += abs(real(z))
    win(x, j, at, scores, real(won))


@formula(fast=True)
def win(x: Any, j: int, at: Any, scores: Any, won: Any) -> None:
    """Add what a bet has won to W_j."""
    real, wealth = x.dtype.type, at + scores + scores
    x[j, wealth] = max(real(0.0), min(real(MAX_WEALTH), x[j, wealth] + won))
