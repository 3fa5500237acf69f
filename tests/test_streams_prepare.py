"""Preparation: lengths, the constant, and sums of equal features."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.streams.batch import Batch, Position, keep_rows, merge, overflowed
from giftrl.streams.reader import NORMALIZATIONS, prepare


def make(rows: list[dict[int, float]]) -> Batch:
    count = len(rows)
    return Batch(
        source="x",
        data=np.array([value for row in rows for value in row.values()], np.float64),
        indices=np.array([slot for row in rows for slot in row], np.int32),
        indptr=np.cumsum([0, *map(len, rows)], dtype=np.int64),
        labels=np.arange(count, dtype=np.float64),
        weights=np.ones(count),
        lines=np.arange(1, count + 1),
        groups=np.zeros(sum(map(len, rows)), np.uint8),
        end=Position(0, 0, count + 1),
        tags=tuple(str(i) for i in range(count)),
    )


def as_rows(batch: Batch) -> list[dict[int, float]]:
    found = []
    for i in range(len(batch)):
        at = slice(batch.indptr[i], batch.indptr[i + 1])
        found.append(dict(zip(batch.indices[at].tolist(), batch.data[at].tolist(), strict=True)))
    return found


values = st.floats(allow_nan=False, allow_infinity=False)
row_lists = st.lists(st.dictionaries(st.integers(0, 50), values, max_size=5), max_size=5)


def unit(row: dict[int, float]) -> dict[int, float]:
    largest = max((abs(value) for value in row.values()), default=0.0)
    if largest == 0.0:
        return row
    norm = math.hypot(*(value / largest for value in row.values()))
    return {slot: value / largest / norm for slot, value in row.items()}


@given(
    rows=row_lists,
    normalize=st.sampled_from(NORMALIZATIONS),
    constant=st.sampled_from([None, 51]),
    compiled=st.booleans(),
)
def test_rows_are_those_of_the_twin(rows, normalize, constant, compiled):
    batch = make(rows)
    kept = batch.data.copy()
    found = prepare(batch, normalize, constant, compiled=compiled)
    expected = []
    for row in rows:
        row = unit(row) if normalize != "none" else row
        row = row | ({} if constant is None else {constant: 1.0})
        expected.append(unit(row) if normalize == "unit_after" else row)
    for a, b in zip(as_rows(found), expected, strict=True):
        assert list(a) == list(b)
        assert list(a.values()) == pytest.approx(list(b.values()), rel=1e-14, abs=1e-320)
        if normalize == "unit_after" or (normalize == "unit" and constant is None):
            norm = math.hypot(*a.values())
            assert norm == 0.0 or norm == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_array_equal(batch.data, kept)  # the rows that were given are left as they are
    assert found.labels is batch.labels and found.end == batch.end and found.tags == batch.tags


@given(
    rows=st.lists(
        st.lists(st.tuples(st.integers(-1, 9), st.integers(-9, 9), st.integers(0, 255)), max_size=12), max_size=6
    ),
    grouped=st.booleans(),
    compiled=st.booleans(),
)
def test_equal_features_are_summed(rows, grouped, compiled):
    entries = [entry for row in rows for entry in row]
    data, indices, groups, indptr = merge(
        np.array([value for _, value, _ in entries], np.float64),
        np.array([slot for slot, _, _ in entries], np.int32),
        np.array([group for _, _, group in entries], np.uint8) if grouped else np.empty(0, np.uint8),
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        compiled=compiled,
    )
    assert len(data) == len(indices) == indptr[-1]
    for i, row in enumerate(rows):
        sums: dict[int, float] = {}
        first: dict[int, int] = {}
        for slot, value, group in row:
            if slot >= 0:
                sums[slot] = sums.get(slot, 0.0) + value
                first.setdefault(slot, group)
        at = slice(indptr[i], indptr[i + 1])
        assert dict(zip(indices[at].tolist(), data[at].tolist(), strict=True)) == sums
        assert indices[at].tolist() == list(sums)
        assert not grouped or groups[at].tolist() == list(first.values())


@given(st.data())
def test_keeping_rows(data):
    rows = data.draw(row_lists)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), np.bool_)
    found = keep_rows(make(rows), keep)
    assert as_rows(found) == [row for row, kept in zip(rows, keep, strict=True) if kept]
    assert found.tags == tuple(str(i) for i in np.flatnonzero(keep))
    assert len(found.groups) == len(found.data)


def test_overflow_is_found_by_row():
    batch = make([{1: 1e308, 2: 1e308}, {1: math.inf}, {}, {3: -math.inf, 4: math.nan}, {1: 0.0}])
    assert overflowed(batch.data, batch.indptr).tolist() == [1, 3]
    assert overflowed(make([]).data, make([]).indptr).tolist() == []
