"""What the estimators do when nothing is said: defaults that do not mislead."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import giftrl
from giftrl.linear import FTRLClassifier
from tests.test_estimators import WINE, same

pytestmark = pytest.mark.plain


def test_rows_that_are_sorted_by_label_are_learnt_as_well():
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:400]
    rows = rows[np.argsort(y[rows], kind="stable")]
    model = FTRLClassifier(beta=1.0).fit(X[rows] / 16.0, y[rows])
    assert model.score(X / 16.0, y) > 0.8
    same(model, FTRLClassifier(beta=1.0).fit(X[rows] / 16.0, y[rows]))  # the order is the same every time
    assert FTRLClassifier(beta=1.0, shuffle=False).fit(X[rows] / 16.0, y[rows]).score(X / 16.0, y) < 0.2


def test_three_classes_are_softmax_and_two_are_logistic():
    X, y = WINE[0][::4], WINE[1][::4]
    for beta in ("auto", 1.0):
        same(FTRLClassifier(beta=beta).fit(X, y), FTRLClassifier("softmax", beta=beta).fit(X, y))
        two = FTRLClassifier(beta=beta).fit(X, y == 1)
        same(two, FTRLClassifier("logistic", beta=beta).fit(X, y == 1))
    assert isinstance(FTRLClassifier().partial_fit(X, y, classes=[0, 1, 2]).certificate_, giftrl.Certificate)
    assert FTRLClassifier().fit(X, y).predict_proba(X).shape == (len(y), 3)
