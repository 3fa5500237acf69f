"""Archives of NumPy and SciPy: rows agree with their matrices."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from giftrl.errors import BadSource
from giftrl.streams.batch import Position
from giftrl.streams.names.features import Dictionary
from giftrl.streams.source import Source, Stream
from giftrl.streams.tables import npz
from giftrl.streams.tables.npz import NpzMatrix
from tests.stream_rows import named_rows


def read_npz(path: Path, start: int = 0):
    features = Dictionary()
    with Stream(Source("x.npz", path)) as stream:
        batches = list(NpzMatrix(features).read(stream, start=Position(0, start, start + 1)))
    return named_rows(batches, features), [(b.line, b.column) for batch in batches for b in batch.rejected]


def npz_twin(matrix, labels, weights) -> list:
    rows = []
    for i, (row, label, weight) in enumerate(zip(matrix.tolist(), labels, weights, strict=True)):
        rows.append((i + 1, label, weight, {str(j + 1): v for j, v in enumerate(row) if v != 0.0}))
    return rows


@pytest.mark.parametrize("layout_", ["dense", "fortran", "float32", "parts", "csr", "csc", "coo", "compressed", "int"])
def test_npz_agrees_with_its_matrix(tmp_path, monkeypatch, layout_):
    monkeypatch.setattr(npz, "MAX_NPZ_CELLS", 16)
    monkeypatch.setattr(npz, "MAX_NPZ_ROWS", 7)
    rng = np.random.default_rng(0)
    matrix = np.where(rng.random((50, 6)) < 0.4, rng.integers(-5, 6, (50, 6)), 0).astype(np.float64)
    y, h = rng.integers(0, 2, 50).astype(np.float64), rng.integers(1, 4, 50).astype(np.float64)
    path = tmp_path / "x.npz"
    csr = sparse.csr_array(matrix)
    if layout_ == "parts":
        np.savez(path, data=csr.data, indices=csr.indices, indptr=csr.indptr, shape=csr.shape, y=y, weights=h)
    elif layout_ in ("csr", "csc", "coo"):
        sparse.save_npz(path, csr.asformat(layout_))
        np.save(tmp_path / "x.y.npy", y)
        np.save(tmp_path / "x.weights.npy", h)
    elif layout_ == "compressed":
        np.savez_compressed(path, X=matrix, y=y.astype(np.int8), weights=h)
    else:
        stored = {"fortran": np.asfortranarray(matrix), "float32": matrix.astype("f4"), "int": matrix.astype("i2")}
        np.savez(path, X=stored.get(layout_, matrix), y=y, weights=h)
    expected = npz_twin(matrix, y, h)
    assert read_npz(path) == (expected, [])
    assert read_npz(path, start=23)[0] == expected[23:]
    assert read_npz(path, start=50)[0] == []
    with pytest.raises(BadSource, match="ends at row 50, before row 51"):
        read_npz(path, start=51)


def test_npz_rows_that_are_not_finite(tmp_path):
    path = tmp_path / "x.npz"
    matrix = np.array([[1.0, 2.0], [0.0, np.nan], [3.0, 0.0], [np.inf, 1.0], [1.0, 1.0]])
    np.savez(path, X=matrix, y=[1.0, 1.0, np.nan, 1.0, np.inf], weights=[1, 1, 1, 1, 1])
    rows, bad = read_npz(path)
    assert rows == [(1, 1.0, 1.0, {"1": 1.0, "2": 2.0}), (3, None, 1.0, {"1": 3.0})]
    assert bad == [(2, 2), (4, 1), (5, 1)]


def test_npz_errors(tmp_path):
    path = tmp_path / "x.npz"
    for arrays, message in [
        ({"X": np.array([[{}]])}, "Python objects"),
        ({"X": np.ones(3)}, "must be a matrix"),
        ({"A": np.ones((3, 3))}, "it holds A; expected X"),
        ({"X": np.ones((3, 3)), "y": np.ones(4)}, r"y has shape \(4,\), where the matrix has 3 rows"),
        ({"X": np.array([["a"]])}, "X has type"),
        ({"X": np.ones((2, 2), complex)}, "no number"),
        ({"data": np.ones(2), "indices": [0, 9], "indptr": [0, 1, 2], "shape": [2, 3]}, "cannot be read .*must be < 3"),
        ({"data": np.ones(2), "indices": [0, 1], "indptr": [0, 2, 1], "shape": [2, 3]}, "non-decreasing"),
        ({"data": np.ones(2), "indices": [0, 1], "indptr": [0, 1], "shape": [2, 3]}, "cannot be read .*index pointer"),
        ({"data": np.ones(2), "indices": [0, 1], "shape": [2, 3]}, "indptr is not a file in the archive"),
        ({"data": np.ones(2), "indices": [0, 1], "indptr": [0, 2], "shape": [2]}, "cannot be read"),
    ]:
        np.savez(path, **arrays)
        with pytest.raises(BadSource, match=message):
            read_npz(path)
    np.savez(path, X=np.random.default_rng(0).random((100, 100)), y=np.ones(100))
    raw = path.read_bytes()
    path.write_bytes(raw[:-100])
    with pytest.raises(BadSource, match="cannot be read"):
        read_npz(path)
    path.write_bytes(raw[:40_000] + b"xxxxxxxx" + raw[40_008:])
    with pytest.raises(BadSource, match="cannot be read"):
        read_npz(path)


def test_npz_that_lies_about_its_size(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    np.savez(path, X=np.ones((4, 8)), y=np.ones(4))
    raw = path.read_bytes()
    for shape in (b"(9, 8)", b"(1<<60, 8)"[:6]):
        path.write_bytes(raw.replace(b"(4, 8)", shape))
        with pytest.raises(BadSource, match="cannot be read"):
            read_npz(path)
    header = raw[raw.index(b"{'descr'") :].split(b"\n")[0]
    for claim in (b"(99999999999, 8)", b"(2305843009213693951, 8)"):
        lie = header.replace(b"(4, 8)", claim)[: len(header)]
        path.write_bytes(raw.replace(header, lie))
        with pytest.raises(BadSource, match="does not fit in memory|cannot be read"):
            read_npz(path)
    path.write_bytes(raw)
    monkeypatch.setattr(npz, "physical_memory", lambda: 100)
    with pytest.raises(BadSource, match="does not fit in memory .it holds [0-9]+ bytes, and this machine has 100"):
        read_npz(path)


@pytest.mark.parametrize("layout_", ["csr", "csc", "bsr"])
def test_npz_with_an_index_out_of_range(tmp_path, layout_):
    matrix = sparse.csr_array(np.eye(4)).asformat(layout_)
    matrix.indices[1] = 1 << 30
    sparse.save_npz(tmp_path / "x.npz", matrix)
    with pytest.raises(BadSource, match="cannot be read"):
        read_npz(tmp_path / "x.npz")
