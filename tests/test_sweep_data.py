"""The data of a sweep: what is read, what is done to it, and how it is known again."""

import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from giftrl.errors import InvalidInput
from giftrl.sweeps import fingerprint, load, prepare, read_all, signed
from tests.sweep_rows import examples

pytestmark = pytest.mark.plain


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 8), features=st.integers(1, 5))
def test_the_fingerprint_is_that_of_the_numbers(seed, rows, features):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-2, 3, (rows, features)) / 2.0, rng.integers(0, 2, rows).astype(float)
    mark = fingerprint(x, y)
    assert fingerprint(csr_array(x), y) == mark
    assert fingerprint(np.hstack([x, np.zeros((rows, 1))]), y) == mark
    j, i = rng.integers(features), rng.integers(rows)
    changed = x.copy()
    changed[i, j] += 0.25
    assert fingerprint(changed, y) != mark
    other = y.copy()
    other[i] = 1.0 - other[i]
    assert fingerprint(x, other) != mark


@given(seed=st.integers(0, 2**32), how=st.sampled_from(["standard", "unit", "raw"]))
def test_preparation_keeps_its_word(seed, how):
    x, _ = examples(seed=seed)
    dense, applied = prepare(x, how)
    rows = dense if isinstance(dense, np.ndarray) else dense.toarray()
    assert applied == how and rows.shape == (40, 6)
    if how == "raw":
        assert np.array_equal(rows[:, :-1], x) and (rows[:, -1] == 1.0).all()
        return
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(40))
    # The constant is that of a row of norm 1 to which a 1 was appended; an empty row is the constant alone.
    empty = np.linalg.norm(rows[:, :-1], axis=1) == 0.0
    assert rows[:, -1] == pytest.approx(np.where(empty, 1.0, math.sqrt(0.5)))
    directions = rows[:, :-1]
    if how == "standard":
        spread = x.std(axis=0)
        x = (x - x.mean(axis=0)) / np.where(spread > 0.0, spread, np.inf)
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    assert directions * math.sqrt(2.0) == pytest.approx(x / np.where(lengths > 0.0, lengths, 1.0))


def test_auto_standardises_dense_data_and_keeps_sparse_data_sparse():
    dense, sparse = examples(density=0.5)[0], np.eye(30)
    assert prepare(dense)[1] == "standard"
    x, how = prepare(sparse)
    assert how == "unit" and x.nnz == 60


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1.0), (1.0, 2.0), (3.0, 7.0)])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_two_labels_become_minus_one_and_plus_one(low, high, loss):
    y = np.array([low, high, high, low])
    assert signed(y, loss).tolist() == [-1.0, 1.0, 1.0, -1.0]
    assert signed(y, "absolute").tolist() == y.tolist()


def test_more_labels_need_a_positive_one():
    y = np.array([0.0, 1.0, 2.0])
    with pytest.raises(InvalidInput, match="must have two values for hinge"):
        signed(y, "hinge")
    assert signed(y, "hinge", 2.0).tolist() == [-1.0, -1.0, 1.0]
    with pytest.raises(InvalidInput, match="must be a label of the data"):
        signed(y, "hinge", 5.0)


def entries(row, before):
    return "".join(f"{before}{k}:{v}" for k, v in row.items())


@pytest.mark.parametrize("density", [0.05, 0.6])
def test_libsvm_text_is_read_as_scikit_learn_reads_it(tmp_path, density):
    x, y = examples(80, 30, density=density)
    dump_svmlight_file(x, y, str(tmp_path / "rows"), zero_based=False)
    (tmp_path / "rows.gz").write_bytes(gzip.compress((tmp_path / "rows").read_bytes()))
    expected, labels = load_svmlight_file(str(tmp_path / "rows"))
    for name in ("rows", "rows.gz"):
        found, y = read_all(tmp_path / name)
        assert found.shape == expected.shape and np.array_equal(y, labels)
        for part in ("data", "indices", "indptr"):
            got, there = getattr(found, part), getattr(expected, part)
            assert np.array_equal(got, there) and got.dtype == there.dtype


def test_a_sweep_reads_what_train_reads(tmp_path):
    rows = [(1, {1: 0.5, 3: 2.0}), (-1, {2: 1.0}), (1, {})]
    (tmp_path / "a.svm").write_text("".join(f"{y}{entries(row, ' ')}\n" for y, row in rows))
    (tmp_path / "a.vw").write_text("".join(f"{y} |{entries(row, ' ')}\n" for y, row in rows))
    (tmp_path / "a.csv").write_text("label,1,2,3\n1,0.5,0,2\n-1,0,1,0\n1,0,0,0\n")
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"label": y, "features": {str(k): v for k, v in row.items()}}) + "\n" for y, row in rows)
    )
    marks = {fingerprint(*read_all(tmp_path / f"a.{ending}")) for ending in ("svm", "vw", "csv", "jsonl")}
    assert marks == {fingerprint(np.array([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0], [0.0] * 3]), np.array([1.0, -1.0, 1.0]))}


def test_named_features_are_columns_in_the_order_of_first_sight(tmp_path):
    (tmp_path / "a.vw").write_text("1 |u age:3 |7 x\n-1 |7 x:2 y\n")
    assert read_all(tmp_path / "a.vw")[0].toarray().tolist() == [[3.0, 1.0, 0.0], [0.0, 2.0, 1.0]]
    # Hashes that are written as numbers are names: as columns they would take more memory than there is.
    (tmp_path / "a.svm").write_text("1 4294967295:3 7:1\n")
    assert read_all(tmp_path / "a.svm")[0].toarray().tolist() == [[3.0, 1.0]]
    assert load(tmp_path / "a.vw", "hinge").name == "a.vw"


def test_a_file_that_a_sweep_cannot_use_is_refused(tmp_path):
    for content, message in [
        ("this is not data\n", "the format is unknown: its first line is 'this is not data'"),
        ("1 1:2\n1 2:x\n", r"few:2:5: a value that is not a number: 'x'"),
        ("1 |a x\n|a y\n", r"few:2:1: no label, expected a number"),
        ("1 2.0 |a x\n", "must have no weights"),
        ("# nothing\n", "must have at least one example"),
    ]:
        (tmp_path / "few").write_text(content)
        with pytest.raises(InvalidInput, match=message):
            load(tmp_path / "few", "hinge", format="libsvm" if content.startswith("#") else None)
    with pytest.raises(InvalidInput, match="no such file"):
        load(tmp_path / "nowhere", "hinge")
