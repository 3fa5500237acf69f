"""Files that must not be believed: damaged, hostile, foreign, or from a later version."""

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import example, given
from hypothesis import strategies as st

from giftrl.errors import ModelFileError
from giftrl.models import load, save
from giftrl.training import LinearModel, Settings
from tests.fixtures.models.make import V1
from tests.model_files import arrays_strategy, deep, entry, same, sealed, values, written

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def small(folder):
    path = folder / "small.giftrl"
    save(path, {"x": np.array([1.0, 2.0]), "n": np.array([3], np.uint8)}, {"beta": 0.5, "upper": math.inf})
    return path.read_bytes()


@pytest.mark.parametrize("change", [1 << bit for bit in range(8)] + [0xFF], ids=hex)
def test_every_flipped_bit_is_found(folder, change):
    whole = small(folder)
    for at in range(len(whole)):
        broken = bytearray(whole)
        broken[at] ^= change
        with pytest.raises(ModelFileError):
            load(written(folder, broken))


def test_flipped_bits_of_version_1_are_found(folder):
    whole = V1.read_bytes()
    for at in range(len(whole)):
        broken = bytearray(whole)
        broken[at] ^= 1 << at % 8
        with pytest.raises(ModelFileError):
            load(written(folder, broken))


def test_every_truncation_is_found(folder):
    whole = small(folder)
    for length in range(len(whole)):
        with pytest.raises(ModelFileError):
            load(written(folder, whole[:length]))
    with pytest.raises(ModelFileError):
        load(written(folder, whole + b"\0"))


edits = st.tuples(st.integers(0, 600), st.integers(0, 3), st.binary(max_size=4))


@given(changes=st.lists(edits, min_size=1, max_size=4))
@example(changes=[(0, 0, b"")])
def test_changed_bytes_never_give_other_contents(folder, changes):
    whole = small(folder)
    data = whole
    for at, cut, put in changes:
        at %= len(data) + 1
        data = data[:at] + put + data[at + cut :]
    path = written(folder, data)
    if data == whole:
        assert load(path)[1] == {"beta": 0.5, "upper": math.inf}
        return
    with pytest.raises(ModelFileError):
        load(path)


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_no_model(folder, data):
    for start in (b"", len(data).to_bytes(8, "little")):
        with pytest.raises(ModelFileError):
            load(written(folder, start + data))


@pytest.mark.parametrize(
    ("table", "data", "says"),
    [
        ({"x": entry(shape=[2**60], end=2**63 - 8)}, b"", "cannot be read"),
        ({"x": entry(shape=[2**40, 2**40], end=2**83)}, b"", "cannot be read"),
        ({"x": entry(shape=[-1])}, b"12345678", "cannot be read"),
        ({"x": entry(begin=8, end=0)}, b"12345678", "cannot be read"),
        ({"x": {"dtype": "F64", "shape": [1]}}, b"12345678", "cannot be read"),
        ({"x": entry("BF16", [4])}, b"12345678", "type 'BF16'"),
        ({"x": entry("BOOL", [8])}, b"12345678", "type 'BOOL'"),
        ({"x": entry(), "y": entry()}, b"12345678", "cannot be read"),
        ({"x": entry(), "y": entry(begin=4, end=12)}, b"123456781234", "cannot be read"),
        ({"x": entry(), "y": entry(begin=16, end=24)}, b"12345678" * 3, "cannot be read"),
        ({"x": entry()}, b"1234567", "cannot be read"),
        ({"x": entry()}, b"123456789", "cannot be read"),
        ('{METADATA, "x": 0, "x": 0}', b"12345678", "cannot be read"),
        ("[METADATA]", b"", "cannot be read"),
        ("\ufeff{METADATA}", b"", "cannot be read"),
        ('{METADATA, "x": NaN}', b"", "cannot be read"),
        ('{METADATA, "x": %s}' % ("[" * 100_000), b"", "cannot be read"),
        ('{METADATA, "x": ' + "[" * 100_000 + "]" * 100_000 + "}", b"", "cannot be read"),
    ],
)
def test_hostile_tables_with_a_right_checksum(folder, table, data, says):
    with pytest.raises(ModelFileError) as caught:
        load(written(folder, sealed(table, data)))
    assert says in caught.value.problem and caught.value.remedy


