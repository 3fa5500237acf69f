"""The bound on the best loss on real data: as high as the least loss, which other programs found."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from giftrl.certificates import Evidence
from giftrl.certificates.solver import solve

FOLDER = os.environ.get("GIFTRL_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="GIFTRL_DATA does not name a folder with the data sets")


def load(name):
    """A data set with a constant feature at the end; two classes as -1 and +1."""
    from sklearn.datasets import load_svmlight_file

    x, y = load_svmlight_file(str(Path(FOLDER) / f"{name}.gz"))
    values = np.unique(y)
    y = np.where(y == values[1], 1.0, -1.0) if len(values) == 2 else y
    return sp.csr_array(sp.hstack([x, np.ones((x.shape[0], 1))])), y


#: The least average loss of all linear models, and a size in feature units with the least loss for it.
OPTIMA = [
    ("australian", "logistic", 0.30722103, 7.7530, 0.30722845),
    ("german.numer", "logistic", 0.46766729, 4.0322, 0.46782612),
    ("splice", "logistic", 0.35390067, 5.6556, 0.35836527),
    ("splice", "hinge", 0.37233856, 4.1210, 0.37602283),
    ("abalone", "squared", 2.41453016, 14.4374, 2.41453016),
    ("abalone", "absolute", 1.5461024, 12.0458, 1.5464915),
    pytest.param("phishing", "logistic", 0.14159665, 5.2462, 0.14159892, marks=pytest.mark.verify),
]


@pytest.mark.parametrize(("name", "loss", "free", "radius", "within"), OPTIMA)
def test_all_rows_kept(name, loss, free, radius, within):
    x, y = load(name)
    kept = Evidence.of_rows(loss, x, y, constant=x.shape[1] - 1)
    centred, plain = kept.units()
    assert kept.within(plain, radius).average == pytest.approx(within, rel=1e-5)
    for units in (centred, plain):
        begin = time.monotonic()
        best = kept.within(units, 10.0 * radius)
        assert best.average == pytest.approx(free, rel=1e-6)
        assert time.monotonic() - begin < 30.0


def test_the_constrained_optimum_of_another_program():
    x, y = load("australian")
    kept = Evidence.of_rows("logistic", x, y, constant=x.shape[1] - 1)
    for units in kept.units():
        a = x @ units.model(np.eye(x.shape[1]))

        def both(z, a=a):
            margin = y * (a @ z)
            return np.logaddexp(0.0, -margin).mean(), -(a.T @ (y / (1.0 + np.exp(margin)))) / len(y)

        ball = {"type": "ineq", "fun": lambda z: 4.0 - z @ z, "jac": lambda z: -2.0 * z}
        options = {"ftol": 1e-14, "maxiter": 500}
        found = minimize(both, np.zeros(a.shape[1]), jac=True, constraints=ball, method="SLSQP", options=options)
        assert kept.within(units, 2.0).average == pytest.approx(found.fun, rel=1e-6)


def softmax(p, y):
    """The mean loss of scores."""
    return (
        np.log(np.exp(p - p.max(axis=1, keepdims=True)).sum(axis=1)) + p.max(axis=1) - p[np.arange(len(y)), y]
    ).mean()


def multiclass_hinge(p, y):
    """The mean loss of scores."""
    others = 1.0 + p - p[np.arange(len(y)), y][:, None]
    others[np.arange(len(y)), y] = 0.0
    return others.max(axis=1).mean()


@pytest.mark.parametrize("loss", [softmax, pytest.param(multiclass_hinge, marks=pytest.mark.verify)])
def test_several_classes(loss):
    x, y = load("segment.scale")
    y = np.unique(y, return_inverse=True)[1]
    kept = Evidence.of_rows(loss.__name__, x, y, classes=7, constant=x.shape[1] - 1)
    units = kept.units()[0]
    problem, z = kept.problem(units, 5.0), kept.theta.copy()
    z[problem.rows.features] = solve(problem, z[problem.rows.features]).z
    model = units.model(z)
    assert units.norm(model) == pytest.approx(5.0)
    bound, paid = kept.within(units, 5.0, time_limit=30.0).average, loss(x @ model, y)
    assert bound <= paid * (1.0 + 1e-12)
    assert bound == pytest.approx(paid, rel=1e-6)
