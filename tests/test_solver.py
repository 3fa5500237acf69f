"""The solver's ways for sparse rows and for many features find the same bounds as those for few."""

import math
import time

import numpy as np
import pytest
import scipy.sparse as sp

from giftrl import losses
from giftrl.certificates import Evidence, solver
from giftrl.certificates import problem as problem_module
from giftrl.certificates.problem import ScaledRows
from tests.best_losses import EVERY, any_model, make

each_loss = pytest.mark.parametrize("loss", EVERY, ids=repr)


SPARSE = {"MAX_SMALL_MATRIX": 0, "MIN_DENSE_SHARE": 2.0}


def bounds(case, radius):
    """The bounds in all units, with half of the rows committed and with none."""
    half = np.arange(len(case.y)) % 2 == 0
    model = any_model(make(case.loss, 8), case.evidence.units()[0], 0.2)
    both = case.evidence, case.evidence.commit(half, case.slopes_at(model)[half])
    return np.array([kept.within(units, radius).lower_bound for kept in both for units in kept.units()])


@pytest.mark.plain
@each_loss
@pytest.mark.parametrize("radius", [0.1, 1.0])
@pytest.mark.parametrize(("sparse", "direct"), [(True, True), (False, False), (True, False)])
def test_every_way_leads_to_the_same_bounds(loss, radius, sparse, direct, monkeypatch):
    case = make(loss, 8)
    expected, size = bounds(case, radius), case.total(case.zero())
    for name, value in SPARSE.items() if sparse else ():
        monkeypatch.setattr(problem_module, name, value)
    if not direct:
        monkeypatch.setattr(solver, "MAX_DIRECT_COORDINATES", 0)
    found, tolerance = bounds(case, radius), 1e-6 if direct else 1e-3
    assert (found <= expected + 1e-6 * np.abs(expected) + 1e-6 * size).all()
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * size)


@pytest.mark.plain
def test_blocks_of_rows_add_up(monkeypatch):
    rng = np.random.default_rng(0)
    kept = Evidence.of_rows("hinge", rng.normal(size=(50, 3)), np.ones(50))
    rows = ScaledRows(kept.rows, kept.units()[0], kept.theta)
    weights = rng.random(50) * (np.arange(50) > 20)
    whole = rows.moments(weights)
    monkeypatch.setattr(problem_module, "MAX_LOOP_FEATURES", 0)
    monkeypatch.setattr(problem_module, "BLOCK_ENTRIES", 21)
    np.testing.assert_allclose(rows.moments(weights), whole, rtol=1e-12)
    np.testing.assert_allclose(whole, (rows.x.T * weights) @ rows.x, rtol=1e-12)


@pytest.mark.plain
@each_loss
def test_the_solver_brackets_the_optimum_also_from_a_model_that_is_too_large(loss):
    case = make(loss, 8)
    units = case.evidence.units()[0]
    problem = case.evidence.problem(units, 10.0)
    zero = np.zeros_like(problem.theta)
    near = solver.solve(problem, zero)
    far = solver.solve(problem, (10.0 / max(1e-9, float(np.linalg.norm(near.z)))) * near.z)
    size = problem.primal(zero, problem.rows.scores(zero))
    for one, other in ((near, far), (far, near)):
        assert one.upper - one.gap <= other.upper + 1e-9 * size and one.gap <= 1e-4 * size


@pytest.mark.plain
def test_a_ridge_with_many_features(monkeypatch):
    case = make(EVERY[0], 3)
    ridge = case.evidence.ridge(0.7).lower_bound
    monkeypatch.setattr(solver, "MAX_DIRECT_COORDINATES", 0)
    assert case.evidence.ridge(0.7).lower_bound == pytest.approx(ridge, rel=1e-5)


def wide(rng, n, d):
    """Sparse rows with many features, of which one is constant, and labels."""
    x = sp.random_array((n, d), density=0.02, rng=rng, format="csr")
    x = sp.csr_array(sp.hstack([x, np.ones((n, 1))]))
    return x, np.where(x @ rng.normal(size=d + 1) + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def test_wide_rows_within_the_time_limit():
    x, y = wide(np.random.default_rng(0), 400, 5000)
    kept = Evidence.of_rows("logistic", x, y, constant=5000)
    model = np.full(5001, 0.01)
    kept.best_loss(model, time_limit=0.0)  # compiles
    begin = time.monotonic()
    soon = kept.best_loss(model, time_limit=0.05)
    assert time.monotonic() - begin < 2.0
    best = kept.best_loss(model, time_limit=20.0)
    assert soon.lower_bound <= best.lower_bound * (1.0 + 1e-9)
    p = x @ model
    assert best.lower_bound <= float(np.logaddexp(0.0, -y * p).sum())
    units = next(units for units in kept.units() if units.name == best.units)
    problem = kept.problem(units, best.radius)
    assert solver.solve(problem, np.zeros_like(problem.theta)).gap <= 1e-6 * best.lower_bound


@pytest.mark.plain
@pytest.mark.parametrize("name", losses.EVERY)
@pytest.mark.parametrize(
    ("rows", "weight", "size"),
    [
        (np.zeros((0, 2)), 1.0, 1.0),
        (np.zeros((3, 2)), 1.0, 1.0),
        (np.ones((3, 2)), 0.0, 1.0),
        (np.full((3, 2), 1e-180), 1.0, 1.0),
        (np.full((3, 2), 1e150), 1.0, 1.0),
        (np.full((3, 2), 1e200), 1.0, 1.0),
        (np.ones((3, 2)), 1e300, 1.0),
        (np.ones((3, 2)), 1.0, 1e300),
    ],
    ids=["empty", "zeros", "weightless", "tiny", "large", "huge", "heavy", "model"],
)
def test_extremes_break_nothing(name, rows, weight, size):
    n, classes = len(rows), 3 if name in losses.MULTICLASS else None
    with np.errstate(over="ignore"):
        kept = Evidence.of_rows(name, rows, [1] * n, [weight] * n, classes=classes, constant=None)
    model = np.zeros(kept.theta.shape)
    model[0, ...] = size * np.arange(3) if classes else size
    best = kept.best_loss(model, time_limit=1.0)
    assert kept.least <= best.lower_bound < math.inf
    if rows.size and rows[0, 0] == 1e-180:  # whose square is 0: every model has the size 0, also those that are right
        assert kept.units()[0].norm(1e190 * model) == 0.0
        assert best.lower_bound == kept.least


def test_a_model_that_is_no_number_is_refused():
    kept = Evidence.of_rows("squared", np.ones((1, 1)), [1.0])
    with pytest.raises(ValueError, match="must be finite"):
        kept.best_loss([math.nan])
    with pytest.raises(ValueError, match="must have the shape"):
        kept.best_loss([1.0, 2.0])
