"""Rows for the estimators: however they come, the same is learnt."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from giftrl.compiled.rows import Dense, blocks, each_once
from giftrl.linear import FTRLClassifier, FTRLRegressor
from tests.test_estimators import BOTH, CANCER, interpreted, same

pytestmark = pytest.mark.plain


@pytest.mark.parametrize("kind", [FTRLClassifier, FTRLRegressor])
@BOTH
def test_every_container_of_the_same_numbers_teaches_the_same(kind, beta):
    X, y = CANCER[0][:40], CANCER[1][:40]
    names = [f"f{j}" for j in range(X.shape[1])]
    expected = kind(beta=beta).fit(X, y)
    frame = pd.DataFrame(X, columns=names)

    class Capsule:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table(dict(zip(names, X.T, strict=True))).__arrow_c_stream__(requested_schema)

    class CapsuleArray:
        def __arrow_c_array__(self, requested_schema=None):
            return pa.RecordBatch.from_arrays([pa.array(c) for c in X.T], names).__arrow_c_array__(requested_schema)

    for table in (
        frame,
        pl.DataFrame(X, names),
        pa.table(dict(zip(names, X.T, strict=True))),
        Capsule(),
        CapsuleArray(),
    ):
        model = kind(beta=beta).fit(table, y)
        same(model, expected)
        assert model.feature_names_in_.tolist() == names
        assert_allclose(model.predict(table), expected.predict(X), rtol=1e-12, atol=1e-12)
    for other in (
        np.asfortranarray(X), X.tolist(), np.column_stack([X, X])[:, : X.shape[1]],
        sparse.csr_array(X), sparse.csc_array(X), sparse.csr_matrix(X), sparse.coo_array(X),
    ):  # fmt: skip
        model = kind(beta=beta).fit(other, pd.Series(y) if sparse.issparse(other) else pl.Series(y))
        # Dense rows are summed in another order than sparse ones, in weights of float32.
        assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-7)
        assert_allclose(model.predict(other), expected.predict(X), rtol=1e-6, atol=1e-7)


def test_float32_rows_stay_float32():
    X, y = CANCER
    model = FTRLClassifier(beta=1.0).fit(X.astype(np.float32), y)
    wide = FTRLClassifier(beta=1.0).fit(X.astype(np.float32).astype(np.float64), y)
    assert_allclose(model.coef_, wide.coef_, rtol=1e-5)
    frozen = X.astype(np.float32)
    frozen.flags.writeable = False
    same(model, FTRLClassifier(beta=1.0).fit(frozen, y))


def test_a_mixture_learns_the_same_from_float32_and_float64_rows():
    X, y = CANCER[0][:100].astype(np.float32), CANCER[1][:100]
    for intercept in (True, False):
        model = FTRLClassifier(fit_intercept=intercept).fit(X, y)
        same(model, FTRLClassifier(fit_intercept=intercept).fit(X.astype(np.float64), y))


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(0, 9), st.booleans(), st.booleans(), st.booleans(), st.integers(1, 40))
def test_blocks_are_the_rows_that_were_asked_for(seed, n, constant, unit, shuffled, entries):
    random = np.random.default_rng(seed)
    X = np.round(random.normal(size=(n, 3))) * 10.0 ** random.choice([-200, 0, 200], (n, 1))
    order = random.permutation(n) if shuffled else None
    expected = X if order is None else X[order]
    if unit:
        largest = np.abs(expected).max(axis=1, keepdims=True)
        expected = expected / np.where(largest > 0.0, largest, 1.0)
        norms = np.linalg.norm(expected, axis=1, keepdims=True)
        expected = expected / np.where(norms > 0.0, norms, 1.0)
    if constant:
        expected = np.column_stack([expected, np.ones(n)])
    for kind in (np.asarray, sparse.csr_array, lambda a: _wide(sparse.csr_array(a))):
        found = list(blocks(each_once(kind(X)), constant=constant, unit=unit, order=order, entries=entries))
        assert [a for a, _, _ in found] + [n] == [0] * (n == 0) + [0] * (n > 0) + [b for _, b, _ in found]
        rows = [_matrix(b, 3 + constant) for _, _, b in found]
        assert_allclose(np.vstack([*rows, expected[:0]]), expected, rtol=1e-14)


def _matrix(rows, width):
    if isinstance(rows, Dense):
        return rows.data.reshape(-1, rows.dimension)
    assert rows.width == np.diff(rows.indptr).max(initial=0)
    return sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=(len(rows.indptr) - 1, width)).toarray()


def _wide(x):
    x.indices, x.indptr = x.indices.astype(np.int64), x.indptr.astype(np.int64)
    return x


def test_a_matrix_without_preparation_is_not_copied():
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    [(_, _, rows)] = blocks(X)
    assert np.shares_memory(rows.data, X)
    [(_, _, rows)] = blocks(each_once(made := sparse.csr_array(X)))
    assert np.shares_memory(rows.data, made.data) and np.shares_memory(rows.indices, made.indices)


def test_entries_named_twice_are_added():
    twice = sparse.csr_array(([1.0, 1.0, 3.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    once = np.array([[2.0, 0.0], [0.0, 3.0]])
    for intercept in (True, False):
        model = FTRLRegressor(beta=1.0, fit_intercept=intercept)
        with interpreted():
            assert_allclose(model.fit(twice, [1.0, 2.0]).coef_, model.fit(once, [1.0, 2.0]).coef_, rtol=1e-6)
    assert twice.nnz == 3


def test_unit_rows_are_made_before_they_meet_the_weights():
    """A feature of size 1e-160 has a weight of size 1e160: the product with a long row would not be in float64."""
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2)) * [1.0, 1e-160]
    with interpreted():
        model = FTRLClassifier(normalize="unit").fit(X, X[:, 0] * X[:, 1] > 0.0)
        expected = model.decision_function([[0.6, 0.8]])
    assert np.abs(model.coef_).max() > 1e155
    for kind in (np.asarray, sparse.csr_array):
        assert_allclose(model.decision_function(kind([[0.6e160, 0.8e160]])), expected, rtol=1e-12)
