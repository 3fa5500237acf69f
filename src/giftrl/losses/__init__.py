"""Losses: convex functions of a prediction p and a label y, one file each.

What a loss brings, and what is computed for it when it does not, is the contract in :mod:`giftrl.ops.loss`.

>>> from giftrl import losses
>>> losses.get("quantile")
Quantile(tau=0.5)
>>> losses.get("hinge").value(0.5, 1.0)
0.5
"""

from giftrl.losses.absolute import Absolute
from giftrl.losses.epsilon_insensitive import EpsilonInsensitive
from giftrl.losses.hinge import Hinge
from giftrl.losses.huber import Huber
from giftrl.losses.logistic import Logistic
from giftrl.losses.poisson import Poisson
from giftrl.losses.quantile import Quantile
from giftrl.losses.squared import Squared
from giftrl.losses.squared_hinge import SquaredHinge
from giftrl.losses.vector import LinearModelLoss, VectorLoss
from giftrl.ops.loss import ScalarLoss
from giftrl.ops.names import Names

BY_NAME = Names(
    "loss",
    absolute=Absolute,
    epsilon_insensitive=EpsilonInsensitive,
    hinge=Hinge,
    huber=Huber,
    logistic=Logistic,
    poisson=Poisson,
    quantile=Quantile,
    squared=Squared,
    squared_hinge=SquaredHinge,
)

get = BY_NAME.make

__all__ = [
    "BY_NAME",
    "Absolute",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "LinearModelLoss",
    "Logistic",
    "Poisson",
    "Quantile",
    "ScalarLoss",
    "Squared",
    "SquaredHinge",
    "VectorLoss",
    "get",
]
