"""The parts of a mixture, each against a slow twin and the laws that its page states."""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.testing import assert_allclose
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from giftrl.compiled import compiler
from giftrl.compiled.lanes import FOUR
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import as_rows, longest
from giftrl.kernels.base import aligned_zeros
from giftrl.losses import Logistic, Squared
from giftrl.mixtures import Extended
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.experts import COVARIANCE, bend_stack, move_stack, spread_stack
from giftrl.mixtures.feature_state import (
    CENTRE,
    ONE_SCORE,
    SCALE,
    Pieces,
    entries,
    no_features,
    scale_row,
    with_capacity,
)
from giftrl.ops import loss as operations
from giftrl.ops.loss import accepts, curvature, prox, slope, value
from giftrl.ops.scalar import clamp
from tests.class_mixtures import AdaHedge
from tests.members import is_classification, is_count, label_for, label_strategy
from tests.mixtures import LOSSES, mixture, ordinary

each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
few = settings(max_examples=max(5, settings.default.max_examples // 3))


# --------------------------------------------------------------------------------------------------------- AdaHedge


@st.composite
def loss_matrices(draw, largest=100.0):
    """Losses of n experts over some rounds: any scale, an offset for each round, ties and repeated rounds."""
    n, rounds = draw(st.integers(2, 6)), draw(st.integers(1, 20))
    numbers = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 0.5, 1.0]))
    found = np.array(draw(st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=rounds, max_size=rounds)))
    found[draw(st.integers(0, rounds - 1)) :: draw(st.integers(1, 20))] *= draw(st.sampled_from([1.0, 1e-3, 30.0]))
    scale = 10.0 ** draw(st.floats(-largest, largest))
    found = scale * np.where(found < 1e-6, 0.0, found)
    return np.repeat(found, draw(st.sampled_from([1, 1, 3])), axis=0)


def hedge_twin(losses):
    """Weights of every round and the gap, in 60 digits."""
    with mp.workdps(60):
        n = losses.shape[1]
        total, gap, found = [mpf(0)] * n, mpf(0), []
        for row in losses:
            row = [mpf(float(x)) for x in row]
            least = min(total)
            raw = [mp.exp(-mp.log(n) * (x - least) / gap) if gap > 0 else mpf(x == least) for x in total]
            w = [x / sum(raw) for x in raw]
            found.append(np.array([float(x) for x in w]))
            mean = sum(a * b for a, b in zip(w, row, strict=True))
            if gap > 0:
                eta = mp.log(n) / gap
                mix = -mp.log(sum(a * mp.exp(-eta * b) for a, b in zip(w, row, strict=True))) / eta
            else:
                mix = min(b for a, b in zip(w, row, strict=True) if a > 0)
            gap += mean - mix
            total = [a + b for a, b in zip(total, row, strict=True)]
        return np.array(found), float(gap)


def hedge_run(losses):
    mixer, found = AdaHedge(losses.shape[1]), []
    for row in losses:
        found.append(mixer.weights)
        mixer.observe(row)
    return mixer, np.array(found)


def hedge_tolerance(losses, gap):
    """exp(-eta L) knows L to 1e-16 of itself."""
    return 1e-9 if gap == 0.0 else 1e-12 + 1e-14 * math.log(losses.shape[1]) * np.abs(losses).sum() / gap


@given(loss_matrices())
def test_ada_hedge_is_its_twin(losses):
    mixer, weights = hedge_run(losses)
    expected, gap = hedge_twin(losses)
    first = next((k for k, row in enumerate(losses) if np.ptp(row) > 0.0), 0)
    tolerance = hedge_tolerance(losses, np.ptp(losses[first]) / losses.shape[1])
    assume(tolerance < 1e-6)
    assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-14)
    assert_allclose(weights, expected, atol=tolerance)
    assert mixer.gap == pytest.approx(gap, rel=10.0 * tolerance, abs=1e-13 * np.abs(losses).max())
    assert mixer.loss == pytest.approx(math.fsum((weights * losses).ravel()), rel=1e-12)


