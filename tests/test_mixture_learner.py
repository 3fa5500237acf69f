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
from numpy.testing import assert_allclose

from giftrl import errors, losses
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.combination import hedge, rate
from giftrl.mixtures.full_matrix import CREDIT, EARNED, new_matrix, pay
from giftrl.mixtures.state import CENTRE, DENSE, DENSE_PLACE, NORM, ONE_SCORE, PLACE, SCALE
from giftrl.ops.loss import slope, value
from tests.members import is_classification
from tests.mixture_twin import Twin, exact
from tests.mixtures import COMPILED, LOSSES, Stream, mixture, ordinary, total_loss

each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
REAL = [loss for loss in LOSSES if not is_classification(loss)]
some = settings(max_examples=max(5, settings.default.max_examples // 8))


def learn(learner, stream):
    return learner.learn(stream.x, stream.y, stream.weights)


def part(stream, rows):
    return Stream(stream.x[rows], stream.y[rows], None if stream.weights is None else stream.weights[rows])


def assert_same_state(one, other):
    """Bit by bit; room for dense features that are not there does not count."""
    mine, theirs = one.state(), other.state()
    dense = int(one.features.counts[DENSE])
    for name, array in mine.items():
        few = slice(dense) if name in ("features.dense", "features.stamps") else slice(None)
        assert np.array_equal(array[few], theirs[name][few]), name


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


def test_the_full_matrix_leaves_when_features_are_too_many():
    """Five new features a row: there is room for 128. What is left is the mixture without that expert."""
    rng = np.random.default_rng(0)
    x = np.zeros((30, 151))
    for i in range(30):
        x[i, 5 * i : 5 * i + 5] = rng.normal(size=5)
    x[:, -1] = 1.0
    y = rng.normal(size=30)
    learner = mixture("squared", 151)
    learner.learn(x[:25], y[:25])
    assert "full matrix" in [name for name, _, _ in learner.experts]
    learner.learn(x[25:], y[25:])
    assert "full matrix" not in [name for name, _, _ in learner.experts]
    assert_allclose(learner.predict(x), x @ learner.x, rtol=1e-9, atol=1e-12)
    assert_allclose(learner.predict(x), [predicted(learner, row) for row in x], rtol=1e-9, atol=1e-12)


def test_the_full_matrix_pays_for_its_rounds():
    matrix = new_matrix(128)
    matrix.size[0] = 100
    paid = sum(pay(matrix, 10) for _ in range(5000))
    spent, earned = 110.0**2, 10 * EARNED
    assert paid == pytest.approx((CREDIT + 5000 * earned) / spent, abs=1.0) and matrix.credit[0] >= 0.0


# ------------------------------------------------------------------------------------------------- one linear model


def expert_predictions(learner, row):
    """Each expert's prediction for a row, from the state."""
    features, state = learner.features, learner.mixing
    begin = int(ONE_SCORE.coin)
    m, mu = features.record[:, SCALE], features.record[:, CENTRE]
    u = np.divide(row - mu, m, out=np.zeros(len(row)), where=m > 0.0)
    coin, places = features.x[:, begin:], features.record[:, PLACE].astype(int)
    norm, spread = features.counts[NORM] or 1.0, state.units[unit.SPREAD] or 1.0
    lanes = learner.grid.lanes()
    p = state.offsets + state.units[unit.OFFSET]
    p[:lanes] += u @ features.x[:, :lanes].astype(np.float64)
    if "coin betting" in learner.expert_names:
        p[lanes] += spread / norm * (u @ ((4.0 + coin[:, 2]) * coin[:, 0] / (1.0 + coin[:, 1])))
    if learner.matrix.size[0] >= 0:
        p[lanes + 1] += u @ np.where(places > 0, np.append(0.0, learner.matrix.x)[places], 0.0)
    return np.where(np.isfinite(state.totals), p, 0.0)


def predicted(learner, row):
    """Their combination."""
    state = learner.mixing
    origin, there = state.units[unit.ORIGIN], np.isfinite(state.totals)
    z = expert_predictions(learner, row) - origin
    w = hedge(state.totals, rate(math.log(there.sum()), state.sums[2]))
    last = hedge(state.candidates, rate(math.log(np.isfinite(state.candidates).sum()), state.sums[3]))
    f = np.array([w[there] @ z[there], state.stack[there] @ z[there]])
    return origin + last[:2] @ f + last[2:] @ (learner.pieces.boost * f)


@each_loss
@pytest.mark.parametrize("preset", ["default", "light"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_mixture_is_one_weight_vector(loss, preset, dtype):
    learner = mixture(loss, 6, preset=preset, dtype=dtype)
    probes = np.random.default_rng(1).normal(size=(10, 6)) * [1.0, 0.0, 3.0, 100.0, 1.0, 0.0] + [0, 0, 5, 0, 0, 1.0]
    assert learner.predict(probes).tolist() == [0.0] * 10 == (probes @ learner.x).tolist()
    for seed in range(3):
        learn(learner, ordinary(loss, 20, 5, seed))
        expected = np.array([predicted(learner, row) for row in probes])
        terms = np.abs(probes) @ np.abs(learner.x) + np.abs(expected).max()
        assert np.all(np.abs(learner.predict(probes) - expected) <= 1e-12 * terms)
        assert np.all(np.abs(probes @ learner.x - expected) <= 1e-12 * terms)
        assert_allclose(learner.predict(sp.csr_array(probes)), learner.predict(probes), rtol=1e-14)
    low, high = learner.range
    assert np.array_equal(learner.clip(expected), np.clip(expected, low, high))
    shares = {name: share for name, share, _ in learner.experts}
    assert len(shares) == len(learner.experts) == (10 if preset == "default" else 4)


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


@each_loss
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


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_learner_that_grows_is_one_that_was_large_from_the_start(loss):
    stream = ordinary(losses.get(loss), 40, 5, seed=4)
    x = stream.x.copy()
    x[:, [3, 5]] = x[:, [5, 3]]  # the constant is feature 3
    x[:20, 4:] = 0.0
    large, small = mixture(loss, 6, constant=3), mixture(loss, 4, constant=3)
    expected = large.learn(x, stream.y)
    found = small.learn(x[:20, :4], stream.y[:20])
    small.grow(2)  # less than there is room for changes nothing
    assert small.dimension == 4
    small.grow(6)
    assert small.dimension == 6 and small.x[4:].tolist() == [0.0, 0.0]
    assert np.array_equal(np.concatenate([found, small.learn(x[20:], stream.y[20:])]), expected)
    assert_same_state(large, small)


def test_a_state_that_does_not_fit_is_refused_and_nothing_changes():
    stream = ordinary(losses.get("squared"), 20, 3)
    learner = mixture("squared", 4)
    learn(learner, stream)
    state = {name: array.copy() for name, array in learner.state().items()}
    bad = [
        mixture("squared", 4, preset="light").state(),
        mixture("squared", 4, dtype="float32").state(),
        state | {"mixing.units": state["mixing.units"] * np.nan},
        state | {"mixing.totals": state["mixing.totals"][:3]},
        state | {"features.dense": state["features.dense"] + np.uint64(1000)},
        state | {"features.counts": np.array([20.0, 1.0, 1e9])},
        state | {"features.counts": np.array([20.0, 1.0, -3.0])},
        state | {"matrix.size": np.array([1000])},
        state | {"features.record": state["features.record"].astype(np.float32)},
        {name: array for name, array in state.items() if name != "mixing.sums"},
    ]
    for column in (DENSE_PLACE, PLACE):
        record = state["features.record"].copy()
        record[0, column] = 1e9
        bad.append(state | {"features.record": record})
    bad += [state | {name: state[name][:-1]} for name in ("features.record", "features.x", "features.theta")]
    for each in bad:
        with pytest.raises(errors.GiftrlError):
            learner.restore(each)
    for name, array in learner.state().items():
        assert np.array_equal(array, state[name]), name


# -------------------------------------------------------------------------------------------- weights, certificates


@each_loss
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
            found.append(stream.y[k] * expert_predictions(learner, stream.x[k])[[*range(8), 9]])
        assert np.all(np.diff(found, axis=0) >= -1e-12)


@each_loss
@some
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 20), weights=st.booleans(), size=st.floats(-2.0, 2.0))
def test_the_certificate_is_never_below_the_regret(loss, seed, rows, weights, size):
    stream = ordinary(loss, rows, 3, seed, weights)
    learner = mixture(loss, 4)
    p = learn(learner, stream)
    h = np.ones(rows) if stream.weights is None else stream.weights
    certificate = learner.certificate
    paid = [k * value(loss, float(q), float(y)) for k, q, y in zip(h, p, stream.y, strict=True)]
    assert certificate.loss_sum == pytest.approx(math.fsum(paid), rel=1e-12) == learner.loss_sums[0]
    z = [k * slope(loss, float(q), float(y)) for k, q, y in zip(h, p, stream.y, strict=True)]
    assert_allclose(learner.theta, -np.array(z) @ stream.x, rtol=1e-10, atol=1e-10)
    assert learner.theta_norm == pytest.approx(np.linalg.norm(learner.theta))
    rng = np.random.default_rng(seed)
    for u in (np.zeros(4), 10.0**size * rng.normal(size=4), learner.x):
        regret = certificate.loss_sum - total_loss(loss, stream, u)
        room = 1e-9 * (1.0 + certificate.loss_sum + abs(certificate.conjugate_sum) + np.abs(learner.theta) @ np.abs(u))
        assert certificate.regret_bound(u) >= regret - room


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


def test_wrong_batches_are_named_and_nothing_is_learnt():
    learner = mixture("logistic", 2)
    x, y = np.ones((2, 2)), np.array([1.0, -1.0])
    for batch, argument in [
        ((np.ones((2, 3)), y), "x"), ((x * np.nan, y), "x"), ((x, y[:1]), "y"), ((x, y * 3.0), "y"),
        ((x, y, [1.0]), "weights"), ((x, y, [1.0, -1.0]), "weights"), ((x, y, [1.0, np.inf]), "weights"),
    ]:  # fmt: skip
        with pytest.raises(errors.InvalidInput, match=argument):
            learner.learn(*batch)
    assert learner.rounds == 0 and not np.any(learner.features.x)


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
