"""Every check that scikit-learn has for the estimators of others."""

import pytest
from sklearn.base import is_classifier
from sklearn.utils.estimator_checks import check_class_weight_classifiers, parametrize_with_checks

from giftrl.linear import FTRLClassifier, FTRLRegressor

#: The checks that cannot pass, and why. They are strict: one that is listed here and passes is an error.
IMPOSSIBLE = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "they shuffle the weighted rows, leave the repeated ones in order and ask for the same model, and what an online "
    "learner learns depends on the order; test_estimators.py has what does hold: a row of weight 0 is no row, and, for "
    "importance-aware updates at a fixed regularizer, one of weight k is k rows",
)
#: A mixture, whose experts learn at many rates, passes this one too.
IN_ONE_PASS = {
    "check_class_weight_classifiers": "asks 50 rows of norm 30 for an intercept against all of them, and gives other "
    "estimators 1,000 passes for it (max_iter, n_iter); one pass is not enough, and with passes=100 the check passes"
}


def impossible(estimator):
    single = is_classifier(estimator) and estimator.beta != "auto" and estimator.passes == 1
    return IMPOSSIBLE | (IN_ONE_PASS if single else {})


@pytest.mark.plain
@parametrize_with_checks([FTRLClassifier(), FTRLRegressor(beta=1.0)], expected_failed_checks=impossible)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


@pytest.mark.verify
@parametrize_with_checks(
    [
        FTRLRegressor(),
        FTRLClassifier("softmax"),
        FTRLClassifier(beta=1.0),
        FTRLClassifier("softmax", beta=1.0, passes=100, validation_fraction=0.0),
    ],
    expected_failed_checks=impossible,
)
def test_scikit_learn_accepts_the_others(estimator, check):
    check(estimator)


@pytest.mark.plain
def test_many_passes_find_the_intercept_that_one_does_not():
    check_class_weight_classifiers("FTRLClassifier", FTRLClassifier(beta=1.0, passes=100, validation_fraction=0.0))
