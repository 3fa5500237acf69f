"""MixtureLearner: equal to its slow twin, one linear model, the same in any batches, and certified."""

import copy
import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from giftrl import errors, losses
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.feature_state import CENTRE, DENSE_PLACE, PLACE, SCALE, Entries
from giftrl.mixtures.full_matrix import (
    CREDIT,
    EARNED,
    LATE_ROWS,
    admit_row,
    advance,
    apply_late,
    isolate,
    new_matrix,
    rescale,
    variance,
)
from giftrl.mixtures.mixture import MulticlassMixture
from giftrl.ops.loss import value
from tests.members import is_classification
from tests.mixture_twin import Twin, exact
from tests.mixtures import (
    CLASS_LOSSES,
    COMPILED,
    EVERY,
    LOSSES,
    Stream,
    assert_same_state,
    label,
    loss_at,
    mixture,
    ordinary,
    slope_at,
    total_loss,
)

each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
every_loss = pytest.mark.parametrize("loss", EVERY, ids=repr)
REAL = [loss for loss in LOSSES if not is_classification(loss)]
some = settings(max_examples=max(5, settings.default.max_examples // 8))


def learn(learner, stream):
    return learner.learn(stream.x, stream.y, stream.weights)


def part(stream, rows):
    return Stream(stream.x[rows], stream.y[rows], None if stream.weights is None else stream.weights[rows])


# --------------------------------------------------------------------------------------------------- the slow twin


@each_loss
@pytest.mark.parametrize("preset", ["default", "light"])
def test_mixture_is_its_twin(loss, preset):
    stream, options = ordinary(loss, 50, 5, seed=1), {"preset": preset}
    learner, twin = mixture(exact(loss), 6, **options), Twin(6, loss, 5, options)
    found = learn(learner, stream)
    expected = np.array([twin.learn(v, y, 1.0) for v, y in zip(stream.x, stream.y, strict=True)])
    scale = np.abs(expected).max()
    assert_allclose(found, expected, atol=1e-10 * scale)
    probes = np.random.default_rng(5).normal(size=(20, 6))
    probes[:, -1] = 1.0
    expected = np.array([twin.predict(v) for v in probes])
    assert_allclose(learner.predict(probes), expected, atol=1e-10 * np.abs(expected).max())
    low, high = learner.range
    assert (low, high) == (twin.low, twin.high) and np.all((low <= found[1:]) & (found[1:] <= high))
    totals = [total for _, _, total in learner.experts]
    first = 0.0 if is_classification(loss) else value(loss, 0.0, stream.y[0])  # alike for all, and not compared
    assert_allclose(totals, twin.totals + first, rtol=1e-9, atol=1e-9)


@each_loss
@some
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 25), features=st.integers(0, 4), constant=st.booleans())
def test_mixture_is_its_twin_on_any_stream(loss, seed, rows, features, constant):
    """With weights, without a constant, sparse rows, features at any scale."""
    stream = ordinary(loss, rows, features, seed, weights=True)
    rng = np.random.default_rng(seed)
    x = stream.x * 10.0 ** rng.integers(-30, 30, features + 1)
    x[:, -1] = 1.0
    weights = np.where(stream.weights > 0.0, stream.weights, 2.0)
    where = features if constant else None
    learner, twin = mixture(exact(loss), features + 1, constant=where), Twin(features + 1, loss, where, {})
    found = learner.learn(sp.csr_array(x), stream.y, weights)
    expected = np.array([twin.learn(*row) for row in zip(x, stream.y, weights, strict=True)])
    assume(not twin.fragile)
    assert_allclose(found, expected, atol=1e-8 * max(1e-300, np.abs(expected).max()))


@pytest.mark.parametrize("loss", [losses.Squared(), losses.Softmax()], ids=repr)
def test_the_full_matrix_leaves_when_features_are_too_many(loss):
    """Five new features a row: there is room for 128. What is left is the mixture without that expert."""
    rng = np.random.default_rng(0)
    x = np.zeros((30, 151))
    for i in range(30):
        x[i, 5 * i : 5 * i + 5] = rng.normal(size=5)
    x[:, -1] = 1.0
    y = np.array([label(loss, target) for target in rng.normal(size=30)])
    learner = mixture(loss, 151)
    learner.learn(x[:25], y[:25])
    assert "full matrix" in [name for name, _, _ in learner.experts]
    learner.learn(x[25:], y[25:])
    assert "full matrix" not in [name for name, _, _ in learner.experts]
    assert_allclose(learner.predict(x), x @ learner.x, rtol=1e-9, atol=1e-12)


