"""The reader: every row once, in order, whatever the blocks and the sources; it can go on from every batch."""

import csv
import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from giftrl.errors import BadRow, BadSource, InvalidInput, UnknownName
from giftrl.streams.batch import Position
from giftrl.streams.names.features import Dictionary, Hashing
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.reader import Reader
from giftrl.streams.tables.arrow import ConvertedWriter
from tests.stream_rows import TEXTS, named_rows, read, signs, until_bad


@pytest.mark.parametrize("format_", TEXTS)
def test_blocks_make_no_difference(tmp_path, format_):
    path = tmp_path / "data"
    path.write_bytes(TEXTS[format_])
    whole = read(path, format=format_, accepts=signs, expected="-1 or 1")
    assert whole[0] and whole[1]
    for block in (1, 7, 16, 40):
        for background in (True, False):
            assert read(path, format=format_, accepts=signs, block=block, background=background)[:2] == whole[:2]
    assert read(path, format=format_, accepts=signs, compiled=False)[:2] == whole[:2]


@pytest.mark.parametrize("format_", TEXTS)
def test_the_end_of_every_batch_is_a_place_to_go_on(tmp_path, format_):
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(TEXTS[format_] * 3) if format_ != "csv" else TEXTS[format_])
    features = Dictionary()
    whole, rejected, batches = read(path, format=format_, accepts=signs, block=30, features=features)
    for k, batch in enumerate(batches):
        later, more, _ = read(path, format=format_, accepts=signs, block=30, start=batch.end, features=features)
        seen = sum(map(len, batches[: k + 1]))
        bad = sum(len(each.rejected) for each in batches[: k + 1])
        assert later == whole[seen:] and more == rejected[bad:]


