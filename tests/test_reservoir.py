"""Stored examples and sums: no bound is above the optimum, no split of rows matters, no hostile number does harm."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from giftrl import losses
from giftrl.certificates import RowReservoir, moments
from giftrl.certificates import row_record as at
from giftrl.certificates.reservoir import chance
from giftrl.compiled.rows import as_rows
from giftrl.errors import AssumptionFailed, InvalidInput
from giftrl.kernels import LinearLearner, LinearLearners, MulticlassLearner
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.mixture import MulticlassMixture
from giftrl.ops.vector_loss import multiclass
from tests.best_losses import EVERY, any_model, make
from tests.test_best_loss import below

pytestmark = pytest.mark.plain
each_loss = pytest.mark.parametrize("loss", EVERY, ids=repr)
few = settings(max_examples=max(4, settings.default.max_examples // 10))
seeds = st.integers(0, 10**6)
budgets = st.just(1) | st.integers(1, 60)


def learner_for(case, budget, auto=True, compiled=False):
    """A learner of the examples of a case that stores some."""
    d, constant = case.x.shape[1], case.evidence.constant
    kinds = (MixtureLearner, MulticlassMixture) if auto else (LinearLearner, MulticlassLearner)
    own = {"constant": constant} if auto else {}
    sizes = (d,) if case.classes is None else (d, case.classes)
    made = kinds[len(sizes) - 1](*sizes, case.loss, compiled=compiled, **own)
    made.keep_witnesses(budget, constant)
    return made


def storing(budget, d=1, loss="squared", constant=None, **settings):
    """A learner that stores examples."""
    made = LinearLearner(d, loss, compiled=False, **settings)
    made.keep_witnesses(budget, constant)
    return made


def learn(learner, case, sizes=()):
    """Learn all rows, in batches of these sizes and then the rest."""
    first = 0
    for size in [*sizes, len(case.y)]:
        last = min(len(case.y), first + size)
        if last > first:
            learner.learn(case.x[first:last], case.y[first:last], case.h[first:last])
        first = last
    return learner


def bounds_hold(case, evidence, model, scale):
    """No bound is above the optimum, by CVXPY, for models of up to a multiple of a model's size."""
    for units in evidence.units():
        found = evidence.within(units, scale * units.norm(model))
        full = next(each for each in case.evidence.units() if each.name == units.name)
        assert below(found.lower_bound, case.best(full, found.radius)[0])


def bounds_hold_exactly(case, evidence, model, scale):
    """No bound is above the loss of any model, in exact arithmetic."""
    if len(evidence.features) < case.x.shape[1] or not np.isfinite(model).all():
        return
    for units in evidence.units():
        found = evidence.within(units, scale * units.norm(model))
        for u in (model, any_model(case, units, found.radius or 1.0), case.zero()):
            assert found.lower_bound <= case.exact(u, units, found.radius)


def nearly(case, bound, twin):
    """Equality of two bounds up to the accuracy of the solver."""
    return bound == pytest.approx(twin, rel=1e-6, abs=1e-6 * case.total(case.zero()))


def same(one, other):
    """Equality of two states bit by bit."""
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.mark.sample(3)
@each_loss
@few
@given(
    seed=seeds, budget=budgets, auto=st.booleans(), constant=st.booleans(), n=st.integers(1, 30),
    scale=st.floats(0.1, 10.0),
)  # fmt: skip
def test_no_bound_is_above_the_optimum(loss, seed, budget, auto, constant, n, scale):
    case = make(loss, seed, n, constant=constant)
    learner = learn(learner_for(case, budget, auto), case)
    best, evidence = learner.certificate.best_loss(scale), learner.certificate.evidence
    bounds_hold(case, evidence, learner.x[evidence.features], scale)
    assert best.lower_bound >= evidence.least
    assert best.rows == n and best.rows_kept <= n
    assert best.weight == pytest.approx(case.h.sum())
    assert best.loss_sum == learner.certificate.loss_sum