@pytest.mark.parametrize(
    ("giftrl", "says"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[1]", "another program"),
        ("3", "another program"),
        ({"format": "giftrl-model"}, "another program"),
        ({"format": "giftrl-model", "version": "1", "content": {}}, "another program"),
        ({"format": "other", "version": 1, "content": {}}, "another program"),
        ({"format": "giftrl-model", "version": 3, "content": {"$new": 1}, "more": 3}, "version 3 of the format"),
        ({"format": "giftrl-model", "version": 10**4000}, "version 1000"),
        ({"format": "giftrl-model", "version": 2, "content": {}}, "damaged giftrl header"),
        ({"format": "giftrl-model", "version": 0, "content": {}}, "damaged giftrl header"),
        ({"format": "giftrl-model", "version": 1}, "damaged giftrl header"),
        ({"format": "giftrl-model", "version": 1, "content": {}, "more": 1}, "damaged giftrl header"),
        ({"format": "giftrl-model", "version": 1, "content": []}, "not a table"),
        ({"format": "giftrl-model", "version": 1, "content": {"a": {"$float": "1e3"}}}, "settings that cannot be read"),
        ({"format": "giftrl-model", "version": 1, "content": {"a": {"$ref": "/"}}}, "settings that cannot be read"),
        ({"format": "giftrl-model", "version": 1, "content": deep(70)}, "nested deeper than 64"),
        ('{"format": "giftrl-model", "version": 1, "content": {"a": 1, "a": 2}}', "appears twice"),
        ('{"format": "giftrl-model", "version": 1, "content": {"a": Infinity}}', "not JSON"),
        ('{"format": "giftrl-model", "version": 1, "content": {"a": %s}}' % ("[" * 99_999), "cannot be read"),
    ],
)
def test_hostile_headers_with_a_right_checksum(folder, giftrl, says):
    with pytest.raises(ModelFileError) as caught:
        load(written(folder, sealed({}, giftrl=giftrl)))
    assert says in caught.value.problem and len(str(caught.value)) < 600


def test_a_sealed_file_is_accepted_when_nothing_is_wrong_with_it(folder):
    table = {"odd": entry("U8", [1], 0, 1), "x": entry(begin=1, end=9), "none": entry(shape=[0], begin=9, end=9)}
    arrays, header = load(written(folder, sealed(table, b"\x07" + np.array([2.5]).tobytes(), content={"a": 1}, pad=5)))
    assert arrays["x"].tolist() == [2.5] and arrays["x"].flags.aligned and arrays["none"].shape == (0,)
    assert arrays["odd"].tolist() == [7] and header == {"a": 1}
    # What the safetensors package passes over is passed over here.
    assert load(written(folder, sealed({"x": {**entry(), "more": 1}}, bytes(8))))[0]["x"].tolist() == [0.0]


def table_of(arrays):
    """The table and the data of arrays in the order given."""
    table, data = {}, b""
    for name, array in arrays:
        code = {"f": "F", "i": "I", "u": "U"}[array.dtype.kind] + str(8 * array.itemsize)
        table[name] = entry(code, array.shape, len(data), len(data) + array.nbytes)
        data += array.tobytes()
    return table, data


@given(arrays=arrays_strategy, order=st.randoms(use_true_random=False))
def test_tables_in_any_order_are_read(folder, arrays, order):
    listed = list(arrays.items())
    order.shuffle(listed)
    assert same(dict(sorted(arrays.items())), load(written(folder, sealed(*table_of(listed))))[0])


SIZES = st.integers(0, 40) | st.sampled_from([-1, 2**31, 2**32, 2**60, 2**63, 2**64, 2**64 + 8, 1.0, "8", None])