@given(loss_matrices())
def test_ada_hedge_keeps_its_bounds(losses):
    """Theorem 6 and its proof (de Rooij et al., 2014): the bound with V has 4/3 where the corollary has 16/3."""
    mixer, weights = hedge_run(losses)
    size = np.abs(losses).sum()
    n, ranges = losses.shape[1], np.ptp(losses, axis=1).max()
    means = (weights * losses).sum(axis=1)
    regret = math.fsum(means) - min(math.fsum(column) for column in losses.T)
    # Variances of losses near 1e-100 are not in float64: in units of the largest range.
    unit = ranges if ranges > 0.0 else 1.0
    variance = math.fsum((weights * ((losses - means[:, None]) / unit) ** 2).ravel())
    assert regret <= 2.0 * mixer.gap + 1e-12 * size
    assert mixer.regret == pytest.approx(regret, abs=1e-12 * size)
    assert regret <= 2.0 * unit * math.sqrt(variance * math.log(n)) + (4 / 3 * math.log(n) + 2) * ranges + 1e-12 * size
    assert regret >= -mixer.gap - 1e-12 * size


@given(loss_matrices(20.0), st.floats(-3.0, 3.0), st.integers(-60, 60))
def test_ada_hedge_does_not_see_translations_and_scales(losses, offset, power):
    mixer, weights = hedge_run(losses)
    scaled, same = hedge_run(losses * 2.0**power)
    assert np.array_equal(same, weights) and scaled.gap == mixer.gap * 2.0**power
    moved = losses + offset * np.abs(losses).max() * np.sin(np.arange(len(losses)))[:, None]
    first = next((k for k, row in enumerate(losses) if np.ptp(row) > 0.0), None)
    if first is not None:
        tolerance = 100.0 * hedge_tolerance(moved, np.ptp(losses[first]) / losses.shape[1])
        assume(tolerance < 1e-3)
        assert_allclose(hedge_run(moved)[1], weights, atol=tolerance)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-300, 1e-160, 1e160, 1e300])
def test_ada_hedge_at_the_ends_of_float64(size):
    mixer, weights = hedge_run(size * np.array([[0.0, 1.0, 2.0]] * 5 + [[2.0, 0.0, 1.0]] * 5))
    assert np.isfinite(mixer.weights).all() and math.isfinite(mixer.gap)
    assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-14)


# -------------------------------------------------------------------------------------------------- the Newton stack


def stack_rows(loss, seed, rounds=15, experts=3):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=rounds)
    z = y[:, None] * rng.normal(size=experts) + 0.5 * rng.normal(size=(rounds, experts)) + 0.7
    return z, np.array([label_for(loss, target) for target in y])


@each_loss
@pytest.mark.parametrize("temperature", [1.0, 0.03])
def test_newton_stack_is_its_twin(loss, temperature):
    """v minimises phi(f(v))/tau + |v - v_t|^2/2 in the norm of the matrix of curvatures, written out and inverted."""
    z, y = stack_rows(loss, 3)
    stack = NewtonStack(3, loss, origin=0.7)
    v, matrix = np.full(3, 1.0 / 3.0), 10.0 * np.eye(3)
    for row, label in zip(z, y, strict=True):
        f = 0.7 + v @ (row - 0.7)
        assert stack.predict(row) == pytest.approx(f, rel=1e-10, abs=1e-10)
        assert stack.observe(row, label, temperature) == pytest.approx(f, rel=1e-10, abs=1e-10)
        az = np.linalg.inv(matrix) @ (row - 0.7)
        c, g = (row - 0.7) @ az, slope(loss, f, label)
        a = 0.0
        if g != 0.0:  # temperature a = phi'(f - a c), whose right side falls as a rises
            wrong = lambda a: temperature * a - slope(loss, f - a * c, label)  # noqa: E731, B023
            a = brentq(wrong, *sorted([0.0, g / temperature]), xtol=1e-15, rtol=1e-15)
        v = v - a * az
        bend = curvature(loss, 0.7 + v @ (row - 0.7), label)
        matrix = matrix + bend / temperature * np.outer(row - 0.7, row - 0.7)
    assert_allclose(stack.v, v, rtol=1e-10, atol=1e-10)
    assert_allclose(stack.inverse, np.linalg.inv(matrix), rtol=1e-9, atol=1e-10)


@given(st.integers(0, 2**32), st.integers(1, 30), st.floats(0.01, 100.0))
def test_the_stack_of_squared_losses_is_ridge_regression(seed, rounds, temperature):
    z, y = stack_rows(Squared(), seed, rounds)
    stack = NewtonStack(3, Squared())
    for row, label in zip(z, y, strict=True):
        stack.observe(row, label, temperature)
    left = np.vstack([z / math.sqrt(temperature), math.sqrt(10.0) * np.eye(3)])
    right = np.concatenate([y / math.sqrt(temperature), np.full(3, math.sqrt(10.0) / 3.0)])
    assert_allclose(stack.v, np.linalg.lstsq(left, right)[0], rtol=1e-8, atol=1e-10)


