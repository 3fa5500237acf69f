"""The estimators: linear models for pipelines of scikit-learn.

>>> import numpy as np
>>> from giftrl.linear import FTRLRegressor
>>> model = FTRLRegressor().fit(np.ones((1000, 1)), np.full(1000, 5.0))
>>> round(float(model.predict([[1.0]])[0]), 2)
5.0
"""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the estimators need scikit-learn; pip install 'giftrl[sklearn]', or use giftrl.kernels.LinearLearner"
    ) from error

from giftrl.linear.classifier import FTRLClassifier
from giftrl.linear.regressor import FTRLRegressor

__all__ = ["FTRLClassifier", "FTRLRegressor"]