def make_tables(folder):
    rng = np.random.default_rng(0)
    for name in ("b.csv", "a.csv.gz", "c.parquet", "d.arrow", "e.jsonl"):
        y, n = rng.choice([-1, 1], 7), rng.normal(size=7).round(3)
        c = [f"v{i}" for i in rng.integers(0, 4, 7)]
        table = pa.table({"y": y, "n": n, "c": c})
        if "csv" in name:
            sink = io.StringIO()
            csv.writer(sink).writerows([["c", "y", "n"], *zip(c, y, n, strict=True)])
            raw = sink.getvalue().encode()
            (folder / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
        elif name == "c.parquet":
            pq.write_table(table, folder / name, row_group_size=3)
        elif name == "d.arrow":
            with pa.ipc.new_file(str(folder / name), table.schema) as writer:
                writer.write_table(table, 3)
        else:
            (folder / name).write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        yield name, list(zip(y.tolist(), n.tolist(), c, strict=True))


def test_sources_of_all_sorts_are_one_stream(tmp_path):
    expected = [row for _, rows in sorted(make_tables(tmp_path)) for row in rows]
    features = Dictionary()
    reader = Reader(tmp_path, features, constant=False)
    batches = list(reader)
    rows = named_rows(batches, features)
    assert [row[1:] for row in rows] == [(y, 1.0, {"n": n, f"c={c}": 1.0}) for y, n, c in expected]
    assert [batch.end.source for batch in batches] == sorted(batch.end.source for batch in batches)
    assert reader.progress.fraction == 1.0
    assert reader.schema.kinds == ("category", "label", "number")
    # From every end on.
    for k, batch in enumerate(batches):
        later = Reader(tmp_path, features, constant=False, start=batch.end, schema=reader.schema)
        assert named_rows(later, features) == rows[sum(map(len, batches[: k + 1])) :]


def test_the_constant_and_normalization(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1 1:3 2:4\n-1\n")
    for features in (Hashing(5), Dictionary()):
        [batch] = Reader(path, features, normalize="unit")
        assert batch.data.tolist() == [0.6, 0.8, 1.0, 1.0]
        assert batch.indices[[2, 3]].tolist() == [features.constant] * 2
        [batch] = Reader(path, features, constant=False)
        assert batch.data.tolist() == [3.0, 4.0]
        [batch] = Reader(path, features, normalize="unit_after")
        assert batch.data == pytest.approx([0.6 / 2**0.5, 0.8 / 2**0.5, 1 / 2**0.5, 1.0])


def test_arguments_are_checked_before_anything_is_read(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1 1:1\n")
    for options, error, message in [
        ({"format": "libsvn"}, UnknownName, "did you mean 'libsvm'"),
        ({"normalize": "units"}, UnknownName, "did you mean 'unit'"),
        ({"on_error": "ignore"}, UnknownName, "on_error"),
        ({"rejects": "x"}, InvalidInput, 'needs on_error="skip"'),
        ({"start": Position(3)}, InvalidInput, "must be in one of 1 sources"),
    ]:
        with pytest.raises(error, match=message):
            Reader(path, Hashing(4), **options)
    with pytest.raises(BadSource, match="no such file"):
        Reader(tmp_path / "y.svm", Hashing(4))
    with pytest.raises(InvalidInput, match="rejects=.*cannot be written"):
        list(Reader(path, Hashing(4), on_error="skip", rejects=tmp_path / "no" / "side"))


def test_interactions_in_pieces_end_where_they_say(tmp_path, monkeypatch):
    from giftrl.streams.names import interactions as products

    original = products.Crossing.cross
    monkeypatch.setattr(products.Crossing, "cross", lambda self, batch: original(self, batch, 30, 60))
    path = tmp_path / "x.vw"
    lines = [b"1 |a " + b" ".join(b"f%d:%d" % (j, j + 1) for j in range(i % 7)) for i in range(30)]
    lines[11] = b"x |a bad"
    lines[20] = b"1 |a " + b" ".join(b"f%d" % j for j in range(15))
    path.write_bytes(b"\n".join(lines) + b"\n")
    features = Dictionary()
    whole, rejected, batches = read(path, interactions=["aa"], features=features)
    assert len(batches) > 5
    assert [line for line, _, _ in rejected] == [12, 21]
    assert [row[0] for row in whole] == [i for i in range(1, 31) if i not in (12, 21)]
    for k, batch in enumerate(batches):
        later, more, _ = read(path, interactions=["aa"], features=features, start=batch.end)
        assert later == whole[sum(map(len, batches[: k + 1])) :]
        assert more == rejected[sum(len(each.rejected) for each in batches[: k + 1]) :]
    with pytest.raises(BadRow, match=":12:1: "):
        list(Reader(path, features, interactions=["aa"]))
    lines[11] = b"1 |a fine"
    path.write_bytes(b"\n".join(lines) + b"\n")
    batches, problem = until_bad(Reader(path, features, interactions=["aa"]))
    assert str(problem).endswith(":21:1: a row with 120 products of features, expected at most 60")
    assert sum(map(len, batches)) == 20 and batches[-1].end.line == 21


def test_a_converted_file_is_read_like_the_original(tmp_path):
    path, rows = tmp_path / "x.csv", tmp_path / "x.arrow"
    path.write_text("label,n,c\n" + "".join(f"{(-1) ** i},{i},v{i % 5}\n" for i in range(1000)))
    for features in (lambda: Hashing(6), Dictionary):
        for pairs in ((), [("c", "n")]):
            writing = features()
            interactions = Interactions(pairs)
            reader = Reader(path, writing, constant=False, interactions=interactions, block=3000)
            with ConvertedWriter(rows, writing, interactions=interactions) as writer:
                for batch in reader:
                    writer.write(batch)
            reading, original = features(), features()
            a = list(Reader(rows, reading, normalize="unit", interactions=pairs))
            b = list(Reader(path, original, normalize="unit", interactions=pairs, block=3000))
            for field in ("data", "indices", "labels", "weights"):
                np.testing.assert_array_equal(
                    np.concatenate([getattr(each, field) for each in a]),
                    np.concatenate([getattr(each, field) for each in b]),
                )
            assert all(batch.data.flags.writeable and batch.indices.flags.writeable for batch in a)
            plain = list(Reader(rows, features(), constant=False, interactions=pairs))
            assert all(batch.data.flags.writeable for batch in plain)
    with pytest.raises(BadSource, match="was converted with the interactions"):
        list(Reader(rows, Dictionary()))


def test_importing_streams_is_cheap():
    code = (
        "import sys, giftrl.streams as s\n"
        "assert set(s.__all__) <= set(dir(s))\n"
        "print([name for name in ('numba', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
