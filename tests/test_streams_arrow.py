"""Parquet and Arrow: rows agree with those that PyArrow sees; what was converted comes back."""

import gzip
import json
import math
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl.errors import BadSource, InvalidInput
from giftrl.streams.batch import Position
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.names.features import Dictionary, Hashing
from giftrl.streams.source import Source, Stream
from giftrl.streams.tables.arrow import ArrowTable, ConvertedWriter
from giftrl.streams.text.libsvm import LibsvmText
from tests.stream_rows import flat, named_rows


def write(table: pa.Table, path: Path, kind: str, rows: int | None = None) -> Source:
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=rows)
    else:
        make = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
        with make(str(path), table.schema) as writer:
            writer.write_table(table, rows)
    return Source(str(path), path)


def read_arrow(source: Source, kind: str, columns: Columns | None = None, schema: Schema | None = None, start: int = 0):
    features = Dictionary()
    with Stream(source) as stream:
        table = ArrowTable(features, columns or Columns(), schema)
        name = "parquet" if kind == "parquet" else "arrow"
        batches = list(table.read(stream, name, Position(0, start, start + 1)))
    return named_rows(batches, features), [(b.line, b.column) for batch in batches for b in batch.rejected], batches


def arrow_twin(table: pa.Table) -> tuple[list, list[int]]:
    rows, bad = [], []
    for at, row in enumerate(table.to_pylist(), 1):
        out: dict[str, float] = {}
        label, weight = row.pop("y"), row.pop("w")
        good = label is None or math.isfinite(label)
        good &= weight is not None and math.isfinite(weight) and weight >= 0
        for key, value in row.items():
            flat(key, value, out)
            number = (value or {}).get("a") if key == "st" else value
            if key in ("f", "i", "b", "st") and number is None:
                out["st^a=missing" if key == "st" else f"{key}=missing"] = 1.0
            values = value if isinstance(value, list) else [value]
            good &= all(not isinstance(v, float) or math.isfinite(v) for v in values)
        if good:
            rows.append((at, label, weight, out))
        else:
            bad.append(at)
    return rows, bad