def test_the_full_matrix_pays_for_its_rounds():
    matrix = new_matrix(128)
    matrix.size[0] = 100
    row = Entries(np.zeros(10, np.uint64), *[np.zeros(10)] * 5)
    paid = sum(admit_row(matrix, None, 0, np.zeros((1, 6)), row, 10, 1.0) for _ in range(5000))
    spent, earned = 110.0**2, 10 * EARNED
    assert paid == pytest.approx((CREDIT + 5000 * earned) / spent, abs=1.0) and matrix.credit[0] >= 0.0


# ------------------------------------------------------------------------------------------------- one linear model


@every_loss
@pytest.mark.parametrize("preset", ["default", "light"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_mixture_is_one_weight_vector_or_a_matrix(loss, preset, dtype):
    learner = mixture(loss, 6, preset=preset, dtype=dtype)
    probes = np.random.default_rng(1).normal(size=(10, 6)) * [1.0, 0.0, 3.0, 100.0, 1.0, 0.0] + [0, 0, 5, 0, 0, 1.0]
    assert not learner.predict(probes).any() and not learner.x.any()
    for seed in range(3):
        learn(learner, ordinary(loss, 20, 5, seed))
        found = learner.predict(probes)
        terms = np.abs(probes) @ np.abs(learner.x) + np.abs(found).max()
        assert found.any() and np.all(np.abs(probes @ learner.x - found) <= 1e-12 * terms)
        assert_allclose(learner.predict(sp.csr_array(probes)), found, rtol=1e-14)
    shares = {name: share for name, share, _ in learner.experts}
    experts = 10 if preset == "default" else 4 if learner.classes is None else 5
    assert len(shares) == len(learner.experts) == experts


# --------------------------------------------------------------------------- compiled, in batches, restored, grown


@pytest.mark.verify
@pytest.mark.parametrize("loss", COMPILED)
def test_compiled_loops_are_the_same_formulas(loss):
    stream = ordinary(losses.get(loss), 200, 5, seed=2, weights=True)
    plain, fast = mixture(loss, 6), mixture(loss, 6, compiled=True)
    cuts = [0, 1, 1, 50, 73, 200]
    found = np.concatenate([learn(fast, part(stream, slice(a, b))) for a, b in pairwise(cuts)])
    expected = learn(plain, stream)
    assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())
    fast.compiled = loss == "logistic"  # the loops that predict are the same for all losses
    assert_allclose(fast.x, plain.x, atol=1e-11 * np.abs(plain.x).max())
    assert_allclose(fast.predict(stream.x), plain.predict(stream.x), atol=1e-11 * np.abs(expected).max())
    whole = mixture(loss, 6, compiled=True)
    assert np.array_equal(learn(whole, stream), found)
    assert_same_state(whole, fast)
    assert fast.certificate.bound_sum == pytest.approx(plain.certificate.bound_sum, rel=1e-9)


@pytest.mark.verify
def test_compiled_loops_take_sparse_rows_and_float32():
    stream = ordinary(losses.get("logistic"), 200, 5, seed=3, weights=True)
    plain, fast = mixture("logistic", 6, dtype="float32"), mixture("logistic", 6, dtype="float32", compiled=True)
    found = fast.learn(sp.csr_array(stream.x), stream.y, stream.weights)
    assert_allclose(found, learn(plain, stream), atol=1e-4)
    fast.compiled = False
    assert_allclose(fast.x, plain.x, rtol=1e-3, atol=1e-4)


@every_loss
@some
@given(st.data())
def test_any_batches_give_the_same_bits(loss, data):
    rows = data.draw(st.integers(1, 20))
    stream = ordinary(loss, rows, 3, data.draw(st.integers(0, 2**32)), weights=data.draw(st.booleans()))
    options = {"dtype": data.draw(st.sampled_from(["float32", "float64"]))}
    whole, pieces = mixture(loss, 4, **options), mixture(loss, 4, **options)
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, rows), max_size=4))), rows]
    expected = learn(whole, stream)
    found = []
    for a, b in pairwise(cuts):
        batch = part(stream, slice(a, b))
        found.append(pieces.learn(sp.csr_array(batch.x) if data.draw(st.booleans()) else batch.x, *batch[1:]))
        if data.draw(st.booleans()):  # go on from a copy
            copy = mixture(loss, 4, **options)
            copy.restore({name: array.copy() for name, array in pieces.state().items()})
            pieces = copy
    assert np.array_equal(np.concatenate(found), expected)
    assert_same_state(whole, pieces)
    assert np.array_equal(whole.x, pieces.x) and whole.rounds == pieces.rounds == whole.t - 1


