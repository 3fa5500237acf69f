"""Hashed products: the names of their factors are kept, and with them the signs of their values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.streams.names.features import SEPARATOR, Dictionary, Hashing, restore
from giftrl.streams.names.interactions import Crossing, Interactions
from giftrl.streams.reader import Reader
from tests.stream_rows import named_rows
from tests.test_streams_interactions import choices, entry_rows, make, mixed, pair_lists, wanted


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
