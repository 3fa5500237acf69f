"""Linear models with a fixed beta, in compiled loops over batches with the formulas of :class:`giftrl.Learner`.

- A *learner* holds the coordinates of its models, a row for each feature, and a few numbers for each model:
  :class:`LinearLearner` one model, :class:`LinearLearners` many in one pass, :class:`MulticlassLearner` K scores.
- A *loop* predicts, accounts and learns, row by row. Its number of models side by side, the *lanes*, is a constant of
  the compiled loop (``lane_loops``): one for one strength for all coordinates, one for a strength of each.
  ``loop_row_copy`` takes one model with any diagonal regularizer, L1 terms included.
- A *round* is the work on one row; ``scalar_round`` has its part that does not depend on features.

>>> learner = LinearLearner(2, "squared", compiled=False)
>>> learner.learn([[1.0, 0.0], [1.0, 1.0]], [1.0, 1.0]).tolist()
[0.0, 0.5]

``base`` is the base of all learners of rows, those of :mod:`giftrl.mixtures` included.
"""

from giftrl.kernels.many_models import LinearLearners
from giftrl.kernels.multiclass_learner import MulticlassLearner
from giftrl.kernels.one_model import LinearLearner

__all__ = ["LinearLearner", "LinearLearners", "MulticlassLearner"]