# ------------------------------------------------------------------------------------------------ the extended loss


@st.composite
def extended(draw, loss):
    label = draw(label_strategy(loss, 5.0))
    low, high = sorted([draw(st.floats(-6.0, 6.0)), draw(st.floats(-6.0, 6.0))])
    low, high = draw(st.sampled_from([(low, high), (low, math.inf), (-math.inf, high), (label, max(label, high))]))
    return Extended(loss, low, high), label


@each_loss
@few
@given(st.data())
def test_the_extended_loss_is_convex_and_straight_outside(loss, data):
    longer, y = data.draw(extended(loss))
    p, q = sorted([data.draw(st.floats(-20.0, 20.0)), data.draw(st.floats(-20.0, 20.0))])
    room = 1e-9 * (1.0 + abs(longer.value(p, y)) + abs(longer.value(q, y)))
    assert longer.slope(p, y) <= longer.slope(q, y)
    assert longer.value(q, y) >= longer.value(p, y) + longer.slope(p, y) * (q - p) - room
    assert longer.value(p, y) >= longer.value(q, y) + longer.slope(q, y) * (p - q) - room
    for r in (p, q):
        if longer.low <= r <= longer.high:
            assert longer.value(r, y) == value(loss, r, y) and longer.slope(r, y) == slope(loss, r, y)
            assert longer.curvature(r, y) == curvature(loss, r, y)
        else:
            end = longer.low if r < longer.low else longer.high
            tangent = value(loss, end, y) + slope(loss, end, y) * (r - end)
            assert longer.value(r, y) == pytest.approx(tangent, rel=1e-12, abs=1e-12)
            assert longer.slope(r, y) == slope(loss, end, y) and longer.curvature(r, y) == 0.0


@each_loss
@few
@given(st.data())
def test_the_extended_step_is_proximal(loss, data):
    """a is a subgradient of the extended loss at the point p - a c to which it leads."""
    longer, y = data.draw(extended(loss))
    p, c = data.draw(st.floats(-20.0, 20.0)), 10.0 ** data.draw(st.floats(-4.0, 4.0))
    a = longer.prox(p, y, c)
    near = 1e-8 * (1.0 + abs(p) + abs(y))
    room = 1e-8 * (1.0 + abs(y))
    assert longer.slope(p - a * c - near, y) - room <= a <= longer.slope(p - a * c + near, y) + room
    out, starts = np.empty(4), np.linspace(p - 3.0, p + 3.0, 4)
    slopes = np.array([longer.slope(float(s), y) for s in starts])
    longer.approach_all(FOUR, starts, y, np.full(4, c), slopes, out)
    expected = [longer.prox(float(s), y, c) for s in starts]
    near = 0.01 if isinstance(loss, Logistic) else 1e-9
    assert_allclose(out, expected, rtol=near, atol=1e-9 * (1.0 + abs(y)))


# ------------------------------------------------------------------------------------------------- labels in units


@each_loss
@pytest.mark.parametrize("constant", [2, None])
def test_units_alone_are_those_of_the_mixture(loss, constant):
    stream = ordinary(loss, 30, 2, seed=2)
    learner = mixture(loss, 3, constant=constant)
    learner.learn(stream.x, stream.y, np.arange(1.0, 31.0))
    alone = LabelUnits(loss, centre=constant is not None)
    for k, y in enumerate(stream.y.tolist()):
        alone.observe(y, k + 1.0)
    own = slice(unit.WEIGHT, unit.JUDGED)
    assert np.array_equal(alone.units[own], learner.mixing.units[own])
    assert learner.range == tuple(alone.units[[unit.LOW, unit.HIGH]])


# ---------------------------------------------------------------------------------------------------- units of losses


@each_loss
@given(st.data())
@few
def test_units_of_a_loss(loss, data):
    y = data.draw(label_strategy(loss))
    p = data.draw(st.floats(-50.0, 50.0))
    if is_classification(loss):
        reach = operations.reach(loss)
        assert value(loss, float(np.clip(p, -reach, reach)), y) <= value(loss, p, y)
        assert operations.boost(loss) > 1.0
        return
    low, high = operations.lowest(loss, y), operations.highest(loss, y)
    assert math.isfinite(low) and math.isfinite(high) and low <= high
    if not is_count(loss):  # the best prediction for the count 0 is minus infinity, and so not in the range
        assert value(loss, float(np.clip(p, low, high)), y) <= value(loss, p, y)
    assert math.isfinite(operations.offset(loss, y, 3.0))
    assert operations.spread(loss, y, p) >= 0.0
    # A loss says that it bends, or that it has kinks.
    assert operations.kinked(loss) or curvature(loss, p, y) > 0.0


