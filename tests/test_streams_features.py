"""Names to coordinates: scikit-learn's FeatureHasher, Python's dict, and files that hold them."""

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import murmurhash3_32

from giftrl.compiled.compiler import ready
from giftrl.errors import InvalidInput, UnknownName
from giftrl.streams.names.features import Dictionary, Hashing, restore
from giftrl.streams.names.tables import Sections, add_bytes, begin_name, end_name

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
KINDS = pytest.mark.parametrize("make", [lambda: Hashing(12), Dictionary], ids=["hashing", "dictionary"])


@given(st.binary(max_size=40), st.booleans())
def test_murmur_is_that_of_scikit_learn(name, compiled):
    state = ready(add_bytes, compiled)(np.frombuffer(name, np.uint8), 0, len(name), begin_name())
    assert ready(end_name, compiled)(state) == murmurhash3_32(name) % 2**32


@given(st.lists(NAMES, max_size=20), st.integers(1, 30), st.booleans())
def test_hashing_is_feature_hasher(names, bits, compiled):
    slots, signs = Hashing(min(bits, 20), compiled=compiled).slots(names)
    hashed = FeatureHasher(2 ** min(bits, 20), input_type="string").transform([[name] for name in names] or [[]])
    assert slots.tolist() == hashed.indices.tolist()
    assert signs.tolist() == hashed.data.tolist()


def name_with_hash(h: int) -> bytes:
    """The four bytes with this MurmurHash3: every step is a bijection of words, and is run backwards here."""
    word = 2**32

    def unshift(x: int, by: int) -> int:
        y = x
        for _ in range(32 // by + 1):
            y = x ^ y >> by
        return y

    h = unshift(h, 16) * pow(0xC2B2AE35, -1, word) % word
    h = unshift(h, 13) * pow(0x85EBCA6B, -1, word) % word
    h = unshift(h, 16) ^ 4
    h = (h - 0xE6546B64) * pow(5, -1, word) % word
    k = (h >> 13 | h << 19) % word * pow(0x1B873593, -1, word) % word
    k = (k >> 15 | k << 17) % word * pow(0xCC9E2D51, -1, word) % word
    return k.to_bytes(4, "little")


@pytest.mark.parametrize("bits", [1, 8, 22])
@pytest.mark.parametrize("h", [-(2**31), -(2**31) + 1, 2**31 - 1, -1, 0, 1])
def test_the_ends_of_the_hash(h, bits):
    """abs(-2^31) has no place in 32 bits, and scikit-learn takes care of it."""
    name = name_with_hash(h % 2**32)
    assert murmurhash3_32(name) == h
    hashed = FeatureHasher(2**bits, input_type="string").transform([[name]])
    none, value = np.zeros(1, np.int64), np.ones(1)
    text = np.frombuffer(name, np.uint8)
    slots = Hashing(bits).name_slots(text, none, none + 4, Sections(none, none, none), value)
    assert (slots[0], value[0]) == (hashed.indices[0], hashed.data[0])


@given(st.lists(st.lists(NAMES, max_size=30), max_size=4), st.booleans())
def test_dictionary_is_a_dict(batches, compiled):
    dictionary, twin = Dictionary(compiled=compiled), {}
    for names in batches:
        slots, signs = dictionary.slots(names)
        assert slots.tolist() == [twin.setdefault(name, len(twin) + 1) for name in names]
        assert (signs == 1.0).all()
    assert dictionary.dimension == len(twin) + 1
    assert [dictionary.name(slot) for slot in range(1, dictionary.dimension)] == list(twin)


def test_dictionary_of_many_and_long_names():
    rng = np.random.default_rng(3)
    names = [f"name {k}" for k in rng.integers(0, 200_000, 300_000)] + ["x" * 100_000, "x" * 99_999, ""]
    dictionary, twin = Dictionary(), {}
    expected = [twin.setdefault(name, len(twin) + 1) for name in names]
    assert dictionary.slots(names)[0].tolist() == expected
    assert dictionary.slots(names)[0].tolist() == expected
    assert all(dictionary.name(slot) == name for name, slot in twin.items())


@KINDS
@given(st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=5)), max_size=5))
def test_namespaces_are_prefixes(make, sections):
    """Names in sections, told by places in one text, are the names joined with a caret."""
    text, firsts, heads, tails, starts, ends, whole = b"", [], [], [], [], [], []
    for namespace, names in sections:
        firsts.append(len(starts))
        heads.append(len(text))
        text += namespace.encode()
        tails.append(len(text))
        for name in names:
            starts.append(len(text))
            text += name.encode()
            ends.append(len(text))
            whole.append(f"{namespace}^{name}" if namespace else name)
    values = np.ones(len(whole))
    block = np.frombuffer(text or b" ", np.uint8)
    arrays = [np.array(a, np.int64) for a in (starts, ends, firsts, heads, tails)]
    found = make()
    slots = found.name_slots(block, *arrays[:2], Sections(*arrays[2:]), values)
    twin = make()
    expected, signs = twin.slots(whole)
    assert slots.tolist() == expected.tolist() and values.tolist() == signs.tolist()
    assert [found.name(slot) for slot in slots] == [twin.name(slot) for slot in slots]


