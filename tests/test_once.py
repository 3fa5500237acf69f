"""Rows that name a feature twice: found exactly, and added up; the order of the features in a row does not matter."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from giftrl.adapters.named_rows import NamedLearner
from giftrl.compiled.rows import as_rows, each_once, names_twice
from giftrl.config import Recipe
from giftrl.errors import InvalidInput
from giftrl.kernels import LinearLearner, LinearLearners, MulticlassLearner
from giftrl.linear import FTRLClassifier, FTRLRegressor
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.mixture import MulticlassMixture

pytestmark = pytest.mark.plain

RANDOM = np.random.default_rng(0)
SORTED = sparse.random_array((60, 9), density=0.5, format="csr", rng=RANDOM)
CLASSES = RANDOM.integers(0, 3, 60)


def csr(rows, features, kind=np.int32):
    """A matrix whose rows name these features, in this order."""
    indices = np.array([j for row in rows for j in row], kind)
    indptr = np.cumsum([0, *map(len, rows)]).astype(kind)
    values = np.random.default_rng(1).normal(size=len(indices))
    x = sparse.csr_array((values, indices, indptr), shape=(len(rows), features))
    x.indices, x.indptr = indices, indptr  # SciPy may have chosen another type
    return x


def shuffled(x):
    """The same matrix with the entries of each row in random order."""
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    order = np.lexsort([np.random.default_rng(2).random(x.nnz), rows])
    return type(x)((x.data[order], x.indices[order], x.indptr), shape=x.shape)


def doubled(x):
    """The same matrix with each entry split into two, in random order."""
    rows = np.repeat(np.arange(x.shape[0]), 2 * np.diff(x.indptr))
    part = np.random.default_rng(3).choice([0.25, 0.5], x.nnz)
    data = np.column_stack([part * x.data, (1.0 - part) * x.data]).ravel()
    order = np.lexsort([np.random.default_rng(4).random(2 * x.nnz), rows])
    return type(x)((data[order], np.repeat(x.indices, 2)[order], 2 * x.indptr), shape=x.shape)


@given(
    st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=8),
    st.sampled_from([np.int32, np.int64]),
    st.booleans(),
    st.sampled_from([41, 1 << 20]),
    st.sampled_from([1, 2, 16, 1 << 16]),
)
@settings(max_examples=300)
def test_a_feature_named_twice_is_found_exactly(rows, kind, frozen, features, small):
    """Whatever features share a place in a small table, and however the arrays are stored."""
    x = csr(rows, features, kind)
    x.indices.flags.writeable = x.indptr.flags.writeable = not frozen
    with mock.patch("giftrl.compiled.rows.FIRST_TABLE_PLACES", small):
        assert names_twice(x.indices, x.indptr, features) == any(len(set(row)) != len(row) for row in rows)


@pytest.mark.parametrize("features", [3000, 10**6])
def test_a_long_row(features):
    row = np.random.default_rng(5).permutation(features)[:3000].tolist()
    for rows, twice in (([[], row, []], False), ([row, [*row, row[7]], []], True)):
        x = csr(rows, features)
        assert names_twice(x.indices, x.indptr, features) == twice


def test_more_features_than_any_learner_has_are_left_to_scipy():
    x = csr([[2**40, 5, 2**40], [7, 1]], 2**40 + 1, np.int64)
    expected = x.copy()
    expected.sum_duplicates()
    assert (each_once(x).data == expected.data).all() and (each_once(x).indices == expected.indices).all()


def test_an_unsorted_matrix_is_used_as_it_is():
    x = shuffled(SORTED)
    before = x.data.copy(), x.indices.copy(), x.indptr.copy()
    found = each_once(x)
    assert found.data is x.data and found.indices is x.indices and found.indptr is x.indptr
    assert each_once(found) is found  # it is not asked about again
    rows, _ = as_rows(x, x.shape[1])
    assert rows.data is x.data and rows.indices is x.indices
    assert not x.has_sorted_indices and not x.has_canonical_format
    for array, old in zip((x.data, x.indices, x.indptr), before, strict=True):
        assert (array == old).all()
    assert each_once(SORTED) is SORTED
    assert each_once(dense := SORTED.toarray()) is dense


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_entries_of_one_feature_are_added_in_a_copy(kind):
    x = kind(doubled(SORTED))
    before = x.data.copy(), x.indices.copy(), x.indptr.copy()
    expected = x.copy()
    expected.sum_duplicates()
    found = each_once(x)
    assert (found.data == expected.data).all() and (found.indices == expected.indices).all()
    assert (found.indptr == expected.indptr).all() and type(found) is kind
    for array, old in zip((x.data, x.indices, x.indptr), before, strict=True):
        assert (array == old).all()


WIDE = {"dtype": "float64", "compiled": False}  # few tests have compiled loops for float64
LEARNERS = {
    "one strength": lambda: LinearLearner(9, **WIDE),
    "elastic net": lambda: LinearLearner(9, regularizer="elastic_net", **WIDE),
    "curvature": lambda: LinearLearner(9, regularizer="curvature", **WIDE),
    "many": lambda: LinearLearners(9, [("proximal", "temporal"), ("linear", "sqrt")], **WIDE),
    "many curvature": lambda: LinearLearners(9, [("proximal", "temporal")] * 2, regularizer="curvature", **WIDE),
    "classes": lambda: MulticlassLearner(9, 3, **WIDE),
    "classes, curvature": lambda: MulticlassLearner(9, 3, regularizer="curvature", **WIDE),
    "mixture": lambda: MixtureLearner(9, **WIDE),
    "mixture of classes": lambda: MulticlassMixture(9, 3, **WIDE),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_do_not_mind_the_order_within_a_row(name):
    y = CLASSES if "classes" in name else np.where(CLASSES > 0, 1.0, -1.0)
    learner = LEARNERS[name]()
    expected, weights = learner.learn(SORTED, y), learner.weights_of(slice(None))
    for other in (shuffled(SORTED), doubled(SORTED)):
        learner = LEARNERS[name]()
        assert_allclose(learner.learn(other, y), expected, rtol=1e-7, atol=1e-9)
        assert_allclose(learner.weights_of(slice(None)), weights, rtol=1e-7, atol=1e-9)
        if hasattr(learner, "predict"):
            assert_allclose(learner.predict(other), learner.predict(SORTED), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("normalize", [None, "unit"])
@pytest.mark.parametrize("beta", ["auto", 1.0])
def test_estimators_do_not_mind_the_order_within_a_row(beta, normalize, intercept, passes):
    settings = {"beta": beta, "normalize": normalize, "fit_intercept": intercept, "passes": passes}
    for kind, scores in ((FTRLClassifier, "decision_function"), (FTRLRegressor, "predict")):
        model = kind(**settings).fit(SORTED, CLASSES)
        for other in (shuffled(SORTED), doubled(SORTED)):
            again = kind(**settings).fit(other, CLASSES)
            assert_allclose(again.coef_, model.coef_, rtol=1e-3, atol=1e-4)  # weights are stored in float32
            assert_allclose(getattr(again, scores)(other), getattr(again, scores)(SORTED), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("normalize", [None, "unit"])
@pytest.mark.parametrize("beta", ["auto", 1.0])
def test_named_rows_do_not_mind_the_order_within_a_row(beta, normalize):
    scores = []
    for x in (SORTED, shuffled(SORTED), doubled(SORTED)):
        learner = NamedLearner(Recipe("squared", beta=beta), normalize)
        learner.learn_many(x, range(9), CLASSES.astype(float))
        scores.append(learner.score_many(x, range(9)))
    assert_allclose(scores[1:], [scores[0]] * 2, rtol=1e-3)  # weights are stored in float32


@pytest.mark.parametrize(
    ("indices", "indptr", "message"),
    [
        ([0, 3], [0, 1, 2], "x.indices.*from 0 to 2"),
        ([0, -1], [0, 1, 2], "x.indices.*from 0 to 2"),
        ([0, 1], [0, 2, 1], "x.indptr.*must not decrease"),
        ([0, 1], [0, 1, 9], "x.indptr.*end with the entries"),
    ],
)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_entries_beyond_the_matrix_are_refused(indices, indptr, message, kind):
    x = sparse.csr_array(np.eye(3)[:2])
    x.data, x.indices, x.indptr = np.ones(2), np.array(indices, kind), np.array(indptr, kind)
    x.has_canonical_format = True  # so that SciPy does not look at it
    learner = LinearLearner(3, "squared", compiled=False)
    with pytest.raises(InvalidInput, match=message):
        learner.learn(x, [1.0, 2.0])
    assert learner.rounds == 0
