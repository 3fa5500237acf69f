"""The default learner: a mixture of many linear base learners on standardised features and labels.

The default learner has three parts. *Experts* are the base learners: a grid of linear learners, a coin-betting learner,
and one with a full curvature matrix. The *combination* weights them by their losses and stacks their predictions.
*Scales* of features and labels are learned in the same pass, so data need no normalisation.

>>> import numpy as np
>>> x = np.column_stack([1000.0 + np.arange(100.0) % 7, np.ones(100)])
>>> learner = MixtureLearner(2, "squared", constant=1, compiled=False)
>>> predictions = learner.learn(x, 3.0 * x[:, 0])
>>> learner.predict([[1004.0, 1.0]]).round().tolist()
[3012.0]
>>> [name for name, share, loss in learner.experts][:2]
['curvature 1, rate 4', 'curvature 10, rate 4']

===================================== =================================================================
:mod:`~giftrl.mixtures.mixture`       the learners: :class:`MixtureLearner`, :class:`MulticlassMixture`
:mod:`~giftrl.mixtures.round`         the compiled loop of one score; ``class_round`` that of K scores
:mod:`~giftrl.mixtures.experts`       the grid, the coin, and later passes; AdaHedge and the Newton stack
:mod:`~giftrl.mixtures.full_matrix`   the expert with a full matrix
:mod:`~giftrl.mixtures.feature_state` the state of features, its place in memory, and scales; ``clip_limits``
:mod:`~giftrl.mixtures.label_units`   the units of labels
:mod:`~giftrl.mixtures.scoring`       the mixture as one linear model
===================================== =================================================================
"""

from giftrl.mixtures.experts import PRESETS
from giftrl.mixtures.label_units import Extended
from giftrl.mixtures.mixture import MixtureLearner, MulticlassMixture

__all__ = ["PRESETS", "Extended", "MixtureLearner", "MulticlassMixture"]
