"""The walk over a JSON object: names and values of nested rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.streams.names.objects import BadValue, Keys, walk
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
    row = {"id": 7, "zip": 100, "u": {"x": 1, "y": 2.5, "z": {"deep": 1}}, "v": [1, True], "n": None, "t": "", "3": 4}
    found = walk(row, Keys(ignored={"id", "u^x", "u^z"}, categorical={"zip", "u^y", "v"}))
    assert [each[:2] for each in found] == [("zip=100", 1), ("u^y=2.5", 1), ("v=1", 1), ("v=true", 1), ("3", 4)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, "x"], "a list of several kinds of things"),
        ([[1]], "a list of several kinds of things"),
    ],
)
def test_values_that_are_no_feature(value, message):
    with pytest.raises(BadValue, match=message) as raised:
        list(walk({"a": {"b": value}}))
    assert raised.value.name == "a^b"


def test_rows_may_not_be_nested_for_ever():
    row = {"a": 1.0}
    for _ in range(120):
        row = {"a": row}
    with pytest.raises(BadValue, match="too deep"):
        list(walk(row))