@given(st.lists(st.integers(1, 2**63 - 1) | st.integers(1, 40), max_size=30), st.booleans())
def test_numbers_are_their_digits(numbers, compiled):
    values = np.ones(len(numbers))
    dictionary, twin = Dictionary(compiled=compiled), Dictionary(compiled=compiled)
    slots, distinct = dictionary.number_slots(np.array(numbers, np.uint64), values)
    assert slots.tolist() == twin.slots([str(n) for n in numbers])[0].tolist()
    assert distinct and (values == 1.0).all()
    # The name is the same feature as the number.
    assert dictionary.slots([str(n) for n in numbers])[0].tolist() == slots.tolist()

    hashing = Hashing(5, compiled=compiled)
    slots, distinct = hashing.number_slots(np.array(numbers, np.uint64), values)
    expected, signs = Hashing(5).slots([str(n) for n in numbers])
    for n, slot, value, hashed, sign in zip(numbers, slots, values, expected, signs, strict=True):
        assert (slot, value) == ((n, 1.0) if n < 32 else (hashed, sign))
    assert distinct == all(n < 32 for n in numbers)


@given(st.lists(NAMES, max_size=60), st.lists(st.integers(1, 15), max_size=10))
def test_report_tells_what_slots_are_used(names, numbers):
    hashing = Hashing(4)
    by_slot: dict[int, list[object]] = {}
    slots, _ = hashing.slots(names)
    for slot, name in zip(slots.tolist(), names, strict=True):
        by_slot.setdefault(slot, []).append(name)
    named = len(by_slot)
    hashing.number_slots(np.array(numbers, np.uint64), np.ones(len(numbers)))
    for n in numbers:
        by_slot.setdefault(n, []).append(n)
    report = hashing.report()
    assert (report.slots, report.used, report.exact, report.dropped) == (16, len(by_slot), named == 0, 0)
    estimate = 16 * np.log(16 / (16 - named)) if named < 16 else 16 * (np.log(16) + np.euler_gamma)
    assert report.names == max(len(by_slot), round(estimate) + len(set(numbers)))
    for slot in range(16):
        assert hashing.name(slot) == (str(by_slot[slot][0]) if slot in by_slot else None)


@pytest.mark.parametrize("load", [0.01, 0.5, 1.0, 5.0])
def test_names_are_counted_from_the_slots_in_use(load):
    """The standard error of linear counting is sqrt(m (exp(t) - t - 1)) for t m names in m slots (Whang et al.)."""
    hashing = Hashing(14)
    size = 1 << 14
    count = int(load * size)
    for _ in range(2):
        slots, _ = hashing.slots([f"name{k}" for k in range(count)])
    report = hashing.report()
    used = len(set(slots.tolist()))
    assert report.used == used and not report.exact
    error = np.sqrt(size * (np.exp(load) - load - 1)) + 1
    assert abs(report.names - count) < 3 * error
    assert abs(report.collided - (count - used)) < 3 * error


@pytest.mark.parametrize("compiled", [True, False])
def test_a_state_of_version_1_is_read(compiled):
    """It also has bits of a second hash and a sample of names that collided."""
    names = b"redgreen"
    arrays = {
        "slots": np.array([3, 5, 9], np.int32),
        "prints": np.array([11, 13, 15], np.uint32),
        "begins": np.array([3, -1, 0], np.int64),
        "sizes": np.array([5, 0, 3], np.uint8),
        "names": np.frombuffer(names, np.uint8),
        "numbers": np.array([2, 5], np.int32),
        "seconds": np.array([2**63 | 77], np.uint64),
    }
    features = restore({"kind": "hashing", "bits": 4, "level": 0}, arrays, compiled=compiled)
    assert [features.name(k) for k in range(17)] == [
        None, None, "2", "green", None, "5", None, None, None, "red", None, None, None, None, None, None, "(constant)",
    ]  # fmt: skip
    assert features.report().used == 4
    again = features.state()[1]
    assert all(again[key].tolist() == arrays[key].tolist() for key in again)


