"""Compiled loops over batches for linear models, from the same formulas as :class:`giftrl.Learner`."""

from giftrl.kernels.engine import LinearLearner, LinearLearners
from giftrl.kernels.multiclass import MulticlassLearner

__all__ = ["LinearLearner", "LinearLearners", "MulticlassLearner"]
