"""A coin-betting expert: no rate at all, each coordinate bets a share of what it has won.

With slopes z = g u in [-1, 1], G the sum of abs(z), theta minus the sum of z and W what was won so far,

    x_j = Y (WEALTH + W_j) theta_j / (1 + G_j) / N,    W_j <- max(0, W_j - z x_j N/Y):

the betting strategy of Orabona and Tommasi (2017), in units in which features are alike.
"""

from typing import Any

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.mixtures.layout import COIN

__all__ = ["WEALTH", "bet", "grow_coin", "settle_bet"]

#: What a coordinate may bet before it has won anything.
WEALTH = 4.0
#: More than this is not counted.
RICHEST = 1e12


@formula(fast=True)
def bet(x: Any, j: int, unit: float) -> float:
    """x_j, with unit = Y/N; but for that, in the type in which weights are stored."""
    real = x.dtype.type
    return unit * np.float64((real(WEALTH) + x[j, COIN + 2]) * x[j, COIN] / (real(1.0) + x[j, COIN + 1]))


@formula(fast=True)
def grow_coin(x: Any, j: int, factor: float) -> None:
    """Follow a scale m_j that has grown by 1/factor: slopes of the past are smaller in its units."""
    x[j, COIN] = factor * np.float64(x[j, COIN])
    x[j, COIN + 1] = factor * np.float64(x[j, COIN + 1])


@formula(fast=True)
def settle_bet(x: Any, j: int, z: float, won: float) -> None:
    """Take in the slope z of the coordinate, and what its bet has won, in units of Y/N."""
    real = x.dtype.type
    x[j, COIN] -= real(z)
    x[j, COIN + 1] += abs(real(z))
    x[j, COIN + 2] = max(real(0.0), min(real(RICHEST), x[j, COIN + 2] + real(won)))