@pytest.mark.sample(3)
@each_loss
@few
@given(seed=seeds, budget=budgets, orders=st.sampled_from([0.0, 4.0, 9.0]), scale=st.floats(0.1, 10.0))
def test_in_exact_arithmetic_no_model_is_below_the_bound(loss, seed, budget, orders, scale):
    """Sums of numbers of many orders of magnitude: what rounding does to them has been subtracted."""
    case = make(loss, seed, n=30, orders=orders)
    with np.errstate(all="ignore"):
        evidence = learn(learner_for(case, budget), case).certificate.evidence
        bounds_hold_exactly(case, evidence, evidence.model, scale)


@pytest.mark.sample(3)
@each_loss
@few
@given(seed=seeds, auto=st.booleans(), constant=st.booleans(), scale=st.floats(0.1, 10.0))
def test_within_the_budget_the_bound_is_that_of_all_rows(loss, seed, auto, constant, scale):
    case = make(loss, seed, constant=constant)
    learner = learn(learner_for(case, 10**6, auto), case)
    best, twin = learner.certificate.best_loss(scale), case.evidence.best_loss(learner.x, scale)
    assert best.rows_kept == best.rows == len(case.y)
    assert nearly(case, best.lower_bound, twin.lower_bound)


@pytest.mark.sample(3)
@each_loss
@few
@given(seed=seeds, budget=budgets, auto=st.booleans(), sizes=st.lists(st.integers(1, 9), max_size=6))
def test_any_split_and_any_pause_lead_to_the_same_bits(loss, seed, budget, auto, sizes):
    case = make(loss, seed, n=25)
    whole = learn(learner_for(case, budget, auto), case)
    assert same(learn(learner_for(case, budget, auto), case, sizes).state(), whole.state())
    part = learner_for(case, budget, auto)
    first = min(len(case.y), sum(sizes))
    if first:
        part.learn(case.x[:first], case.y[:first], case.h[:first])
    going_on = learner_for(case, budget, auto)
    going_on.restore(part.state())
    for other in (going_on, copy.deepcopy(part), pickle.loads(pickle.dumps(part))):
        if first < len(case.y):
            other.learn(case.x[first:], case.y[first:], case.h[first:])
        assert same(other.state(), whole.state())


@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_dense_rows_sparse_rows_and_single_rows_are_remembered_alike(auto, form):
    case = make(losses.Logistic(), 1, n=40)
    case.h[:] = 1.0
    whole = learn(learner_for(case, 50, auto), case)
    rows, one = form(case.x), learner_for(case, 50, auto)
    for i in range(len(case.y)):
        one.learn(rows[[i]], case.y[[i]])
    assert same(one.witnesses.state(), whole.witnesses.state())


@pytest.mark.sample(3)
@each_loss
@few
@given(
    seed=seeds, budget=budgets, other=st.sampled_from([1, 10**6]), share=st.floats(0.0, 1.0), scale=st.floats(0.1, 10.0)
)
def test_the_certificate_of_two_runs_is_about_the_rows_of_both(loss, seed, budget, other, share, scale):
    case = make(loss, seed, n=20)
    half = round(share * 20)
    parts = [learner_for(case, each) for each in (budget, other)]
    for part, rows in zip(parts, (slice(0, half), slice(half, 20)), strict=True):
        if half not in (0, 20) or rows.stop > rows.start:
            part.learn(case.x[rows], case.y[rows], case.h[rows])
    merged = parts[0].certificate.merge(parts[1].certificate)
    best, evidence = merged.best_loss(scale), merged.evidence
    assert best.rows == 20
    bounds_hold(case, evidence, evidence.model[evidence.features], scale)
    if best.rows_kept == 20:
        twin = case.evidence.best_loss(evidence.model, scale)
        assert nearly(case, best.lower_bound, twin.lower_bound)