@given(arrays=arrays_strategy.filter(bool), data=st.data())
def test_whatever_is_accepted_means_the_same_to_the_safetensors_package(folder, arrays, data):
    table, contents = table_of(list(arrays.items()))
    for _ in range(data.draw(st.integers(0, 3))):
        name = data.draw(st.sampled_from(sorted(table)))
        field = data.draw(st.sampled_from(["dtype", "shape", "data_offsets", "all"]))
        if field == "all":
            table[name] = data.draw(values)
        elif isinstance(table[name], dict) and field == "dtype":
            table[name]["dtype"] = data.draw(st.sampled_from(["F64", "F32", "I32", "U8", "BF16", "BOOL", "", 3]))
        elif isinstance(table[name], dict) and table[name].get(field):
            numbers = table[name][field]
            numbers[data.draw(st.integers(0, len(numbers) - 1))] = data.draw(SIZES)
    path = written(folder, sealed(table, contents))
    try:
        found, _ = load(path)
    except ModelFileError:
        return
    assert same(found, dict(sorted(safetensors.numpy.load_file(path).items())))


def test_a_file_of_the_safetensors_package_is_not_ours(folder):
    path = folder / "foreign.safetensors"
    for metadata in (None, {"format": "pt"}, {"giftrl": "yes"}):
        safetensors.numpy.save_file({"x": np.zeros(3)}, path, metadata)
        with pytest.raises(ModelFileError, match="another program wrote it|cannot be read"):
            load(path)


def test_the_checksum_must_be_one(folder):
    good = sealed({})
    digest = json.loads(good[8:])["__metadata__"]["sha256"]
    for other in (digest.upper(), digest[:-1], digest + "0", "", 64 * "g"):
        text = good[8:].replace(digest.encode(), other.encode())
        with pytest.raises(ModelFileError, match="damaged"):
            load(written(folder, len(text).to_bytes(8, "little") + text))


def test_a_huge_header_is_not_read(folder):
    for length in (2**63, 2**64 - 1, 10**8, (1 << 23) + 1):
        with pytest.raises(ModelFileError, match="does not begin like a model file"):
            load(written(folder, length.to_bytes(8, "little") + b"{}"))
    with pytest.raises(ModelFileError, match="within its header"):
        load(written(folder, (1 << 23).to_bytes(8, "little") + b"{}"))


def test_a_file_of_holes_that_claims_more_than_the_memory_is_not_read(tmp_path):
    size = 1 << 43
    path = written(tmp_path, sealed({"x": entry("U8", [size], 0, size)}))
    os.truncate(path, path.stat().st_size + size)
    with pytest.raises(ModelFileError, match="load it on a larger machine"):
        load(path)


def test_memory_that_runs_out_is_an_error_of_the_file(folder, monkeypatch):
    save(folder / "a", {"x": np.arange(10.0)}, {})

    def none_left(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr("giftrl.models.safe_open", none_left)
    with pytest.raises(ModelFileError, match="does not fit in memory"):
        load(folder / "a")


def test_a_file_that_shrinks_while_it_is_read(folder, monkeypatch):
    save(folder / "a", {"x": np.arange(10.0)}, {})
    real = os.fstat

    def fstat(handle):
        found = real(handle)
        os.truncate(folder / "a", found.st_size - 8)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fstat)
        with pytest.raises(ModelFileError, match="cut off"):
            load(folder / "a")


