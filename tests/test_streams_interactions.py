"""Interactions: the products are those of a slow twin, and of Vowpal Wabbit."""

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.errors import InvalidInput
from giftrl.streams.batch import Batch, Position
from giftrl.streams.names.features import SEPARATOR, Dictionary, Hashing, restore
from giftrl.streams.names.interactions import Crossing, Interactions
from giftrl.streams.reader import Reader
from tests.stream_rows import check, named_rows, vowpal_wabbit

GROUPS = ["", "a", "ab", "b", "c", "user"]


class Entry(NamedTuple):
    slot: int
    value: float
    group: str


def make(rows: list[list[Entry]], interactions: Interactions) -> Batch:
    entries = [entry for row in rows for entry in row]
    count = len(rows)
    return Batch(
        source="x",
        data=np.array([entry.value for entry in entries], np.float64),
        indices=np.array([entry.slot for entry in entries], np.int32),
        indptr=np.cumsum([0, *map(len, rows)], dtype=np.int64),
        labels=np.arange(count, dtype=np.float64),
        weights=np.ones(count),
        lines=np.arange(1, count + 1),
        groups=np.array([interactions.code(entry.group) for entry in entries], np.uint8),
        end=Position(0, 0, count + 1),
    )


def wanted(products: list[tuple[str, ...]], groups: list[str]) -> bool:
    """Whether the groups fill the places of a product in some order."""

    def is_(term: str, group: str) -> bool:
        return term == ":" or (group[:1] == term if len(term) == 1 else group == term)

    return any(
        all(map(is_, given, order)) for given in products if len(given) == len(groups) for order in permutations(groups)
    )


def choices(row: list[Entry], products: list[tuple[str, ...]]) -> Iterator[list[Entry]]:
    """The factors of every product of a row, sorted by their coordinates."""
    for size in sorted(set(map(len, products))):
        for factors in combinations_with_replacement(row, size):
            if wanted(products, [factor.group for factor in factors]):
                yield sorted(factors)


def splitmix(key: int) -> int:
    key = key + 0x9E3779B97F4A7C15 & 2**64 - 1
    key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
    key = (key ^ key >> 27) * 0x94D049BB133111EB & 2**64 - 1
    return key ^ key >> 31


def mixed(slots: list[int]) -> int:
    """splitmix64 of the first two coordinates, and of what comes of it with each further one; its upper half."""
    one, two, *others = sorted(slots)
    key = splitmix(one << 32 | two)
    for other in others:
        key = splitmix(key ^ other)
    return key >> 32


def hashed_twin(row: list[Entry], products: list[tuple[str, ...]], bits: int) -> dict[int, float]:
    out: dict[int, float] = {}
    for entry in row:
        out[entry.slot] = out.get(entry.slot, 0.0) + entry.value
    for factors in choices(row, products):
        slot = mixed([factor.slot for factor in factors]) % 2**bits
        out[slot] = out.get(slot, 0.0) + math.prod(factor.value for factor in factors)
    return out


terms = st.sampled_from([":", "a", "b", "c", "ab", "user", "z"])
pair_lists = st.lists(st.lists(terms, min_size=2, max_size=4).map(tuple), max_size=3)


@st.composite
def entry_rows(draw, top: int = 64):
    rows = []
    for _ in range(draw(st.integers(0, 5))):
        slots = draw(st.lists(st.integers(1, top - 1), unique=True, max_size=6))
        rows.append(
            [Entry(s, draw(st.integers(-8, 8).map(float)), draw(st.sampled_from(GROUPS))) for s in slots]
        )  # whole numbers, so that sums are exact in any order
    return rows


@given(rows=entry_rows(), pairs=pair_lists, piece=st.integers(1, 60), compiled=st.booleans())
def test_hashed_products_are_those_of_the_twin(rows, pairs, piece, compiled):
    features, interactions = Hashing(6), Interactions(pairs)
    batch = make(rows, interactions)
    found, lines = [], []
    for part in Crossing(interactions, features, compiled=compiled).cross(batch, piece):
        check(part.batch, features)
        assert not part.bad
        lines += part.batch.lines.tolist()
        for i in range(len(part.batch)):
            at = slice(part.batch.indptr[i], part.batch.indptr[i + 1])
            found.append(dict(zip(part.batch.indices[at].tolist(), part.batch.data[at].tolist(), strict=True)))
    assert lines == batch.lines.tolist()
    assert found == [hashed_twin(row, pairs, 6) for row in rows]