@few
@given(seed=seeds, budget=st.integers(4, 60), constant=st.booleans(), auto=st.booleans())
def test_second_moments_of_the_squared_loss_lose_nothing(seed, budget, constant, auto):
    case = make(losses.Squared(), seed, n=60, constant=constant)
    learner = learn(learner_for(case, budget, auto), case)
    if budget < np.count_nonzero(case.x) + 60:
        assert learner.witnesses.moments is not None and learner.witnesses.stored < 60
    best, twin = learner.certificate.best_loss(2.0), case.evidence.best_loss(learner.x, 2.0)
    assert best.rows_kept == best.rows == 60
    assert nearly(case, best.lower_bound, twin.lower_bound)


@few
@given(seed=seeds, constant=st.booleans(), late=st.integers(0, 50))
def test_second_moments_are_committed_when_features_become_many(seed, constant, late):
    rng = np.random.default_rng(seed)
    n, d = 60, 9
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    x[:late, 4:] = 0.0
    x[:, 0] = 1.0
    y = x @ rng.normal(size=d) + rng.normal(size=n)
    learner = MixtureLearner(d, "squared", constant=0 if constant else None, compiled=False)
    learner.keep_witnesses(25, 0 if constant else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "MAX_FEATURES", 5)
        learner.learn(x, y)
        best = learner.certificate.best_loss(3.0)
    optimum = 0.5 * np.linalg.lstsq(x, y)[1].sum()
    assert best.rows == n
    assert best.lower_bound >= 0.0
    free, evidence = np.linalg.lstsq(x, y)[0], learner.certificate.evidence
    if all(units.norm(free) <= 3.0 * units.norm(learner.x) for units in evidence.units()):
        assert below(best.lower_bound, optimum * (1.0 + 1e-9))


def test_what_is_kept_fills_the_budget_and_prefers_curvature():
    rng = np.random.default_rng(0)
    witnesses = RowReservoir(losses.Logistic(), 1, 500, compiled=False)
    rows, scores = np.ones((5000, 1)), rng.choice([0.0, 6.0], 5000)
    witnesses.add(as_rows(rows, 1)[0], np.ones(5000), np.zeros(0), scores)
    assert 0.6 * 500 <= 2 * witnesses.stored <= 500 and witnesses.rows == 5000  # a nonzero, and 1 for the row
    kept = witnesses.record.scores[: witnesses.stored, 0]
    assert (kept == 0.0).mean() > 0.9  # the curvature at 6 is a hundredth of that at 0
    assert witnesses.record.sums[at.COMMITTED_COUNT] == 5000 - witnesses.stored


def test_chances_are_uniform_and_differ():
    u = np.array([chance(number) for number in range(20_000)] + [chance(k << 32) for k in range(1, 1000)])
    assert ((u > 0.0) & (u < 1.0)).all() and len(np.unique(u)) > 0.99 * len(u)
    assert abs(u.mean() - 0.5) < 0.01 and abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.02
    counts = np.histogram(u, 20, (0.0, 1.0))[0]
    assert counts.min() > 0.9 * len(u) / 20


def test_evidence_stays_as_it_is_when_more_rows_are_learnt():
    case = make(losses.Hinge(), 3, n=60)
    learner = learner_for(case, 40)
    learner.learn(case.x[:30], case.y[:30])
    certificate = learner.certificate
    twin = copy.deepcopy(certificate).best_loss()
    learner.learn(case.x[30:], case.y[30:])
    assert certificate.best_loss() == twin and twin.rows == 30
    assert learner.certificate.best_loss().rows == 60


@each_loss
@pytest.mark.parametrize("budget", [1, 20, 1000])
def test_hostile_numbers_are_survived(loss, budget):
    case = make(loss, 5, n=30, orders=150.0)
    learner = learn(learner_for(case, budget), case)
    with np.errstate(all="ignore"):
        best = learner.certificate.best_loss()
    assert not math.isnan(best.lower_bound) and best.lower_bound >= learner.certificate.evidence.least
    assert best.in_words()