def test_things_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    handles = len(list(Path("/dev/fd").iterdir()))
    for path, says in {
        tmp_path / "pipe": "pipe and not a file",
        tmp_path: "is a folder",
        Path("/dev/zero"): "device",
        tmp_path / "missing": "does not exist; check the name",
        tmp_path / "a\0b": "is not the name of a file",
        Path("/dev/null/x"): "below something that is not a folder",
    }.items():
        with pytest.raises(ModelFileError, match=says):
            load(path)
    assert len(list(Path("/dev/fd").iterdir())) == handles


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    """A file of a model without parameters: what is in it, and a folder to write another to."""
    folder = tmp_path_factory.mktemp("mixture")
    model = LinearModel(Settings(loss="squared", bits=4))
    model.learner.compiled = False
    model.features.slots(["a", "b", "c"])
    rng = np.random.default_rng(0)
    rows = np.zeros((20, 17))
    rows[:, [0, 3, 7, 16]] = rng.normal(size=(20, 4))
    model.learner.learn(rows, rng.normal(size=20))
    model.save(folder / "whole.giftrl")
    return folder, *load(folder / "whole.giftrl")


def put(name, at, value):
    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][at] = value

    return change


def replace(name, make):
    def change(arrays):
        arrays[name] = make(arrays[name])

    return change


SEEN, RECORD, BLOCKS = (f"learner.features.{name}" for name in ("seen", "record", "x"))


@pytest.mark.parametrize(
    "change",
    [
        put(SEEN, 3, 17),
        put(SEEN, 0, -1),
        put(SEEN, 1, 0),
        put(SEEN, 1, 7),
        replace(SEEN, lambda a: a[::-1].copy()),
        replace(SEEN, lambda a: a.astype(np.float64)),
        replace(SEEN, lambda a: a[:2]),
        replace(SEEN, lambda a: a.reshape(2, 2)),
        *(replace(name, lambda a: a[:2]) for name in (RECORD, BLOCKS)),
        replace(RECORD, lambda a: a[:, :4].copy()),
        replace(BLOCKS, lambda a: a[:, :15].copy()),
        replace(RECORD, lambda a: a.view(np.float32)),
        replace(RECORD, lambda a: a.ravel()),
        put(RECORD, (0, 4), 1e9),
        put(RECORD, (0, 0), np.nan),
        put(BLOCKS, (0, 7), np.nan),
        lambda arrays: arrays.pop(BLOCKS),
        lambda arrays: arrays.pop("learner.features.theta"),
        replace("learner.features.dense", lambda a: a[:1]),
        put("learner.features.dense", 0, 12),
        put("learner.features.counts", 2, 1e6),
        put("learner.mixing.totals", 0, np.nan),
        put("learner.matrix.size", 0, 1000),
        lambda arrays: arrays.pop(SEEN),
        lambda arrays: arrays.pop("learner.mixing.units"),
    ],
)
def test_a_mixture_that_was_tampered_with_is_not_a_sound_model(mixture, change):
    folder, arrays, header = mixture
    arrays = dict(arrays)
    change(arrays)
    save(folder / "hostile.giftrl", arrays, header)
    with pytest.raises(ModelFileError, match="is not a sound model"):
        LinearModel.load(folder / "hostile.giftrl")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beta", "Auto"), ("beta", None), ("beta", []), ("beta", 1.0), ("preset", "lite"), ("preset", {}),
        ("update", "linear"), ("update", {}), ("loss", "softmax"), ("loss", []), ("dtype", "float64"),
        ("preset", "light"), ("parameters", {"l1": 1.0}), ("bits", 3), ("more", 1),
    ],
)  # fmt: skip
def test_settings_of_another_model_are_refused(mixture, name, value):
    folder, arrays, header = mixture
    header = {**header, "settings": {**header["settings"], name: value}}
    if name == "bits":
        header["features"] = {**header["features"], "bits": value}
    save(folder / "hostile.giftrl", arrays, header)
    with pytest.raises(ModelFileError, match="is not a sound model"):
        LinearModel.load(folder / "hostile.giftrl")


def test_loading_runs_nothing_and_imports_no_pickle():
    code = (
        "import sys; from giftrl.models import load; before = set(sys.modules); load(sys.argv[1]);"
        "new = set(sys.modules) - before; assert 'numba' not in sys.modules;"
        "assert not {'pickle', 'marshal', 'shelve', 'dill'} & new, new; print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(V1)], capture_output=True, text=True, check=True)
    assert done.stdout == "ok\n"
