"""Rows beyond the range of float64 in estimators: which row it was, and what is left of the model."""

import contextlib
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from giftrl import schedules
from giftrl.errors import InvalidInput, Overflowed
from giftrl.linear import FTRLClassifier, FTRLRegressor

pytestmark = pytest.mark.plain

STEEP = {"update": "linear", "schedule": schedules.Constant(1e200)}


def rows(n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=n)


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_message_of_fit_names_the_row_of_the_input(targets, weighted):
    x, y = rows()
    weights = np.ones(len(y))
    if weighted:
        weights[::3] = 0.0  # these rows are left out, which moves the others
    x[17] *= 1e180
    y = y if targets == 1 else np.column_stack([y, y])
    with pytest.raises(Overflowed, match=r"row 17 leaves the range of float64;") as problem:
        FTRLRegressor(beta=1.0, update="linear").fit(x, y, sample_weight=weights)
    assert problem.value.row == 17


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("scale", [1e100, 1e160, 1e300])
def test_partial_fit_never_leaves_coefficients_that_are_not_numbers(scale, targets):
    """The rows before the bad one have been learnt, or the estimator must be fitted again."""
    x, y = rows()
    y = y if targets == 1 else np.column_stack([y, y])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for at in range(3):
            model = FTRLRegressor(beta=1.0, update="linear").partial_fit(x, y)
            bad = x.copy()
            bad[at] *= scale
            with contextlib.suppress(Overflowed):
                model.partial_fit(bad, y)
            try:
                predicted = model.predict(x)
            except NotFittedError:
                continue
            assert np.isfinite(predicted).all() and model.t_ >= 41


def test_fit_leaves_the_model_that_was_there():
    x, y = rows()
    model = FTRLRegressor(beta=1.0, update="linear").fit(x, y)
    before = model.predict(x)
    with pytest.raises(Overflowed):
        model.fit(1e200 * x, y)
    np.testing.assert_array_equal(model.predict(x), before)


def test_balanced_weights_need_no_help_and_name_a_class_without_weight():
    x, y = rows()
    labels = np.where(np.arange(len(y)) % 4 == 0, "rare", "usual")
    weights = np.linspace(0.0, 2.0, len(y))
    sums = {label: weights[labels == label].sum() for label in ("rare", "usual")}
    factors = {label: weights.sum() / (2.0 * total) for label, total in sums.items()}
    one = FTRLClassifier(class_weight="balanced").fit(x, labels, sample_weight=weights)
    other = FTRLClassifier(class_weight=factors).fit(x, labels, sample_weight=weights)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-12)
    with pytest.raises(
        InvalidInput, match=r"class_weight='balanced': needs rows of positive weight .*'rare'.* has none"
    ):
        FTRLClassifier(class_weight="balanced").fit(x, labels, sample_weight=(labels == "usual") * 1.0)