@pytest.mark.parametrize("loss", [losses.Squared(), losses.Logistic(), *CLASS_LOSSES], ids=repr)
def test_a_learner_that_grows_is_one_that_was_large_from_the_start(loss):
    stream = ordinary(loss, 40, 5, seed=4)
    x = stream.x.copy()
    x[:, [3, 5]] = x[:, [5, 3]]  # the constant is feature 3
    x[:20, 4:] = 0.0
    large, small = mixture(loss, 6, constant=3), mixture(loss, 4, constant=3)
    expected = large.learn(x, stream.y)
    found = small.learn(x[:20, :4], stream.y[:20])
    small.grow(2)  # less than there is room for changes nothing
    assert small.dimension == 4
    small.grow(6)
    assert small.dimension == 6 and not small.x[4:].any()
    assert np.array_equal(np.concatenate([found, small.learn(x[20:], stream.y[20:])]), expected)
    assert_same_state(large, small)


#: An entry of the state that no run can lead to.
SPOILT = {
    "units": ("mixing.units", ..., np.nan),
    "gap": ("mixing.sums", 2, np.nan),
    "no expert": ("mixing.totals", ..., np.inf),
    "inverse": ("mixing.inverse", (0, 0), np.inf),
    "theta": ("features.theta", (0, 0), np.nan),
    "weight": ("features.x", (0, 0), np.inf),
    "negative scale": ("features.record", (0, SCALE), -1.0),
    "place in the list": ("features.record", (0, DENSE_PLACE), 50.0),
    "place in the matrix": ("features.record", (0, PLACE), 1e6),
    "dense feature": ("features.dense", 0, 99),
    "too many dense features": ("features.counts", 2, 1e9),
    "negative dense features": ("features.counts", 2, -3.0),
    "size of the matrix": ("matrix.size", 0, 1000),
    "downdates": ("matrix.waiting", 0, LATE_ROWS),
    "negative downdates": ("matrix.waiting", 0, -1),
}


@pytest.mark.parametrize("name", SPOILT)
@pytest.mark.parametrize("loss", [losses.Squared(), losses.Softmax()], ids=repr)
def test_a_state_that_no_run_leads_to_is_refused_and_nothing_changes(loss, name):
    where, entry, number = SPOILT[name]
    learner, other = mixture(loss, 4), mixture(loss, 4)
    learn(learner, ordinary(loss, 20, 3))
    state = {key: array.copy() for key, array in learner.state().items()}
    if where in state:  # mixtures of classes have no units
        state[where][entry] = number
        with pytest.raises(errors.InvalidInput, match="state"):
            other.restore(state)
        assert_same_state(other, mixture(loss, 4))


@pytest.mark.parametrize("loss", [losses.Squared(), losses.Softmax()], ids=repr)
def test_a_state_of_other_parts_is_refused(loss):
    learner = mixture(loss, 4)
    learn(learner, ordinary(loss, 20, 3))
    state = learner.state()
    others = [mixture(loss, 4, preset="light").state(), mixture(loss, 4, dtype="float32").state()]
    others += [
        {key: array for key, array in state.items() if key != name} for name in ("mixing.sums", "features.dense")
    ]
    others += [state | {name: state[name][:-1]} for name in ("features.record", "features.x", "mixing.totals")]
    others += [state | {"features.record": state["features.record"].astype(np.float32)}]
    for other in others:
        with pytest.raises(errors.InvalidInput, match="state"):
            learner.restore(other)