@given(rows=entry_rows(), pairs=pair_lists, compiled=st.booleans())
def test_products_in_a_dictionary_are_named(rows, pairs, compiled):
    features, interactions = Dictionary(), Interactions(pairs)
    features.slots([f"f{i}" for i in range(1, 64)])
    crossing = Crossing(interactions, features, compiled=compiled)
    parts = list(crossing.cross(make(rows, interactions), 20))
    found = [row[3] for row in named_rows([part.batch for part in parts], features)]
    for row, values in zip(rows, found, strict=True):
        expected = {f"f{entry.slot}": entry.value for entry in row}
        for factors in choices(row, pairs):
            name = SEPARATOR.join(f"f{factor.slot}" for factor in factors)
            expected[name] = math.prod(factor.value for factor in factors)
        assert values == expected
    # A second time the same, from the table of pairs; and so for a fresh table in front of the same dictionary.
    before = features.dimension
    for again in (crossing, Crossing(interactions, features)):
        parts = list(again.cross(make(rows, interactions)))
        assert [row[3] for row in named_rows([part.batch for part in parts], features)] == found
    assert features.dimension == before


def test_a_frozen_dictionary_has_no_new_products():
    features, interactions = Dictionary(), Interactions([(":", ":")])
    features.slots(["f1", "f2", "f3"])
    crossing = Crossing(interactions, features)
    first = make([[Entry(1, 2.0, "g"), Entry(2, 3.0, "g")]], interactions)
    list(crossing.cross(first))
    features.freeze()
    more = make([[Entry(1, 2.0, "g"), Entry(2, 3.0, "g"), Entry(3, 5.0, "g")]], interactions)
    [part] = crossing.cross(more)
    names = set(named_rows([part.batch], features)[0][3])
    x = SEPARATOR
    assert names == {"f1", "f2", "f3", f"f1{x}f1", f"f1{x}f2", f"f2{x}f2"}
    features.thaw()
    [part] = crossing.cross(more)
    assert len(named_rows([part.batch], features)[0][3]) == 9


def test_rows_with_too_many_or_too_large_products():
    features, interactions = Hashing(10), Interactions([(":", ":")])
    rows = [
        [Entry(1, 2.0, "g")],
        [Entry(i, 1.0, "g") for i in range(20)],
        [Entry(1, 1e200, "g"), Entry(2, 1e200, "g")],
        [],
        [Entry(1, 3.0, "g")],
    ]
    parts = list(Crossing(interactions, features).cross(make(rows, interactions), 4, most=100))
    assert [line for part in parts for line in part.batch.lines.tolist()] == [1, 4, 5]
    assert sorted(each for part in parts for each in part.bad) == [
        (2, "a row with 210 products of features", "at most 100"),
        (3, "a product of features that is too large", "a finite number"),
    ]


