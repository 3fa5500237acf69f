"""The experts (base learners): linear learners on a grid of parameters, in standardised units.

In these units (:mod:`giftrl.mixtures.feature_state`, :mod:`giftrl.mixtures.label_units`) a coordinate of an expert is a
proximal step x_j -= a u_j/(kappa L_j), with a the proximal scalar of its own prediction and
c = sum_j u_j^2/(kappa L_j), as everywhere in this package. N is the mean of norm2(u)^2, kappa the curvature of the loss
in units of labels, and

    curvature(beta, rho)   L_j = (N/beta + q_j)/rho,            q_j the sum of (h/kappa) u_j^2, h the curvature,
    AdaGrad(beta)          L_j = sqrt(N) sqrt(1 + r_j)/beta,    r_j the sum of (g u_j/S)^2, g the slope.

These are the strengths of :class:`giftrl.regularizers.Curvature` and :class:`giftrl.regularizers.AdaGrad`. h and g are
taken at the *combined* prediction, so that all experts share one q_j and one r_j. Measured, this is no worse than
separate ones, and halves the memory. Every L_j is then one formula with three factors,

    L_j = prior N + curve q_j + root sqrt(N) sqrt(1 + r_j),

in numbers near 1 whatever the scale of features and labels.

With K scores the classes share L_j too, so that c is still one number for each expert; a is a vector of K
numbers, and an expert has a weight of feature j for each class.

A coin-betting expert has no learning rate: each coordinate bets a share of its winnings. With slopes z = g u in
[-1, 1], G the sum of abs(z), theta minus the sum of z and W the winnings so far,

    x_j = Y (WEALTH + W_j) theta_j / (1 + G_j) / N,    W_j <- max(0, W_j - z x_j N/Y):

the betting strategy of Orabona and Tommasi (2017), in standardised units. With K scores each class bets separately. A
block of memory holds the thetas of all scores, then every G, then every W.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl import system
from giftrl.compiled.lanes import (
    FOUR,
    clip,
    get,
    lanes,
    least,
    load,
    maximum,
    read,
    store,
    total,
    where_less,
    wide,
    write,
    zeros,
)
from giftrl.compiled.registry import formula
from giftrl.errors import UnknownName
from giftrl.kernels.base import NonzeroRows
from giftrl.mixtures.clip_limits import LARGEST_EXPERT_WEIGHT
from giftrl.mixtures.feature_state import DENSE_PLACE, ROWS, BlockColumns
from giftrl.ops.scalar import exp_minus, log
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
    """A curvature expert with initial strength beta and rate rho.

    >>> curvature(10.0, 4.0)
    Expert(name='curvature 10, rate 4', prior=0.025, curve=0.25, root=0.0)
    """
    return Expert(f"curvature {beta:g}, rate {rho:g}", 1.0 / (beta * rho), 1.0 / rho, 0.0)


def adagrad(beta: float) -> Expert:
    """An AdaGrad expert."""
    return Expert(f"adagrad {beta:g}", 0.0, 0.0, 1.0 / beta)


class Preset(NamedTuple):
    """The experts of the grid, and the maximum number of features in the full matrix."""

    experts: tuple[Expert, ...]
    places: int


#: The presets by name, with their experts.
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
    # Half the time: four experts, and no coin with one score.
    "light": Preset((curvature(1.0, 4.0), curvature(100.0, 4.0), adagrad(10.0), adagrad(1000.0)), 0),
}


def preset(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name]


@formula
def bets(grid: Any) -> bool:
    """True if a mixture of one score has a coin: all presets but those with four experts."""
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
    """Rescale weights after a scale m_j has grown, factor = m_old/m_new: duals stay, strengths rise.

    The dual L_j x_j of the original feature stays, so that an outlier does not inherit the weight of smaller values: in
    units of m_j, x_j <- factor x_j L_old/L_new, q_j <- factor^2 q_j.
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
    """u_j/L_j in the type of the weights: the step direction of x_j; c sums u_j times it."""
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
    """Update q_j and r_j; h is the curvature in units of kappa, g the slope in units of S."""
    real = x.dtype.type
    most, v = real(LARGEST_EXPERT_WEIGHT), real(u)
    x[j, columns.curve] = min(accumulate(CURVATURE, x[j, columns.curve], real(0.0), real(h) * v * v), most)
    x[j, columns.root] = min(accumulate(ADAGRAD, x[j, columns.root], real(g) * v, real(0.0)), most)