@each_loss
@pytest.mark.parametrize("budget", [1, 30])
def test_compiled_and_plain_loops_agree(loss, budget):
    case = make(loss, 7, n=40)
    plain, fast = (learn(learner_for(case, budget, False, each), case).witnesses.state() for each in (False, True))
    for name in plain:
        assert plain[name] == pytest.approx(fast[name], rel=1e-6, abs=1e-9), name


def test_many_models_share_a_budget_and_have_a_certificate_each():
    case = make(losses.Logistic(), 2, n=50)
    labels = np.column_stack([case.y, -case.y])
    many = LinearLearners(case.x.shape[1], [("proximal", "temporal")] * 2, "logistic", compiled=False)
    many.keep_witnesses(60, case.evidence.constant)
    many.learn(case.x, labels, case.h)
    for m, certificate in enumerate(many.certificates):
        alone = storing(30, case.x.shape[1], "logistic", case.evidence.constant)
        alone.learn(case.x, labels[:, m], case.h)
        twin = alone.certificate.best_loss()
        assert certificate.best_loss().lower_bound == pytest.approx(twin.lower_bound, rel=1e-6)


def test_rows_of_weight_0_and_of_later_passes_are_not_remembered():
    case = make(losses.Squared(), 2, n=20)
    case.h[::2] = 0.0
    for auto in (True, False):
        learner = learn(learner_for(case, 100, auto), case)
        assert learner.witnesses.rows == 10
    mixture = learn(learner_for(case, 100), case)
    mixture.repeat()
    learn(mixture, case)
    mixture.settle()
    assert mixture.witnesses.rows == 10


@pytest.mark.parametrize("nonzeros", [0, None])
def test_without_witnesses_best_loss_says_what_to_do(nonzeros):
    learner = storing(nonzeros)
    learner.learn([[1.0]], [1.0])
    with pytest.raises(AssumptionFailed, match="witness_nonzeros"):
        learner.certificate.best_loss()


@pytest.mark.parametrize("nonzeros", [-1, 1.5, "many", True, 2**40])
def test_a_budget_is_a_whole_number(nonzeros):
    with pytest.raises(InvalidInput, match="witness_nonzeros"):
        storing(nonzeros)


IMPOSSIBLE_SUMS = [
    (at.STORED_COUNT, 1e9),
    (at.COMMITTED_COUNT, 1e300),
    (at.COMMITTED_COUNT, 0.5),
    (at.COMMITTED_WEIGHT, -1.0),
    (at.EXAMPLE_COUNT, math.nan),
]
DAMAGE = {
    "indices": [lambda a: a.__setitem__(0, 99)],
    "ends": [lambda a: a.__setitem__(1, -5)],
    "weights": [lambda a: a.__setitem__(0, -1.0)],
    "sums": [lambda a, entry=entry, value=value: a.__setitem__(entry, value) for entry, value in IMPOSSIBLE_SUMS],
    "keys": [lambda a: a.__setitem__(0, math.nan)],
    "data": [lambda a: a.__setitem__(0, math.inf)],
}


@pytest.mark.parametrize("budget", [1, 60])
@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Softmax(), losses.Squared()], ids=repr)
def test_a_damaged_state_is_refused(loss, budget):
    case = make(loss, 1, n=40)
    learner = learn(learner_for(case, budget), case)
    state = learner.state()
    for name in (each for each in state if each.startswith("witnesses.")):
        short = name.removeprefix("witnesses.")
        if len(state[name]) == 0 or (short == "ends" and budget == 1):  # no row, no end
            continue
        ways = [lambda bad, name=name: bad.update({name: bad[name][1:]})]
        if name != "witnesses.summed.features":
            ways.append(lambda bad, name=name: bad.pop(name))
        ways += [lambda bad, name=name, damage=damage: damage(bad[name]) for damage in DAMAGE.get(short, ())]
        if short == "labels" and multiclass(loss):
            ways.append(lambda bad, name=name: bad[name].__setitem__(0, 17))
        for way in ways:
            bad = {key: array.copy() for key, array in state.items()}
            way(bad)
            with pytest.raises((InvalidInput, KeyError)):
                learner_for(case, budget).restore(bad)