values = st.none() | st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0])
odd = st.sampled_from([math.nan, math.inf, -math.inf])
texts = st.none() | st.text("abc é", max_size=3)
arrow_rows = st.fixed_dictionaries(
    {
        "y": st.sampled_from([1.0, -1.0, None]),
        "f": st.one_of(*[values] * 20, odd),
        "i": st.none() | st.integers(-(2**62), 2**62),
        "b": st.none() | st.booleans(),
        "s": texts,
        "d": texts,
        "w": st.one_of(*[st.sampled_from([1.0, 2.0])] * 20, st.sampled_from([-1.0, None, math.nan])),
        "ls": st.none() | st.lists(texts, max_size=3),
        "ln": st.none() | st.lists(values, max_size=3),
        "st": st.none() | st.fixed_dictionaries({"a": values, "t": texts}),
    }
)
arrow_schema = pa.schema(
    [
        ("y", pa.float64()),
        ("f", pa.float32()),
        ("i", pa.int64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("d", pa.dictionary(pa.int8(), pa.string())),
        ("w", pa.float64()),
        ("ls", pa.list_(pa.string())),
        ("ln", pa.list_(pa.float64())),
        ("st", pa.struct([("a", pa.float64()), ("t", pa.string())])),
    ]
)


@settings(max_examples=settings().max_examples // 2)
@given(
    rows=st.lists(arrow_rows, max_size=12),
    kind=st.sampled_from(["parquet", "file", "stream"]),
    group=st.integers(1, 5),
    start=st.integers(0, 12),
)
def test_arrow_agrees_with_its_python_rows(tmp_path_factory, rows, kind, group, start):
    table = pa.Table.from_pylist(rows, arrow_schema)
    source = write(table, tmp_path_factory.getbasetemp() / "table", kind, group)
    expected, wrong = arrow_twin(table)
    found, bad, batches = read_arrow(source, kind, Columns(weight="w"))
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    for (*_, a), (*_, b) in zip(found, expected, strict=True):
        assert a.keys() == {key for key in b if b[key] != 0.0 or "=" in key}
        assert all(a[key] == pytest.approx(b[key], rel=1e-6) for key in a)
    assert [line for line, _ in bad] == wrong
    assert not batches or batches[-1].end == Position(0, len(rows), len(rows) + 1)
    if start <= len(rows):
        later, _, _ = read_arrow(source, kind, Columns(weight="w"), start=start)
        assert later == [row for row in found if row[0] > start]
    else:
        with pytest.raises(BadSource, match=f"ends at row {len(rows)}, before row {start}"):
            read_arrow(source, kind, Columns(weight="w"), start=start)


def test_arrow_columns(tmp_path):
    table = pa.table(
        {
            "took": pa.array([1, 2], pa.duration("s")),
            "money": pa.array([1, None], pa.decimal128(5, 2)),
            "zip": [100, 200],
            "big": pa.array(["a", None], pa.large_string()),
            "view": pa.array(["a", ""], pa.string_view()),
            "vector": pa.array([[1, 2], None], pa.list_(pa.float32(), 2)),
            "nothing": pa.nulls(2),
            "label": pa.array([True, None]),
        }
    )
    source = write(table, tmp_path / "t.arrow", "file")
    with pytest.raises(BadSource, match=r"the column 'took' has type duration\[s\].*; ignore the column"):
        read_arrow(source, "file")
    rows, _, _ = read_arrow(source, "file", Columns(ignore=("took",), categorical=("zip",)))
    assert rows == [
        (1, 1.0, 1.0, {"money": 1.0, "zip=100": 1.0, "big=a": 1.0, "view=a": 1.0, "vector^0": 1.0, "vector^1": 2.0}),
        (2, None, 1.0, {"money=missing": 1.0, "zip=200": 1.0}),
    ]
    schema = Schema(("zip", "label"), ("category", "label"))
    rows, _, _ = read_arrow(write(pa.table({"zip": ["a"]}), tmp_path / "u.arrow", "file"), "file", None, schema)
    assert rows == [(1, None, 1.0, {"zip=a": 1.0})]
    with pytest.raises(BadSource, match="the column 'label' has type string, which cannot be read as label"):
        read_arrow(write(pa.table({"zip": ["a"], "label": ["b"]}), tmp_path / "v.arrow", "file"), "file", None, schema)


def test_bad_arrow_rows_are_shown(tmp_path):
    table = pa.table({"a": [1.0, math.nan], "s": ["x", "y"], "label": [1.0, 1.0]})
    _, bad, [batch] = read_arrow(write(table, tmp_path / "t.parquet", "parquet"), "parquet")
    assert bad == [(2, 1)]
    said = ":2:1: a value that is not finite in the column 'a', expected a finite number"
    assert str(batch.rejected[0]).endswith(said)
    assert json.loads(batch.rejected[0].raw)["s"] == "y"


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_damaged_arrow_is_an_error(tmp_path, kind):
    table = pa.table({"a": np.arange(5000.0), "s": [str(i) for i in range(5000)], "label": np.ones(5000)})
    source = write(table, tmp_path / "t", kind, 500)
    raw = source.path.read_bytes()
    for cut in (len(raw) // 3, len(raw) - 700):
        source.path.write_bytes(raw[:cut])
        with pytest.raises(BadSource, match="damaged or cut short"):
            read_arrow(source, kind)


def as_stream(**columns) -> bytes:
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def lying_streams() -> dict[str, bytes]:
    """Arrow streams with a lie of a few bytes about offsets, dictionary indices, text or names."""
    lists = as_stream(label=[1.0, 0.0], v=pa.array([[1.5], [2.5, 3.5]], pa.large_list(pa.float64())))
    texts = as_stream(label=[1.0, 0.0], s=["one", "twelve"])
    codes = as_stream(label=[1.0, 0.0, 1.0, 0.0], s=pa.array(["x", "y", "x", "y"]).dictionary_encode())
    changes = {
        "offset of a list": (lists, struct.pack("<3q", 0, 1, 3), struct.pack("<3q", 0, 1, 2**31 - 1)),
        "offset of a text": (texts, struct.pack("<3i", 0, 3, 9), struct.pack("<3i", 0, 6000, 6016)),
        "index of a dictionary": (codes, struct.pack("<4i", 0, 1, 0, 1), struct.pack("<4i", 0, 1, 2**20, 1)),
        "size of a message": (texts, b"\xff\xff\xff\xff" + texts[4:8], struct.pack("<2i", -1, 2**31 - 8)),
        "UTF-8": (texts, b"onetwelve", b"one\xfftelve"),
        "name of a column": (as_stream(label=[1.0], nameless=[1.0]), b"nameless", b"name\xfeess"),
    }
    assert all(true in stream for stream, true, _ in changes.values())
    return {name: stream.replace(true, lie) for name, (stream, true, lie) in changes.items()}


@pytest.mark.parametrize("kind", lying_streams())
def test_arrow_that_lies_is_refused_before_its_values_are_read(tmp_path, kind):
    path = tmp_path / "lies.arrow"
    path.write_bytes(lying_streams()[kind])
    with pytest.raises(BadSource, match="damaged"):
        read_arrow(Source(str(path), path), "stream")


def test_a_list_that_is_too_long_and_a_time_zone_that_nobody_knows_are_refused(tmp_path):
    long = pa.ListArray.from_arrays(pa.array([0, 2**20 + 1], pa.int32()), pa.nulls(2**20 + 1))
    with pytest.raises(BadSource, match=r"the column 'v' has a list of 1048577 numbers"):
        read_arrow(write(pa.table({"v": long, "label": [1.0]}), tmp_path / "long.arrow", "file"), "file")
    times = pa.array([0], pa.timestamp("s", tz="Nowhere/Land"))
    with pytest.raises(BadSource, match="Nowhere/Land.*; ignore the column"):
        read_arrow(write(pa.table({"at": times, "label": [1.0]}), tmp_path / "zone.arrow", "file"), "file")


def test_arrow_through_pipes_and_compression(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "label": [1.0, -1.0]})
    for kind in ("file", "stream", "parquet"):
        source = write(table, tmp_path / "t", kind)
        source.path.write_bytes(gzip.compress(source.path.read_bytes()))
        if kind == "parquet":
            with pytest.raises(BadSource, match="cannot be read from a pipe or from compressed data"):
                read_arrow(source, kind)
        else:
            rows, _, _ = read_arrow(source, kind)
            assert rows == [(1, 1.0, 1.0, {"a": 1.0}), (2, -1.0, 1.0, {"a": 2.0})]


LIBSVM = [b"1 3:0.5 7:2\n-1\n0.5 1:1e300 9:-3\n", b"1 7:4 12:1\n"]


def convert(path: Path, features, **options) -> list:
    batches = []
    with ConvertedWriter(path, features, **options) as writer:
        for text in LIBSVM:
            batches.append(LibsvmText(features).parse(text, "x", Position()))
            writer.write(batches[-1])
    return batches


def read_converted(path: Path, features, start: int = 0) -> list:
    with Stream(Source("x", path)) as stream:
        return list(ArrowTable(features).read(stream, "arrow", Position(0, start, start + 1)))


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("features", [lambda: Hashing(3), Dictionary])
def test_what_was_converted_comes_back(tmp_path, features, compression):
    path = tmp_path / "rows.arrow"
    written = convert(path, features(), compression=compression)
    assert [each.name for each in tmp_path.iterdir()] == ["rows.arrow"]
    fresh = features()
    found = read_converted(path, fresh)
    for a, b in zip(written, found, strict=True):
        for field in ("data", "indices", "indptr", "labels", "weights"):
            np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
    assert [each.end for each in found] == [Position(0, 3, 4), Position(0, 4, 5)]
    assert compression is not None or not found[0].data.flags.owndata  # a view of the file
    later = read_converted(path, features(), start=2)
    assert [each.lines.tolist() for each in later] == [[3], [4]]
    np.testing.assert_array_equal(later[1].indices, found[1].indices)


def test_converted_names_meet_another_dictionary(tmp_path):
    path = tmp_path / "rows.arrow"
    own = Dictionary()
    rows = named_rows(convert(path, own), own)
    for freeze in (False, True):
        other = Dictionary()
        other.slots(["x", "9", "7"])
        if freeze:
            other.freeze()
        found = named_rows(read_converted(path, other), other)
        for (*_, a), (*_, b) in zip(rows[:3] + rows[3:], found, strict=True):
            assert b == {name: value for name, value in a.items() if not freeze or name in ("9", "7")}


def test_converted_files_are_checked(tmp_path):
    path = tmp_path / "rows.arrow"
    convert(path, Hashing(10))
    with pytest.raises(BadSource, match="was converted with bits=10, and bits=11 is asked for"):
        read_converted(path, Hashing(11))
    with pytest.raises(BadSource, match="was converted with hashing, and dictionary is asked for"):
        read_converted(path, Dictionary())
    # Indices that a learner would write to beyond its memory.
    with pa.ipc.open_file(str(path)) as file:
        table = file.read_all()
    indices = pa.array([[0, 2000], [], [3, 4], [5, 6]], table.schema.field("indices").type)
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table.set_column(2, table.schema.field("indices"), indices))
    with pytest.raises(BadSource, match=":1:1: is damaged"):
        read_converted(path, Hashing(10))


def test_a_failed_conversion_leaves_what_was_there(tmp_path):
    path = tmp_path / "rows.arrow"
    path.write_text("before")
    features = Hashing(4)
    batch = LibsvmText(features).parse(LIBSVM[0], "x", Position())

    def fail() -> None:
        with ConvertedWriter(path, features) as writer:
            writer.write(batch)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "before" and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(InvalidInput, match="cannot be written"):
        ConvertedWriter(tmp_path / "no" / "rows.arrow", features).open()
    with pytest.raises(InvalidInput, match="lz4"):
        ConvertedWriter(path, features, compression="rar")
    with ConvertedWriter(path, features) as writer, pytest.raises(InvalidInput, match="constant"):
        writer.write(replace(batch, indices=batch.indices + np.int32(16 - 3)))


def test_a_converted_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    seen = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append(path.exists()), real(handle)))
    path, features = tmp_path / "rows.arrow", Hashing(4)
    with ConvertedWriter(path, features) as writer:
        writer.write(LibsvmText(features).parse(LIBSVM[0], "x", Position()))
    assert seen == [False, True]  # the file, and then its folder
    assert [each.name for each in tmp_path.iterdir()] == ["rows.arrow"]