def test_names_that_are_kept():
    hashing = Hashing(20)
    names = ["é" * 127, "é" * 128, "x" * 1000, "city=Paris"]
    slots = hashing.slots(names)[0].tolist()
    assert [hashing.name(slot) for slot in slots] == ["é" * 127, "é" * 127 + "…", "x" * 254 + "…", "city=Paris"]
    assert hashing.name(hashing.constant) == Dictionary().name(0) == "(constant)"


@KINDS
def test_frozen_features_learn_nothing(make):
    features = make()
    known = features.slots(["a", "b"])[0].tolist()
    features.number_slots(np.array([7], np.uint64), np.ones(1))
    before, dimension = features.report(), features.dimension
    features.freeze()
    slots = features.slots(["b", "new", "a"])[0].tolist()
    numbers = features.number_slots(np.array([7, 8, 10**9], np.uint64), np.ones(3))[0].tolist()
    assert [slots[0], slots[2]] == known[::-1]
    assert features.report()._replace(dropped=0) == before and features.dimension == dimension
    if isinstance(features, Dictionary):
        assert slots[1] == -1 and numbers[1:] == [-1, -1] and features.report().dropped == 3
    features.thaw()
    assert features.slots(["new"])[0][0] >= 0 and features.report().used == before.used + 1


def busy(make):
    features = make()
    features.slots([f"name{k}" for k in range(5000)] + ["é" * 300])
    features.number_slots(np.arange(1, 9000, 7, dtype=np.uint64), np.ones(len(range(1, 9000, 7))))
    return features


@KINDS
def test_state_goes_through_a_file(make, tmp_path):
    features = busy(make)
    settings, arrays = features.state()
    np.savez(tmp_path / "state.npz", **arrays)
    settings = json.loads(json.dumps(settings))
    with np.load(tmp_path / "state.npz", allow_pickle=False) as stored:
        copy = restore(settings, dict(stored))
    assert type(copy) is type(features) and copy.report() == features.report()
    assert copy.dimension == features.dimension
    assert [copy.name(k) for k in range(copy.dimension)] == [features.name(k) for k in range(features.dimension)]
    more = [f"name{k}" for k in range(3000, 8000)]
    for one, other in zip(copy.slots(more), features.slots(more), strict=True):
        assert one.tolist() == other.tolist()
    again = copy.state()[1]
    assert all((array == again[name]).all() for name, array in features.state()[1].items())


@KINDS
def test_damaged_states_are_refused(make):
    settings, arrays = busy(make).state()
    for name, array in arrays.items():
        with pytest.raises(InvalidInput, match="damaged"):
            restore(settings, {key: value for key, value in arrays.items() if key != name})
        for broken in (array[:-1], array.astype(np.float64), array.reshape(1, -1), array[::-1].copy()):
            copy = None
            with contextlib.suppress(InvalidInput):
                copy = restore(settings, {**arrays, name: broken})
            if copy is not None:  # some damage cannot be seen; it must do no harm
                assert broken.dtype == array.dtype and broken.ndim == 1
                assert len([copy.name(k) for k in range(copy.dimension)]) == copy.dimension
                assert (copy.slots(["a", "name3"])[0] >= 0).all()
    for name in settings:
        with pytest.raises(InvalidInput):
            restore({**settings, name: "x"}, arrays)
    with pytest.raises(UnknownName, match="dictionary"):
        restore({"kind": "dictionry"}, arrays)


def test_bad_arguments():
    for bits in (0, 31, 2.5, "18", None):
        with pytest.raises(InvalidInput, match="bits"):
            Hashing(bits)
    for names in (["a", 3], ["a", None], ["a", "\ud800"], ["a", b"b"]):
        dictionary = Dictionary()
        with pytest.raises(InvalidInput, match="names"):
            dictionary.slots(names)
        assert dictionary.dimension == 1
    with pytest.raises(InvalidInput, match="names"):
        Dictionary().slots("abc")
    for features in (Hashing(3), Dictionary()):
        for slot in (-1, features.dimension):
            with pytest.raises(InvalidInput, match="slot"):
                features.name(slot)