def test_sums_beyond_float64_void_the_certificate_and_nothing_else():
    rng = np.random.default_rng(0)
    x = np.zeros((60, 80))
    x[:, :3] = rng.normal(size=(60, 3))
    learner = MixtureLearner(80, "squared", compiled=False)
    learner.keep_witnesses(100)
    learner.learn(x, rng.normal(size=60) * 1e160)
    learner.learn(rng.normal(size=(5, 80)), rng.normal(size=5) * 1e160)
    assert learner.rounds == learner.witnesses.rows == 65
    assert learner.certificate.best_loss().lower_bound == 0.0
    assert learner.certificate.best_ridge_loss(1.0).lower_bound == 0.0
    heavy = storing(1000, loss="poisson", dtype="float64")
    heavy.witnesses.add(as_rows(np.ones((30, 1)), 1)[0], np.full(30, 3.0), np.full(30, 1e308), np.zeros(30))
    assert heavy.certificate.best_loss().lower_bound == -math.inf


@pytest.mark.parametrize("budget", [20, 1000])
@pytest.mark.parametrize(("size", "weight"), [(1e-160, 1e290), (1.0, 1e-150), (1e-160, 1e-150)])
def test_numbers_that_underflow_prove_nothing_wrong(budget, size, weight):
    rng = np.random.default_rng(0)
    x, y, h = rng.normal(size=(30, 3)), rng.normal(size=30) * size, np.full(30, weight)
    x[:, 0] = 1.0
    for loss in ("squared", "absolute")[: 1 if weight > 1.0 else 2]:  # a step of the other overflows
        learner = storing(budget, 3, loss, 0, dtype="float64")
        learner.learn(x, y, h)
        for scale in (1.0, 1e-10):
            bound = learner.certificate.best_loss(scale).lower_bound
            of_zero = sum(Fraction(w) * (Fraction(v) ** 2 / 2 if loss == "squared" else abs(Fraction(v)))
                          for v, w in zip(y.tolist(), h.tolist(), strict=True))  # fmt: skip
            assert Fraction(bound) <= of_zero


def test_features_too_small_to_square_do_not_void_the_certificate():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=200), np.eye(200)[:, 0] * 1e-170, np.ones(200)])
    for loss, y in (("squared", rng.normal(size=200)), ("logistic", np.sign(rng.normal(size=200)))):
        for budget in (1, 100, 10_000):
            learner = MixtureLearner(3, loss, constant=2, compiled=False)
            learner.keep_witnesses(budget, 2)
            learner.learn(x, y)
            assert learner.certificate.best_loss().lower_bound > 0.0


def test_rows_without_nonzeros_do_not_fill_the_memory():
    for budget, loss in ((1, "squared"), (100, "logistic")):
        learner = storing(budget, 3, loss)
        learner.learn(np.zeros((500, 3)), np.ones(500))
        assert learner.witnesses.stored <= budget and learner.witnesses.rows == 500


def test_a_run_beats_nobody_by_rounding():
    learner = storing(10**5, loss="logistic")
    learner.learn(np.zeros((3000, 1)), np.where(np.arange(3000) % 2, 1.0, -1.0))
    best = learner.certificate.best_loss()
    assert best.regret >= 0.0 and "beat" not in best.in_words()


def test_many_models_go_on_from_a_state():
    case = make(losses.Logistic(), 2, n=50)
    settings = case.x.shape[1], [("proximal", "temporal")] * 2, "logistic"
    whole, first, second = (LinearLearners(*settings, compiled=False) for _ in range(3))
    for each in (whole, first, second):
        each.keep_witnesses(60, case.evidence.constant)
    whole.learn(case.x, case.y)
    first.learn(case.x[:30], case.y[:30])
    second.restore(first.state())
    second.learn(case.x[30:], case.y[30:])
    assert same(second.state(), whole.state())
    with pytest.raises(InvalidInput, match="before the first row"):
        whole.keep_witnesses(10)


