"""Regularizers: rules that compute psi_1, psi_2, ... from lambda_t and past rounds, one file each.
:mod:`giftrl.regularizers.contract` defines the interface, and :mod:`giftrl.regularizers.potentials` the forms of psi_t.

>>> from giftrl import regularizers
>>> regularizers.get("p_norm", p=1.2)
PNorm(p=1.2)
"""

from giftrl.compiled.registry import Names
from giftrl.regularizers.adagrad import AdaGrad
from giftrl.regularizers.centred import Centred
from giftrl.regularizers.contract import Evidence
from giftrl.regularizers.curvature import Curvature
from giftrl.regularizers.curvature_full import CurvatureFull
from giftrl.regularizers.elastic_net import ElasticNet
from giftrl.regularizers.entropy import Entropy
from giftrl.regularizers.p_norm import PNorm
from giftrl.regularizers.potentials import Potential
from giftrl.regularizers.squared_norm import SquaredNorm

#: Every regularizer by its name.
BY_NAME = Names(
    "regularizer",
    squared_norm=SquaredNorm,
    adagrad=AdaGrad,
    elastic_net=ElasticNet,
    centred=Centred,
    curvature=Curvature,
    curvature_full=CurvatureFull,
    entropy=Entropy,
    p_norm=PNorm,
)

#: The regularizer of that name, with these parameters: ``regularizers.get("adagrad")``.
#: An unknown name is an error that suggests the nearest one.
get = BY_NAME.make

__all__ = [
    "BY_NAME",
    "AdaGrad",
    "Centred",
    "Curvature",
    "CurvatureFull",
    "ElasticNet",
    "Entropy",
    "Evidence",
    "PNorm",
    "Potential",
    "SquaredNorm",
    "get",
]
