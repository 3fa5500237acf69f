"""Compiled loops over batches for linear models, from the same formulas as :class:`giftrl.Learner`."""

from giftrl.kernels.many_models import LinearLearners
from giftrl.kernels.multiclass_learner import MulticlassLearner
from giftrl.kernels.one_model import LinearLearner

__all__ = ["LinearLearner", "LinearLearners", "MulticlassLearner"]
