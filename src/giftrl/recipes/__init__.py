"""Which learner do these settings mean, and what does it predict? Asked by training, the estimators and the adapters.

>>> import numpy as np
>>> from giftrl.recipes import Recipe, freeze, make
>>> learner = make(Recipe("poisson", beta=1.0), dimension=1, compiled=False)
>>> _ = learner.learn(np.ones((300, 1)), np.full(300, 2.0))
>>> model = freeze([learner])
>>> model.link.means(model.scores(np.ones((1, 1)))).round(1).tolist()
[[2.0]]
"""

from giftrl.recipes.labels import Labels
from giftrl.recipes.learners import make, make_each
from giftrl.recipes.predictor import Link, Predictor, freeze
from giftrl.recipes.recipe import AUTO, Recipe

__all__ = ["AUTO", "Labels", "Link", "Predictor", "Recipe", "freeze", "make", "make_each"]