# -------------------------------------------------------------------------------------------- weights, certificates


@every_loss
def test_rows_of_weight_0_are_predicted_and_change_nothing(loss):
    stream = ordinary(loss, 30, 3, seed=6)
    rng = np.random.default_rng(0)
    empty = rng.random(30) < 0.4
    learner, other = mixture(loss, 4), mixture(loss, 4)
    found = learner.learn(stream.x, stream.y, np.where(empty, 0.0, 1.0))
    expected = other.learn(stream.x[~empty], stream.y[~empty])
    assert np.isfinite(found).all()
    assert np.array_equal(found[~empty], expected)
    assert_same_state(learner, other)


@each_loss
@pytest.mark.parametrize("copies", [2, 5])
def test_rows_of_weight_k_lead_where_k_copies_lead(loss, copies):
    """The constant prediction is the same; predictions differ, since copies change them in between, but go together."""
    stream = ordinary(loss, 60, 3, seed=7)
    weighted, copied = mixture(loss, 4), mixture(loss, 4)
    weighted.learn(stream.x, stream.y, np.full(60, float(copies)))
    copied.learn(np.repeat(stream.x, copies, axis=0), np.repeat(stream.y, copies))
    assert weighted.mixing.units[unit.OFFSET] == pytest.approx(copied.mixing.units[unit.OFFSET], rel=1e-12)
    assert np.corrcoef(weighted.predict(stream.x), copied.predict(stream.x))[0, 1] > 0.85


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if is_classification(loss)], ids=repr)
def test_the_more_a_row_weighs_the_further_experts_go(loss):
    stream = ordinary(loss, 12, 3, seed=8)
    for k in range(3, 12):
        found = []
        for h in (1e-3, 0.5, 1.0, 3.0, 1e3):
            learner = mixture(loss, 4)
            learn(learner, part(stream, slice(k)))
            learner.learn(stream.x[[k]], stream.y[[k]], [h])
            record, experts = learner.features.record, learner.features.x[:, :8]
            m = np.where(record[:, SCALE] > 0.0, record[:, SCALE], 1.0)
            u = (stream.x[k] - record[:, CENTRE]) / m
            found.append(stream.y[k] * (learner.mixing.offsets[:8] + u @ experts))
        assert np.all(np.diff(found, axis=0) >= -1e-12)


@every_loss
@some
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 20), weights=st.booleans(), size=st.floats(-2.0, 2.0))
def test_the_certificate_is_never_below_the_regret(loss, seed, rows, weights, size):
    """With K scores, comparators are matrices, flattened by rows."""
    stream = ordinary(loss, rows, 3, seed, weights)
    learner = mixture(loss, 4)
    p = learn(learner, stream)
    h = np.ones(rows) if stream.weights is None else stream.weights
    certificate = learner.certificate
    paid = [k * loss_at(loss, q, y) for k, q, y in zip(h, p, stream.y, strict=True)]
    assert certificate.loss_sum == pytest.approx(math.fsum(paid), rel=1e-12) == learner.loss_sums[0]
    z = np.array([k * slope_at(loss, q, y) for k, q, y in zip(h, p, stream.y, strict=True)])
    assert_allclose(learner.theta, -stream.x.T @ z, rtol=1e-10, atol=1e-10)
    assert learner.theta_norm == pytest.approx(np.linalg.norm(learner.theta))
    rng, shape = np.random.default_rng(seed), learner.theta.shape
    for u in (np.zeros(shape), 10.0**size * rng.normal(size=shape), learner.x):
        regret = certificate.loss_sum - total_loss(loss, stream, u)
        terms = certificate.loss_sum + abs(certificate.conjugate_sum) + (np.abs(learner.theta) * np.abs(u)).sum()
        assert certificate.regret_bound(u.reshape(-1)) >= regret - 1e-9 * (1.0 + terms)


