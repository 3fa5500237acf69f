"""Features on a common scale, against exact arithmetic and by their laws."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from giftrl.compiled.rows import as_rows
from giftrl.mixtures.scale_row import entries, scale_row
from giftrl.mixtures.state import CENTRE, ONE_SCORE, SCALE, Pieces, blocks, no_features, with_capacity
from tests.mixture_parts import FeatureScaler

few = settings(max_examples=max(5, settings.default.max_examples // 3))


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
    features, how = with_capacity(no_features(blocks(d, ONE_SCORE.total, float)), d, d), Pieces(d, True, 1.0, False)
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
