"""Learning without parameters: experts, AdaHedge, a Newton stack, and features and labels on a common scale.

====================================== ==================================================================
:mod:`giftrl.mixtures.mixture`         what mixtures share: arguments, batches, state, weights, certificate
:mod:`giftrl.mixtures.learner`         one score; its loop is in :mod:`giftrl.mixtures.rounds` and ``walk``
:mod:`giftrl.mixtures.multiclass`      K scores; :mod:`giftrl.mixtures.multiclass_rounds`
:mod:`giftrl.mixtures.features`        features on a common scale; :mod:`giftrl.mixtures.labels` for labels
:mod:`giftrl.mixtures.experts`         the grid; :mod:`giftrl.mixtures.coin`, :mod:`giftrl.mixtures.full_matrix`
:mod:`giftrl.mixtures.combination`     from experts to one prediction, by AdaHedge and the Newton stack
:mod:`giftrl.mixtures.layout`          where all of it is in memory; :mod:`giftrl.mixtures.restoring` checks it
====================================== ==================================================================
"""

from giftrl.mixtures.experts import PRESETS
from giftrl.mixtures.extension import Extended
from giftrl.mixtures.learner import MixtureLearner
from giftrl.mixtures.multiclass import MulticlassMixture

__all__ = ["PRESETS", "Extended", "MixtureLearner", "MulticlassMixture"]
