"""Losses: convex functions of a prediction p and a label y, one file each. :mod:`giftrl.ops.loss` defines the required
and optional methods.

>>> from giftrl import losses
>>> losses.get("quantile")
Quantile(tau=0.5)
>>> losses.get("hinge").value(0.5, 1.0)
0.5
"""

from typing import Any

from giftrl.compiled.registry import Names
from giftrl.errors import Incompatible
from giftrl.losses.absolute import Absolute
from giftrl.losses.epsilon_insensitive import EpsilonInsensitive
from giftrl.losses.hinge import Hinge
from giftrl.losses.huber import Huber
from giftrl.losses.logistic import Logistic
from giftrl.losses.multiclass_hinge import MulticlassHinge
from giftrl.losses.poisson import Poisson
from giftrl.losses.quantile import Quantile
from giftrl.losses.softmax import Softmax
from giftrl.losses.squared import Squared
from giftrl.losses.squared_hinge import SquaredHinge
from giftrl.losses.vector import LinearModelLoss, VectorLoss
from giftrl.ops.loss import ScalarLoss
from giftrl.ops.vector_loss import multiclass

#: Every loss of one score by its name.
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

#: Losses of K scores, one for each class (:mod:`giftrl.ops.vector_loss`).
MULTICLASS = Names("loss", multiclass_hinge=MulticlassHinge, softmax=Softmax)

#: Losses of one score and multiclass losses.
EVERY = Names("loss", **BY_NAME, **MULTICLASS)
#: The loss of that name, with these parameters: ``losses.get("hinge")``.
#: An unknown name is an error that suggests the nearest one.
get = EVERY.make


def scalar(given: Any) -> Any:
    """A loss of one score, from its name or as an object.

    >>> scalar("hinge")
    Hinge()
    """
    if multiclass(given) or (isinstance(given, str) and given in MULTICLASS):
        raise Incompatible(
            f"{given!r} is a loss of K scores, one for each class, and this learner makes one prediction; use "
            "FTRLClassifier or giftrl.kernels.MulticlassLearner"
        )
    return BY_NAME.member(given, "slope")


__all__ = [
    "BY_NAME",
    "EVERY",
    "MULTICLASS",
    "Absolute",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "LinearModelLoss",
    "Logistic",
    "MulticlassHinge",
    "Poisson",
    "Quantile",
    "ScalarLoss",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "VectorLoss",
    "get",
    "scalar",
]
