"""The walk over a dict: names and values of nested rows, and their coordinates through a cache."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.errors import InvalidInput
from giftrl.streams.names.features import Dictionary, Hashing
from giftrl.streams.names.walk import BadValue, NamedRows, walk
from tests.stream_rows import flat

KEYS = st.sampled_from(["a", "b", "c d", "é", "long name"])
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e300, 1e300) | st.text("xyz", max_size=2)
)
ROWS = st.dictionaries(
    KEYS,
    LEAVES
    | st.lists(st.text("xyz", max_size=2), max_size=3)
    | st.lists(st.none() | st.floats(-9, 9), max_size=3)
    | st.dictionaries(KEYS, LEAVES | st.dictionaries(KEYS, LEAVES, max_size=2), max_size=3),
    max_size=5,
)


@given(ROWS)
def test_a_row_means_what_the_slow_twin_says(row):
    out: dict[str, float] = {}
    for name, value, group in walk(row):
        assert name.startswith(group) and group in row
        if value:
            out[name] = out.get(name, 0.0) + value
    expected: dict[str, float] = {}
    for key, value in row.items():
        flat(key, value, expected)
    assert out == expected


def test_what_is_left_out_and_what_is_a_category():
    row = {"id": 7, "zip": 100, "u": {"x": 1, "y": 2.5, "z": {"deep": 1}}, "v": [1, True], "n": None, "t": "", 3: 4}
    found = walk(row, ignored={"id", "u^x", "u^z"}, categorical={"zip", "u^y", "v"})
    assert [each[:2] for each in found] == [("zip=100", 1), ("u^y=2.5", 1), ("v=1", 1), ("v=true", 1), ("3", 4)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "not finite"),
        (float("-inf"), "not finite"),
        (10**400, "too large"),
        ([1, "x"], "a list of several kinds of things"),
        ([[1]], "a list of several kinds of things"),
        (object(), "a value of type object"),
    ],
)
def test_values_that_are_no_feature(value, message):
    with pytest.raises(BadValue, match=message) as raised:
        list(walk({"a": {"b": value}}))
    assert raised.value.name == "a^b"
    features = Dictionary()
    with pytest.raises(InvalidInput, match=message):
        NamedRows(features).learn({"new": 1, "a": value})
    assert features.dimension == 1  # nothing was learnt from the row


def test_rows_may_not_be_nested_for_ever():
    row = {"a": 1.0}
    for _ in range(120):
        row = {"a": row}
    with pytest.raises(BadValue, match="too deep"):
        list(walk(row))


@pytest.mark.parametrize("make", [lambda: Hashing(10), Dictionary], ids=["hashing", "dictionary"])
@given(rows=st.lists(ROWS | st.dictionaries(KEYS | st.integers(0, 3), st.floats(-9, 9), max_size=4), max_size=6))
def test_the_cache_gives_the_coordinates_that_features_give(make, rows):
    features, twin = make(), make()
    cached = NamedRows(features)
    for row in rows:
        named: dict[str, float] = {}
        for name, value, _ in walk(row):
            named[name] = named.get(name, 0.0) + value
        slots, signs = twin.slots(list(named))
        for _ in range(2):
            values, found = cached.learn(row)
            assert found.dtype == np.int32 and found.tolist() == slots.tolist()
            assert values.tolist() == (signs * list(named.values())).tolist()
        values, found = cached.look_up(row)
        assert found.tolist() == slots.tolist() and values.tolist() == (signs * list(named.values())).tolist()
    assert features.report() == twin.report()
    values, found, indptr = cached.learn_many(rows)
    again = [cached.learn(row) for row in rows]
    assert np.diff(indptr).tolist() == [len(slots) for _, slots in again]
    assert found.tolist() == [slot for _, slots in again for slot in slots.tolist()]
    assert values.tolist() == [value for values, _ in again for value in values.tolist()]


def test_looking_up_learns_nothing():
    features = Dictionary()
    rows = NamedRows(features)
    rows.learn({"a": 1.0, "c": "x"})
    values, slots = rows.look_up({"new": 2.0, "a": 0.0, "c": "y"})
    assert (values.tolist(), slots.tolist(), features.dimension) == ([0.0], [1], 3)
    values, slots, indptr = rows.look_up_many([{"new": 2.0}, {"a": 3.0, "other": 1.0, "c": "x"}])
    assert (values.tolist(), slots.tolist(), indptr.tolist()) == ([3.0, 1.0], [1, 2], [0, 0, 2])
    # A cache that is new, as after loading a model, finds what the dictionary has.
    assert NamedRows(features).look_up({"c": "x", "d": "x"})[1].tolist() == [2]
    assert features.frozen is False

    hashing = Hashing(10)
    rows = NamedRows(hashing)
    first = rows.look_up({"a": 1.0, "b": 2.0})
    assert hashing.report().used == 0
    second = rows.learn({"a": 1.0, "b": 2.0})
    assert hashing.report().used == 2
    assert [each.tolist() for each in first] == [each.tolist() for each in second]


def test_numbers_of_numpy_are_numbers():
    values, _ = NamedRows(Dictionary()).learn({"a": np.float32(0.5), "b": np.int8(3), "c": np.bool_(True)})
    assert values.tolist() == [0.5, 3.0, 1.0]
