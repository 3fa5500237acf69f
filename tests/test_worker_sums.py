"""Merged records of workers: however rows are split and whenever they are merged, no bound is above the optimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl.certificates import RowReservoir, moments
from giftrl.certificates import row_record as at
from giftrl.certificates.worker_sums import WorkerSums, begin_round, gather
from giftrl.compiled.rows import as_rows
from tests.best_losses import EVERY, any_model, make
from tests.test_best_loss import below

pytestmark = pytest.mark.plain
each_loss = pytest.mark.parametrize("loss", EVERY, ids=repr)
few = settings(max_examples=max(4, settings.default.max_examples // 10))
seeds = st.integers(0, 10**6)
budgets = st.just(0) | st.integers(1, 60) | st.just(10**6)
#: Rounds: how many rows each worker gets, and how many the driver learns itself afterwards.
schedules = st.lists(
    st.tuples(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 3)), min_size=1, max_size=6
)


def remembering(case, budget):
    return RowReservoir(
        case.loss, case.x.shape[1], budget, classes=case.classes, constant=case.evidence.constant, compiled=False
    )


def add(reservoir, case, scores, part):
    """Let reservoir remember rows of a case."""
    if part.stop > part.start:
        rows = as_rows(case.x[part], case.x.shape[1])[0]
        reservoir.add(rows, case.y[part], case.h[part], scores[part])


def merged(case, scores, budget, schedule, turned=False, rest=True):
    """The reservoir of a driver whose workers have learnt the rows by a schedule; the driver learns the rest."""
    driver = remembering(case, budget)
    workers = [remembering(case, budget) for _ in range(4)]
    n, done, features = len(case.y), 0, np.arange(case.x.shape[1])
    for sizes, window in schedule:
        state, every = WorkerSums.of(driver, features), []
        for worker, size in zip(workers, sizes, strict=False):
            part = slice(min(n, done), min(n, done + size))
            begin_round(worker, state, done)
            add(worker, case, scores, part)
            if part.stop > part.start:
                every.append(WorkerSums.of_worker(worker, features, done))
            done = part.stop
        if every:
            gather(driver, every[::-1] if turned else every)
        add(driver, case, scores, slice(done, min(n, done + window)))
        done = min(n, done + window)
    if rest:
        add(driver, case, scores, slice(done, n))
    return driver


def scores_for(case):
    """Predictions of some model: bounds hold for any."""
    u = case.rng.normal(size=case.evidence.theta.shape)
    return case.x @ u


@pytest.mark.sample(3)
@each_loss
@few
@given(
    seed=seeds, budget=budgets, schedule=schedules, constant=st.booleans(), scale=st.floats(0.1, 10.0),
    many=st.booleans(),
)  # fmt: skip
def test_no_bound_is_above_the_optimum(loss, seed, budget, schedule, constant, scale, many):
    case = make(loss, seed, n=30, constant=constant)
    model = case.rng.normal(size=case.evidence.theta.shape)
    with pytest.MonkeyPatch.context() as patch:
        if many:  # so that second moments of the squared loss have to be committed
            patch.setattr("giftrl.certificates.worker_sums.MAX_FEATURES", 2)
            patch.setattr(moments, "MAX_FEATURES", 2)
        reservoir = merged(case, scores_for(case), budget, schedule)
        evidence = reservoir.evidence(0.0, model, merged=True)
        best = evidence.best_loss(model[evidence.features], scale)
    assert best.rows == 30 and best.weight == pytest.approx(case.h.sum())
    assert reservoir.rows == 30 and reservoir.record.sums[at.STORED_COST] <= budget
    for units in evidence.units():
        found = evidence.within(units, scale * units.norm(model[evidence.features]))
        full = case.evidence.units()[0 if units.name.startswith("standardised") else -1]
        assert below(found.lower_bound, case.best(full, found.radius)[0])
    if budget == 10**6:
        twin = case.evidence.best_loss(model, scale)
        assert best.rows_kept == 30
        assert best.lower_bound == pytest.approx(twin.lower_bound, rel=1e-6, abs=1e-6 * case.total(case.zero()))
    going_on = remembering(case, budget)
    going_on.restore(reservoir.state())
    assert going_on.rows == 30


@pytest.mark.sample(3)
@each_loss
@few
@given(
    seed=seeds, budget=st.integers(0, 60), schedule=schedules, orders=st.sampled_from([0.0, 4.0, 9.0]),
    scale=st.floats(0.1, 10.0),
)  # fmt: skip
def test_in_exact_arithmetic_no_model_is_below_the_bound(loss, seed, budget, schedule, orders, scale):
    case = make(loss, seed, n=30, orders=orders)
    with np.errstate(all="ignore"):
        model = case.rng.normal(size=case.evidence.theta.shape)
        evidence = merged(case, scores_for(case), budget, schedule).evidence(0.0, model, merged=True)
        if len(evidence.features) < case.x.shape[1]:
            return
        for units in evidence.units():
            found = evidence.within(units, scale * units.norm(model))
            for u in (model, any_model(case, units, found.radius or 1.0), case.zero()):
                assert found.lower_bound <= case.exact(u, units, found.radius)


@pytest.mark.sample(3)
@each_loss
@few
@given(seed=seeds, sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4))
def test_the_order_of_workers_does_not_matter_to_sums(loss, seed, sizes):
    case = make(loss, seed, n=30)
    scores = scores_for(case)
    one, other = (merged(case, scores, 0, [(sizes, 0)], turned, rest=False).record for turned in (False, True))
    assert one.sums[at.EXAMPLE_COUNT] == sum(sizes) and one.sums[at.COMMITTED_COUNT] > 0.0
    for name in ("by_feature", "sums"):
        ours, theirs = getattr(one, name), getattr(other, name)
        size = np.abs(np.where(np.isfinite(ours), ours, 0.0)).max(initial=1e-300)
        assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-12 * size)