#: The initial wealth of a coordinate.
WEALTH = 4.0
#: The upper limit of a coordinate's wealth.
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
def settle_bet(x: Any, j: int, at: Any, scores: Any, z: float, won: float) -> None:
    """Update a coordinate's coin: add the slope z and the winnings of its bet, in units of Y/N."""
    real = x.dtype.type
    x[j, at] -= real(z)
    x[j, at + scores] += abs(real(z))
    win(x, j, at, scores, real(won))


@formula(fast=True)
def win(x: Any, j: int, at: Any, scores: Any, won: Any) -> None:
    """Add the winnings of a bet to W_j."""
    real, wealth = x.dtype.type, at + scores + scores
    x[j, wealth] = max(real(0.0), min(real(MAX_WEALTH), x[j, wealth] + won))


# The combination: AdaHedge and a Newton stack combine experts, a second AdaHedge combines the candidates.
#
# AdaHedge (de Rooij, van Erven, Grünwald and Koolen, 2014) weights experts by their losses, at a learning rate that is
# set by the losses too. Its regret against the best of n experts is at most 2 sqrt(V ln n) + (4/3 ln n + 2) S, with S
# the largest range of losses in a round and V the sum over rounds of the variance of the losses under the weights. It
# is at most twice the computed gap whatever the losses are. No bound on their range is assumed.
#
# The Newton stack is a linear model of the experts' predictions, f = origin + sum_k v_k z_k with z_k the k-th
# prediction less the origin. v starts at 1/n and A, the inverse of the curvature seen so far, at COVARIANCE I. With c =
# <z, A z> a round takes the proximal slope a of the loss in units of the temperature, v -= a A z, and then A gains the
# curvature h of the loss: A -= h/(1 + h c) (A z)(A z)'.
#
# There are four candidates: the combinations by AdaHedge and by the stack, and both multiplied by a boost
# (:func:`giftrl.ops.loss.boost`). With w, v and l the weights by AdaHedge, by the stack and of the candidates,
# expert r has the share alpha_r = (l_1 + boost l_3) w_r + (l_2 + boost l_4) v_r in the combined prediction.
# All of this is the same for one score and for K.

#: A smaller gap counts as 0, since its inverse would overflow.
SMALLEST_GAP = 1e-290


@formula(fast=True)
def rate(log_experts: float, gap: float) -> float:
    """The learning rate eta = ln(experts)/gap, infinite if the gap is 0."""
    return log_experts / gap if gap > SMALLEST_GAP else math.inf


@formula(fast=True)
def hedge(lost: Any, eta: float) -> Any:
    """The weights exp(-eta lost_k), normalised; if eta is infinite, the leaders share all weight."""
    lowest = least(lost)
    if eta < math.inf:
        weights = exp_minus((lost - lowest) * eta)
    else:
        weights = where_less(lowest + 1e-9 * abs(lowest), lost, 0.0, 1.0)
    return weights * (1.0 / total(weights))


@formula(fast=True)
def observe(eta: float, gap: float, weights: Any, losses: Any) -> float:
    """The new gap: it grows by the mean loss minus the mix loss.

    mix = -ln(sum_k w_k exp(-eta l_k))/eta; if eta is infinite, the smallest loss of an expert with positive weight.
    """
    # For an expert without weight the difference can be negative.
    above = maximum(losses - least(where_less(0.0, weights, losses, math.inf)), 0.0)
    mean = total(weights * above)
    mix = -log(total(weights * exp_minus(above * eta))) / eta if eta < math.inf else 0.0
    return float(gap + max(0.0, mean - mix))


#: The initial A, as a multiple of the identity.
COVARIANCE = 0.1