Array = NDArray[np.float64]


class Experts(NamedTuple):
    """Any number of lanes, for plain Python."""

    experts: int

    def lanes(self) -> int:
        return self.experts


class NewtonStack:
    """A linear model of experts' predictions; ``origin`` is subtracted from all of them."""

    def __init__(self, experts: int, loss: Any, origin: float = 0.0) -> None:
        self.loss, self.origin = loss, origin
        self.v: Array = np.full(experts, 1.0 / experts)
        self.inverse: Array = COVARIANCE * np.eye(experts)

    def predict(self, predictions: ArrayLike) -> float:
        """The combined prediction."""
        return self.origin + float(self.v @ (np.asarray(predictions, np.float64) - self.origin))

    def observe(self, predictions: ArrayLike, y: float, temperature: float = 1.0) -> float:
        """Return the combined prediction, then learn from the label; losses are divided by the temperature."""
        f = self.predict(predictions)
        z = np.asarray(predictions, np.float64) - self.origin
        side = Experts(len(z))
        az = spread_stack(side, self.inverse, z)
        c = max(0.0, float(z @ az))
        a = prox(self.loss, f, y, c / temperature) / temperature
        move_stack(side, self.v, az, a)
        bend_stack(side, self.inverse, az, c, curvature(self.loss, f - a * c, y) / temperature)
        return f


class LabelUnits:
    """The units of the labels seen so far."""

    def __init__(self, loss: Any, centre: bool) -> None:
        self.loss, self.centre, self.margin = loss, centre, not accepts(loss, 0.5)
        self.units = unit.start_units(loss, self.margin)

    def observe(self, y: float, weight: float) -> None:
        """Update the units by a label."""
        y = clamp(y, -unit.LARGEST_LABEL, unit.LARGEST_LABEL)
        unit.widen(self.loss, self.units, y, self.margin)
        unit.update_label_means(self.loss, self.units, y, weight, self.margin, self.centre)


@formula
def scale_rows(features: Any, columns: Any, x: Any, how: Any, rows: Any, count: int, row: Any, out: Any) -> None:
    """Put the rows u into a dense array."""
    for i in range(count):
        for k in range(scale_row(features, columns, x, how, rows, i, row)):
            out[i, row.j[k]] = row.u[k]


class FeatureScaler:
    """A scaler that centres and scales features as rows come in.

    Args:
        dimension: the number of features.
        constant: the feature that is always 1, and is not centred; None if there is none.
        centre: whether dense features are centred.
        compiled: False runs the same functions as plain Python.
    """

    def __init__(
        self, dimension: int, constant: int | None = None, *, centre: bool = True, compiled: bool = False
    ) -> None:
        self.dimension, self.compiled = dimension, compiled
        none = dimension if centre else -1  # a feature beyond the last, so that all of them are centred
        self.pieces = Pieces(none if constant is None or not centre else constant, True, 1.0, False)
        self.features = no_features(aligned_zeros(dimension, ONE_SCORE.total, np.float64))

    def transform(self, x: Any) -> Array:
        """The rows u, each computed from that row and those before it."""
        rows, n = as_rows(x, self.dimension, compiled=self.compiled)
        self.features = with_capacity(self.features, self.dimension, int(longest(rows)))
        width = int(longest(rows)) + len(self.features.dense)
        out, row = np.zeros((n, self.dimension)), entries(width, np.float64)
        loop = compiler.ready(scale_rows, self.compiled)
        loop(self.features, ONE_SCORE, self.features.x, self.pieces, rows, n, row, out)
        return out


@st.composite
def feature_rows(draw):
    """Rows whose features are dense, sparse, constant, or turn from one into the other."""
    d, n = draw(st.integers(1, 4)), draw(st.integers(1, 25))
    columns = []
    for _ in range(d):
        size = draw(st.sampled_from([1.0, 1.0, 1e-30, 1e30, 7.0]))
        base = draw(st.sampled_from([0.0, 0.0, 3.0, 1000.0]))
        present = draw(st.lists(st.booleans(), min_size=n, max_size=n))
        noise = draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n))
        turn = draw(st.integers(0, n))
        column = [
            size * (base + k / 8.0) if here or i < turn else 0.0
            for i, (k, here) in enumerate(zip(noise, present, strict=True))
        ]
        columns.append(column)
    return np.array(columns).T


