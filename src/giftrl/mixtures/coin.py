"""A coin-betting expert: no rate at all, each coordinate bets a share of what it has won.

With slopes z = g u in [-1, 1], G the sum of abs(z), theta minus the sum of z and W what was won so far,

    x_j = Y (WEALTH + W_j) theta_j / (1 + G_j) / N,    W_j <- max(0, W_j - z x_j N/Y):

the betting strategy of Orabona and Tommasi (2017), in units in which features are alike. With K scores each class bets
by itself. A block of memory holds the thetas of all scores, then every G, then every W.
"""

from typing import Any

import numpy as np

from giftrl.compiled.registry import formula

#: What a coordinate may bet before it has won anything.
WEALTH = 4.0
#: A coordinate that has won more bets as if it had won this.
RICHEST = 1e12


@formula(fast=True)
def stakes(x: Any, j: int, at: Any, scores: Any) -> Any:
    """1 + G_j of the score whose theta is in column ``at``, in the type in which weights are stored."""
    return x.dtype.type(1.0) + x[j, at + scores]


@formula(fast=True)
def winnings(x: Any, j: int, at: Any, scores: Any) -> Any:
    """(WEALTH + W_j) theta_j of the score whose theta is in column ``at``."""
    return (x.dtype.type(WEALTH) + x[j, at + scores + scores]) * x[j, at]


@formula(fast=True)
def fraction(x: Any, j: int, at: Any, scores: Any) -> Any:
    """x_j of the score whose theta is in column ``at``, in units of Y/N and in the type in which weights are stored."""
    return winnings(x, j, at, scores) / stakes(x, j, at, scores)


@formula(fast=True)
def bet(x: Any, j: int, at: Any, scores: Any, unit: float) -> float:
    """x_j of the score whose theta is in column ``at``, with unit = Y/N."""
    return unit * np.float64(fraction(x, j, at, scores))


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
    x[j, wealth] = max(real(0.0), min(real(RICHEST), x[j, wealth] + won))