@pytest.mark.parametrize(
    "pairs",
    [
        *(["ab"], ["aa"], ["ab", "ac", "ba"], ["::"], [":a"], ["aa", "ab"], ["zz"]),
        *(["abc"], ["aab"], ["aaa"], ["abb", "bab", "ab"], [":::"], ["abbb"], ["abz"]),
    ],
)
@pytest.mark.parametrize("text", ["1 |ad x:2 y:3 |b z:4 |c q", "1 |a x:2 |an y:3 z |b w:0.5 v"])
def test_vowpal_wabbit_has_the_same_products(tmp_path, capfd, pairs, text):
    theirs = {
        "*".join(sorted(name.split("*"))): value
        for name, value in vowpal_wabbit(text, " ".join(f"--interactions {pair}" for pair in pairs), capfd).items()
    }
    features = Dictionary()
    path = tmp_path / "x.vw"
    path.write_text(text + "\n")
    [batch] = Reader(path, features, interactions=pairs, constant=False)
    ours = named_rows([batch], features)[0][3]
    assert {"*".join(sorted(name.split(SEPARATOR))): value for name, value in ours.items()} == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.vw", "1 |user age:2 |ad red |other z\n"),
        ("x.csv", "label,user^age,ad,other\n1,2,red,z\n"),
        ("x.json", '{"label": 1, "user": {"age": 2}, "ad": "red", "other": "z"}\n'),
    ],
)
def test_groups_are_namespaces_columns_and_keys(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    features = Dictionary()
    for pairs in ([("user", "ad")], ["ua"], ["uao"], [("other", "user", "ad")]):
        [batch] = Reader(path, features, interactions=pairs, constant=False)
        products = [each for each in named_rows([batch], features)[0][3] if SEPARATOR in each]
        third = [] if len(pairs[0]) == 2 else ["other^z" if name == "x.vw" else "other=z"]
        factors = ["ad^red" if name == "x.vw" else "ad=red", *third, "user^age"]
        assert [sorted(each.split(SEPARATOR)) for each in products] == [factors]


def test_formats_without_groups(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1 1:2 3:4\n")
    features = Dictionary()
    [batch] = Reader(path, features, interactions=["::"], constant=False)
    x = SEPARATOR
    assert named_rows([batch], features)[0][3] == {"1": 2.0, "3": 4.0, f"1{x}1": 4.0, f"1{x}3": 8.0, f"3{x}3": 16.0}
    with pytest.raises(InvalidInput, match="LIBSVM text has no namespaces"):
        list(Reader(path, features, interactions=["ab"]))


@pytest.mark.parametrize("compiled", [True, False])
def test_rows_with_too_many_products_of_three_are_rejected_before_they_are_made(compiled):
    interactions = Interactions([":::"])
    rows = [[Entry(i, 1.0, "g") for i in range(size)] for size in (5, 10**5 if compiled else 1000, 4)]
    parts = list(Crossing(interactions, Hashing(10), compiled=compiled).cross(make(rows, interactions), most=10**7))
    assert [line for part in parts for line in part.batch.lines.tolist()] == [1, 3]
    [(line, problem, expected)] = [each for part in parts for each in part.bad]
    count = math.comb(len(rows[1]) + 2, 3)
    assert (line, problem, expected) == (2, f"a row with {count} products of features", "at most 10000000")


def test_bad_pairs():
    for pairs in ([("a",)], [("", "b")], ["a"], [("a", "", "b")]):
        with pytest.raises(InvalidInput, match="must be two or more names, or letters"):
            Interactions(pairs)
    many = Interactions([(f"n{i}", f"m{i}") for i in range(200)])
    with pytest.raises(InvalidInput, match="more than 255 groups"):
        [many.code(f"{letter}{i}") for i in range(200) for letter in "nm"]
    many = Interactions([(":", ":", ":"), *((f"n{i}", f"n{i}") for i in range(60))])
    with pytest.raises(InvalidInput, match="more than 65536 choices of groups"):
        [many.code(f"n{i}") for i in range(60)]


def test_any_number_of_namespaces(tmp_path):
    path = tmp_path / "x.vw"
    path.write_text("1 " + " ".join(f"|n{i} x:2" for i in range(300)) + "\n")
    for pairs, products in ([("n299", "n298")], 1), (["nn"], 300 * 301 // 2):
        features = Dictionary()
        [batch] = Reader(path, features, interactions=pairs, constant=False)
        values = named_rows([batch], features)[0][3]
        assert len(values) == 300 + products and values[f"n298^x{SEPARATOR}n299^x"] == 4.0


# Hashed products: the names of their factors are kept, and with them the signs of their values.


def rows_of(features):
    """The coordinates of products, each with those of its factors."""
    return np.column_stack(features._products.arrays())


def unordered(values: dict[str, float]) -> dict[str, float]:
    return {SEPARATOR.join(sorted(name.split(SEPARATOR))): value for name, value in values.items()}


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("products", [["ua"], ["uu", "uap"], [":::"]])
def test_hashed_products_have_the_names_and_values_of_a_dictionary(tmp_path, products, background):
    path = tmp_path / "x.vw"
    path.write_text("1 |user u1 u2:2 |ad a1:3 |page p:5\n1 |user u3 |ad a1:-1 a2 |page p:7\n")
    exact, hashed = Dictionary(), Hashing(24)
    expected = named_rows(Reader(path, exact, interactions=products), exact)
    for _ in range(2):  # the second time there is nothing new
        batches = list(Reader(path, hashed, interactions=products, background=background))
        features = restore(*hashed.state())
        assert features.state()[0] == hashed.state()[0]
        for batch in batches:
            batch.data[:] *= [features.sign(slot) for slot in batch.indices.tolist()]
        found = named_rows(batches, features)
        assert [unordered(row[3]) for row in found] == [unordered(row[3]) for row in expected]


@given(rows=entry_rows(), products=pair_lists, cut=st.integers(0, 5), compiled=st.booleans())
def test_the_first_product_of_a_coordinate_is_kept_however_rows_are_cut(rows, products, cut, compiled):
    first: dict[int, list[int]] = {}
    whole, parts, interactions = Hashing(6), Hashing(6), Interactions(products)
    for _ in Crossing(interactions, whole, compiled=compiled).cross(make(rows, interactions)):
        pass
    for some in (rows[:cut], rows[cut:]):
        ahead = parts.ahead()
        for _ in Crossing(interactions, ahead, compiled=compiled).cross(make(some, interactions)):
            parts.learn(ahead.news())
    for row in rows:
        pairs = [given for given in products if len(given) == 2]
        there = {tuple(factor.slot for factor in factors) for factors in choices(row, products)}
        assert all(mixed(list(each)) % 64 in {row[0] for row in rows_of(whole)} for each in there)
        for k, one in enumerate(row):
            for two in row[: k + 1]:
                if wanted(pairs, [one.group, two.group]) and len(pairs) == len(products):
                    slots = sorted([one.slot, two.slot])
                    first.setdefault(mixed(slots) % 64, slots)
    assert rows_of(whole).tolist() == rows_of(parts).tolist()
    if all(len(given) == 2 for given in products):
        assert {row[0]: row[1:] for row in rows_of(whole).tolist()} == first