def test_before_the_first_row_and_with_no_weights_there_are_words():
    learner = storing(10)
    assert learner.certificate.in_words() == "No examples have been learned."
    learner.learn([[1.0]], [2.0])
    assert "with all weights 0" in learner.certificate.best_loss(0.0).in_words()


@pytest.mark.parametrize("limit", [None, "1", -1.0, math.nan])
def test_a_time_limit_is_a_number(limit):
    with pytest.raises(InvalidInput, match="time_limit"):
        storing(10).certificate.best_loss(time_limit=limit)


# Merged records of workers, however rows are split and whenever they are merged.

#: Rounds: how many rows each worker gets, and how many the driver learns itself afterwards.
rounds = st.lists(
    st.tuples(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 3)), min_size=1, max_size=6
)


def remembering(case, budget):
    return RowReservoir(
        case.loss, case.x.shape[1], budget, classes=case.classes, constant=case.evidence.constant, compiled=False
    )


def remember(reservoir, case, scores, part):
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
        state, every = driver.sums_at(features), []
        for worker, size in zip(workers, sizes, strict=False):
            part = slice(min(n, done), min(n, done + size))
            worker.begin_round(state, done)
            remember(worker, case, scores, part)
            if part.stop > part.start:
                every.append(worker.reply(features, done))
            done = part.stop
        if every:
            driver.gather(every[::-1] if turned else every)
        remember(driver, case, scores, slice(done, min(n, done + window)))
        done = min(n, done + window)
    if rest:
        remember(driver, case, scores, slice(done, n))
    return driver


def scores_for(case):
    """Predictions of some model: bounds hold for any."""
    u = case.rng.normal(size=case.evidence.theta.shape)
    return case.x @ u


@pytest.mark.sample(3)
@each_loss
@few
@given(
    seed=seeds, budget=st.just(0) | budgets | st.just(10**6), schedule=rounds, constant=st.booleans(),
    scale=st.floats(0.1, 10.0),
    many=st.booleans(),
)  # fmt: skip
def test_no_bound_of_merged_records_is_above_the_optimum(loss, seed, budget, schedule, constant, scale, many):
    case = make(loss, seed, n=30, constant=constant)
    model = case.rng.normal(size=case.evidence.theta.shape)
    with pytest.MonkeyPatch.context() as patch:
        if many:  # so that second moments of the squared loss have to be committed
            patch.setattr("giftrl.certificates.reservoir.MAX_FEATURES", 2)
            patch.setattr(moments, "MAX_FEATURES", 2)
        reservoir = merged(case, scores_for(case), budget, schedule)
        evidence = reservoir.evidence(0.0, model, merged=True)
        best = evidence.best_loss(model[evidence.features], scale)
    assert best.rows == 30 and best.weight == pytest.approx(case.h.sum())
    assert reservoir.rows == 30 and reservoir.record.sums[at.STORED_COST] <= budget
    bounds_hold(case, evidence, model[evidence.features], scale)
    if budget == 10**6:
        twin = case.evidence.best_loss(model, scale)
        assert best.rows_kept == 30
        assert nearly(case, best.lower_bound, twin.lower_bound)
    going_on = remembering(case, budget)
    going_on.restore(reservoir.state())
    assert going_on.rows == 30


@pytest.mark.sample(3)
@each_loss
@few
@given(
    seed=seeds, budget=st.integers(0, 60), schedule=rounds, orders=st.sampled_from([0.0, 4.0, 9.0]),
    scale=st.floats(0.1, 10.0),
)  # fmt: skip
def test_in_exact_arithmetic_no_model_is_below_the_bound_of_merged_records(loss, seed, budget, schedule, orders, scale):
    case = make(loss, seed, n=30, orders=orders)
    with np.errstate(all="ignore"):
        model = case.rng.normal(size=case.evidence.theta.shape)
        evidence = merged(case, scores_for(case), budget, schedule).evidence(0.0, model, merged=True)
        bounds_hold_exactly(case, evidence, model, scale)


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