def test_without_a_constant_nothing_is_centred():
    stream = ordinary(losses.Squared(), 40, 3, seed=9)
    learner = mixture("squared", 4, constant=None)
    learn(learner, stream)
    assert np.all(learner.features.record[:, CENTRE] == 0.0)
    assert learner.mixing.units[unit.OFFSET] == 0.0 and learner.mixing.offsets.tolist() == [0.0] * 12
    assert_allclose(learner.predict(stream.x), stream.x @ learner.x, rtol=1e-12)
    assert learner.predict(np.zeros((1, 4)))[0] == 0.0


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"dimension": 0}, "dimension"), ({"dimension": 2.5}, "dimension"), ({"dtype": "int32"}, "dtype"),
        ({"loss": "softmax"}, "softmax"), ({"loss": "nothing"}, "loss"), ({"preset": "heavy"}, "preset"),
        ({"constant": 4}, "constant"), ({"constant": -1}, "constant"), ({"constant": 1.5}, "constant"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(wrong, argument):
    with pytest.raises(errors.GiftrlError, match=argument):
        MixtureLearner(**({"dimension": 4} | wrong))


def test_copies_lie_at_cache_lines_and_go_on_the_same():
    stream = ordinary(losses.Logistic(), 40, 3, seed=4)
    learner = mixture("logistic", 4)
    learn(learner, stream)
    before = learner.features.x.copy()
    copies = [pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)]
    for each in copies:
        assert each.features.x.ctypes.data % 64 == 0
        assert np.array_equal(each.features.x, before)
    expected = learn(learner, stream)
    assert all(np.array_equal(learn(each, stream), expected) for each in copies)


PLACES = 5
CLASSES = [None, 3]


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_vectors_that_are_late_are_as_good_as_lost(seed, steps):
    rng, matrix, twin = np.random.default_rng(seed), new_matrix(PLACES), np.eye(PLACES)
    matrix.size[0] = PLACES
    matrix.inverse[...] = np.eye(PLACES)
    for _ in range(steps):
        kind, s = rng.integers(0, 4), rng.integers(0, PLACES)
        if kind <= 1:
            v = twin @ rng.normal(size=PLACES)
            part = 0.5 / max(1e-3, v @ np.linalg.solve(twin, v))  # less than what makes A singular
            twin -= part * np.outer(v, v)
            matrix.late[matrix.waiting[0]] = np.sqrt(part) * v
            if advance(matrix):
                apply_late(matrix)
                assert not matrix.late.any()
        elif kind == 2:
            twin[s] *= 1.5
            twin[:, s] *= 1.5
            rescale(matrix, s, 1.5)
        else:
            twin[s], twin[:, s], twin[s, s] = 0.0, 0.0, 2.0
            isolate(matrix, s, 2.0)
        assert not matrix.late[matrix.waiting[0] :].any()
        assert_allclose(matrix.inverse - matrix.late.T @ matrix.late, twin, rtol=1e-9, atol=1e-9 * twin.max())
        assert_allclose([variance(matrix, k) for k in range(PLACES)], twin.diagonal(), atol=1e-9 * twin.max())


def stream(classes, rows=50):
    """Rows whose features come one after the other, the largest last, so that places are taken and scales grow."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 6)) * np.linspace(1.0, 4.0, rows)[:, None]
    x[np.arange(rows)[:, None] < 7 * np.arange(6)] = 0.0
    x[:, 0] = 1.0
    score = x @ rng.normal(size=6) + rng.logistic(size=rows)
    return x, np.digitize(score, [-1.0, 1.0]) if classes else np.sign(score)


def made(classes, **options):
    options = {"constant": 0, "compiled": False} | options
    return MixtureLearner(6, **options) if classes is None else MulticlassMixture(6, classes, **options)


def with_late(classes):
    """A learner in which 3 vectors are late, and the rows that come next."""
    learner, (x, y) = made(classes), stream(classes)
    learner.learn(x[:27], y[:27])
    assert learner.matrix.waiting[0] == 3 and learner.matrix.late.any()
    return learner, (x[27:], y[27:])


@pytest.mark.parametrize("way", ["state", "pickle"])
@pytest.mark.parametrize("classes", CLASSES)
def test_what_is_late_is_part_of_the_state(classes, way):
    learner, after = with_late(classes)
    if way == "state":
        copy = made(classes)
        copy.restore({name: array.copy() for name, array in learner.state().items()})
    else:
        copy = pickle.loads(pickle.dumps(learner))
    assert_array_equal(copy.learn(*after), learner.learn(*after))
    assert_same_state(copy, learner)