def scaler_twin(x, constant=None, centre=True):
    """Every row from the whole history before it and with it, in exact arithmetic."""
    n, d = x.shape
    out = np.zeros((n, d))
    exact = [[Fraction(float(v)) for v in row] for row in x]
    for j in range(d):
        dense, largest, centre_now = False, Fraction(0), Fraction(0)
        for i in range(n):
            t, history = i + 1, [row[j] for row in exact[: i + 1]]
            count, v = sum(1 for value in history if value != 0), history[-1]
            here, was = dense or v != 0, dense
            if centre and j != constant:
                if v != 0 and count >= Fraction(t, 2) + Fraction(1, 2):
                    dense = here = True
                if count < Fraction(4 * t, 10) + Fraction(1, 2):
                    dense = False
            if not here:
                continue
            target = sum(history) / t if dense else Fraction(0)
            away = abs(v - (centre_now if was else target)) if dense else abs(v)
            centre_now = target
            largest = max(largest, away)
            out[i, j] = np.clip(float((v - target) / largest), -1e15, 1e15) if largest > 0 else 0.0
    return out


@given(feature_rows(), st.sampled_from(["centred", "constant", "plain"]))
def test_feature_scaler_is_its_twin(x, kind):
    centre, constant = kind != "plain", x.shape[1] - 1 if kind == "constant" else None
    found = FeatureScaler(x.shape[1], constant, centre=centre).transform(x)
    expected = scaler_twin(x, constant, centre)
    # A deviation is known to 1e-16 of the mean that is taken from it.
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert np.abs(found).max(initial=0.0) <= 1.0 + 1e-12


@few
@given(feature_rows(), st.integers(-30, 30), st.integers(1, 24))
def test_feature_scaler_takes_sparse_rows_pieces_and_scales(x, power, cut):
    dimension = x.shape[1]
    found = FeatureScaler(dimension).transform(x)
    assert np.array_equal(FeatureScaler(dimension).transform(sp.csr_array(x)), found)
    assert_allclose(FeatureScaler(dimension).transform(x * 2.0**power), found, rtol=1e-14, atol=1e-15)
    pieces = FeatureScaler(dimension)
    assert np.array_equal(np.vstack([pieces.transform(x[:cut]), pieces.transform(x[cut:])]), found)


@few
@given(feature_rows(), st.integers(0, 2**32))
def test_growth_and_drift_leave_the_function_of_a_learner_as_it_was(x, seed):
    """w_j <- w_j/growth and constant += w_j drift, and the weights on the original features do not move."""
    rng, d = np.random.default_rng(seed), x.shape[1]
    features, how = (
        with_capacity(no_features(aligned_zeros(d, ONE_SCORE.total, float)), d, d),
        Pieces(d, True, 1.0, False),
    )
    w, b = np.zeros(d), 0.0
    row = entries(2 * d, float)
    rows, n = as_rows(x, d)
    for i in range(n):
        m, mu = features.record[:, SCALE].copy(), features.record[:, CENTRE].copy()
        original = np.divide(w, m, out=np.zeros(d), where=m > 0.0)
        constant = b - original @ mu
        assert set(np.flatnonzero(x[i])) <= set(
            row.j[: int(scale_row(features, ONE_SCORE, features.x, how, rows, i, row))]
        )
        for listed in range(int(row.many[0])):
            j, growth = int(row.j[row.moved[listed]]), row.growth[listed]
            w[j] = w[j] / growth if growth > 0.0 else 0.0
            b += w[j] * row.drift[listed]
        m, mu = features.record[:, SCALE], features.record[:, CENTRE]
        after = np.divide(w, m, out=np.zeros(d), where=m > 0.0)
        assert_allclose(after, original, rtol=1e-12)
        assert b - after @ mu == pytest.approx(constant, abs=1e-9 * (1.0 + np.abs(after * mu).sum()))
        w = np.where(m > 0.0, rng.normal(size=d), 0.0)


def test_a_feature_is_dense_from_a_half_and_down_to_two_fifths():
    """By hand: centred at 5, then at 10/3; sparse again when two rows of four have it; dense with three of five."""
    scaler = FeatureScaler(1)
    u = scaler.transform([[5.0], [5.0], [0.0]])[:, 0]
    assert_allclose(u, [0.0, 0.0, -2.0 / 3.0])
    assert scaler.features.record[0, CENTRE] == pytest.approx(10.0 / 3.0)
    assert scaler.transform([[0.0]])[0, 0] == 0.0 and scaler.features.record[0, CENTRE] == 0.0
    assert scaler.transform([[5.0]])[0, 0] == pytest.approx(0.4) and scaler.features.record[0, CENTRE] == 3.0
