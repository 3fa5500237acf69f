"""Linear models with a fixed beta: compiled loops over batches with the formulas of :class:`giftrl.Learner`.

- A *learner* holds the coordinates of its models, a row for each feature, and a few numbers for each model:
  :class:`LinearLearner` one model, :class:`LinearLearners` many in one pass, :class:`MulticlassLearner` K scores.
- A *loop* predicts, updates sums and learns, row by row. The number of models in parallel, the *lanes*, is a
compile-time constant (``lane_loops``): a loop for a common strength, and one for a strength per coordinate.
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