@formula(fast=True)
def spread_stack(side: Any, inverse: Any, z: Any) -> Any:
    """A z in lanes, for a vector z in memory."""
    even, odd, n = zeros(side), zeros(side), len(inverse)
    for l in range(n // 2):  # noqa: E741
        # A is symmetric: its rows are its columns. Two sums, since each waits for its last term.
        even = even + load(side, inverse, 2 * l, 0) * z[2 * l]
        odd = odd + load(side, inverse, 2 * l + 1, 0) * z[2 * l + 1]
    if n % 2 == 1:
        even = even + load(side, inverse, n - 1, 0) * z[n - 1]
    return even + odd


@formula(fast=True)
def move_stack(side: Any, v: Any, az: Any, a: float) -> None:
    """v -= a A z."""
    write(v, read(side, v) - az * a)


@formula(fast=True)
def bend_stack(side: Any, inverse: Any, az: Any, c: float, h: float) -> None:
    """Add the curvature h z z' to the inverse of A; ``az`` is in memory."""
    along = read(side, az) * (h / (1.0 + h * c))
    for l in range(len(inverse)):  # noqa: E741
        store(inverse, l, 0, load(side, inverse, l, 0) - along * az[l])


CANDIDATES = 4
#: The entries of ``sums``: loss, phi*, the gaps of the two AdaHedges, rows, their weight; and, with one score, the loss
#: of the rows before the first label, on which experts cannot be compared, and the recent mean losses of predictions
#: that are clipped to the range of labels and of those that are not.
LOSS, CONJUGATE, GAP, LAST_GAP, ROUNDS, WEIGHT, UNCOMPARED, CLIPPED, LINEAR = range(9)
#: Row t has about the weight t^RECENCY in a recent mean, so that the poor first predictions are forgotten.
RECENCY = 7.0
#: The limit of the sum of weights, so that the state stays finite.
MOST_WEIGHT = float(np.finfo(np.float64).max)


def start_combination(experts: list[str], candidates: list[bool]) -> dict[str, NDArray[np.float64]]:
    """The initial totals, candidates, stack and inverse; columns without a name have no expert.

    >>> start_combination(["a", ""], [True] * 4)["totals"]
    array([ 0., inf])
    """
    present = np.array([name != "" for name in experts])
    return {
        "totals": np.where(present, 0.0, math.inf),
        "candidates": np.where(candidates, 0.0, math.inf),
        "stack": present / present.sum(),
        "inverse": COVARIANCE * np.diag(present.astype(np.float64)),
    }


class Weighing(NamedTuple):
    """The weights of experts and candidates in a round, in lanes, and their learning rates."""

    rate: float
    experts: Any
    last_rate: float
    candidates: Any


@formula(fast=True)
def weigh_experts(side: Any, state: Any, log_experts: float, log_choices: float) -> Any:
    """Compute both AdaHedges' weights; takes the logarithms of the numbers of experts and candidates."""
    eta, last_eta = rate(log_experts, state.sums[GAP]), rate(log_choices, state.sums[LAST_GAP])
    experts, candidates = hedge(read(side, state.totals), eta), hedge(read(FOUR, state.candidates), last_eta)
    return Weighing(eta, experts, last_eta, candidates)


@formula(fast=True)
def share(boost: float, side: Any, state: Any, out: Any) -> None:
    """Compute the share alpha of each expert."""
    experts, choices = 0, 0
    for r in range(len(state.totals)):
        experts += 1 if state.totals[r] < math.inf else 0
    for r in range(CANDIDATES):
        choices += 1 if state.candidates[r] < math.inf else 0
    by = weigh_experts(side, state, log(experts), log(choices))
    hedged, stacked = (
        get(by.candidates, 0) + boost * get(by.candidates, 2),
        get(by.candidates, 1) + boost * get(by.candidates, 3),
    )
    write(out, by.experts * hedged + read(side, state.stack) * stacked)


@formula(fast=True)
def update_totals(side: Any, state: Any, by: Any, losses: Any, last_losses: Any) -> None:
    """Update both AdaHedges by the losses of the experts and of the candidates, in lanes."""
    sums = state.sums
    gap, last_gap = (
        observe(by.rate, sums[GAP], by.experts, losses),
        observe(by.last_rate, sums[LAST_GAP], by.candidates, last_losses),
    )
    write(state.totals, read(side, state.totals) + losses)
    write(state.candidates, read(FOUR, state.candidates) + last_losses)
    sums[GAP], sums[LAST_GAP] = gap, last_gap


@formula(fast=True)
def add_round(sums: Any, phi: float, conjugate: float, h: float) -> None:
    """Add a row of weight h to the certificate: its loss phi, and phi* at its slope."""
    # Overflow gives infinity, never NaN; with an infinite phi* there is no certificate.
    paid, promised = sums[LOSS] + h * phi, sums[CONJUGATE] + h * conjugate
    sums[LOSS] = paid if abs(paid) < math.inf else math.inf
    sums[CONJUGATE] = promised if abs(promised) < math.inf else math.inf
    sums[ROUNDS] += 1.0
    sums[WEIGHT] = min(sums[WEIGHT] + h, MOST_WEIGHT)


@formula(fast=True)
def remove_expert(state: Any, expert: int) -> None:
    """Take an expert out of the mixture."""
    state.totals[expert] = math.inf
    state.stack[expert] = 0.0
    for r in range(len(state.stack)):
        state.inverse[expert, r], state.inverse[r, expert] = 0.0, 0.0


# Later passes update the weights of the experts only.
# The loss on a repeated row is too low, above all for experts that overfit. So a later pass changes neither the
# comparison of experts (totals, candidates, stack, label units) nor the statistics (feature scales and centres, coin,
# certificate), but only the weights of the grid and of the full matrix. Two things reduce overfitting:
# - The initial strength L_j(0) is a penalty L_j(0) x_j^2/2, applied once in the first pass. A later pass #   applies it
# in equal parts, before each of the n_j rows that have the feature: x_j <- x_j (1 - L_j(0)/(L_j n_j)).
# - The final weights are the mean over all later rounds.
#
# With w_t the weights after round t of T, their mean is w_T less the sum of (t - 1)(w_t - w_{t-1})/T, so that a round
# touches the features of its row alone.


class LaterSums(NamedTuple):
    """Sums over later rounds: (t - 1)(w_t - w_{t-1}) of the grid, w_t of the full matrix; and T."""

    changes: NDArray[Any]
    matrix: NDArray[np.float64]
    rounds: NDArray[np.float64]


def no_later_rounds(features: int, columns: BlockColumns, matrix: Any, dtype: Any) -> LaterSums:
    """Zero sums before the first later round; empty in the first pass."""
    width = int(columns.curve) - int(columns.lanes)
    return LaterSums(system.zeros((features, width), dtype), np.zeros_like(matrix.x), np.zeros(1))


def average_weights(later: LaterSums, columns: BlockColumns, x: NDArray[Any], matrix: Any) -> None:
    """Replace the weights by their means over all later rounds."""
    rounds = later.rounds[0]
    if rounds == 0.0:
        return
    kept = NonzeroRows.of(later.changes)  # other rows have not been written
    grid = x[kept.where, int(columns.lanes) : int(columns.curve)]
    with np.errstate(over="ignore", invalid="ignore"):
        means = grid - kept.rows / grid.dtype.type(rounds)
    means = np.where(np.isfinite(means), means, grid)  # overflows float32 only for weights near their limit
    x[kept.where, int(columns.lanes) : int(columns.curve)] = means
    matrix.x[...] = later.matrix / rounds


@formula(fast=True)
def change_weights(grid: Any, later: LaterSums, x: Any, j: int, at: Any, first: Any, new: Any) -> None:
    """Set the weights of feature j from column ``at``; ``first`` is the column of the grid."""
    old = load(grid, x, j, at)
    t = x.dtype.type(later.rounds[0])
    store(later.changes, j, at - first, load(grid, later.changes, j, at - first) + (new - old) * t)
    store(x, j, at, new)


@formula(fast=True)
def shrink_weights(parts: Any, count: Any, norm: float, scores: Any) -> None:
    """Shrink the weights of a row's features, except the constant's."""
    grid, columns, features, x, row = parts.grid, parts.columns, parts.features, parts.x, parts.buffers.row
    real, by = x.dtype.type, factors(grid, norm, parts.buffers.factors)
    first = strengths(x, real(0.0), real(0.0), by)
    for k in range(count):
        j = row.j[k]
        dense = features.record[j, DENSE_PLACE] > 0.0
        seen = features.counts[ROWS] if dense else np.float64(x[j, columns.count])
        if np.int64(j) != parts.pieces.constant and seen > 0.0:
            most = strengths(x, x[j, columns.curve], x[j, columns.root], by) * real(seen)
            kept = (most - first) / most
            for m in range(scores):
                at = columns.lanes + m * np.uint64(lanes(grid))
                change_weights(grid, parts.later, x, j, at, columns.lanes, load(grid, x, j, at) * kept)


@formula(fast=True)
def move_later(parts: Any, j: int, at: Any, a: Any, along: Any) -> None:
    """:func:`giftrl.mixtures.experts.move` in a later round."""
    grid, x, most = parts.grid, parts.x, parts.x.dtype.type(LARGEST_EXPERT_WEIGHT)
    change_weights(grid, parts.later, x, j, at, parts.columns.lanes, clip(load(grid, x, j, at) - a * along, most))


@formula(fast=True)
def end_round(later: LaterSums, matrix: Any) -> None:
    """Add the weights of the full matrix, and count the round."""
    if matrix.size[0] > 0:
        many, one = later.matrix.flat, matrix.x.flat  # a vector, or a matrix with a column for each class
        for k in range(matrix.x.size):
            many[k] += one[k]
    later.rounds[0] += 1.0
