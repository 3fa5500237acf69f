"""Settings of learners, and predictors of trained models.

A :class:`Recipe` holds settings, :func:`make` returns the learner that they describe, :func:`freeze` the
:class:`Predictor` of learners, and :class:`Labels` maps labels of classes to those of losses.

>>> import numpy as np
>>> from giftrl.config import Recipe, freeze, make
>>> learner = make(Recipe("poisson", beta=1.0), dimension=1, compiled=False)
>>> _ = learner.learn(np.ones((300, 1)), np.full(300, 2.0))
>>> model = freeze([learner])
>>> model.link.means(model.scores(np.ones((1, 1)))).round(1).tolist()
[[2.0]]
"""

from giftrl.config.predictor import Link, Predictor, freeze
from giftrl.config.recipe import AUTO, Labels, Recipe, make, make_each

__all__ = ["AUTO", "Labels", "Link", "Predictor", "Recipe", "freeze", "make", "make_each"]
