"""The reader: every row once, in order, whatever the blocks; bad rows stop it or are written down; it can go on."""

import contextlib
import csv
import gzip
import io
import json
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl.errors import InvalidInput, UnknownName
from giftrl.streams.arrow import ConvertedWriter
from giftrl.streams.background import Ahead
from giftrl.streams.batch import Position
from giftrl.streams.columns import Columns
from giftrl.streams.features import Dictionary, Hashing, restore
from giftrl.streams.interactions import Interactions
from giftrl.streams.reader import Reader
from giftrl.streams.rejects import BadRow
from giftrl.streams.sources import BadSource
from tests.stream_rows import named_rows

TEXTS = {
    "libsvm": b"1 1:2 3:4\n-1 x\n\n1 2:5\n0.5 7:1 9:-1\n1 1:nan\n-1 1:1\n",
    "vw": b"1 |a x y:2\n-1 |a y\nx |a\n1 'tag|b z:0.5 |a x\n|a x\n",
    "csv": b'label,n,c\n1,2,a\n-1,,"b\nc"\n1,2\n5,1,a\n-1,1,"d""e"\n',
    "json": b'{"label": 1, "n": 2}\n{"label": -1, "c": "a"}\n{\n{"label": 7}\n{"label": -1, "n": [1, 2]}\n',
}


def signs(labels):
    return np.isin(labels, (-1.0, 1.0))


def until_bad(reader):
    """The batches of a reader, and the error that ended it."""
    batches = []
    try:
        for batch in reader:
            batches.append(batch)  # noqa: PERF402 (those before the error are wanted)
    except BadRow as problem:
        return batches, problem
    return batches, None


def read(path, **options):
    features = options.pop("features", None) or Dictionary()
    reader = Reader(path, features, on_error="skip", constant=False, **options)
    batches = list(reader)
    assert all(len(batch) or batch.rejected for batch in batches)
    assert reader.rows == sum(map(len, batches)) and reader.rejected == sum(len(b.rejected) for b in batches)
    rejected = [(each.line, each.column, each.problem) for batch in batches for each in batch.rejected]
    return named_rows(batches, features), rejected, batches


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
def test_it_stops_at_the_first_bad_row_and_can_go_on_there(tmp_path, format_):
    path = tmp_path / "data"
    path.write_bytes(TEXTS[format_])
    good, bad, _ = read(path, format=format_, accepts=signs)
    for block in (1, 20, 1 << 20):
        features = Dictionary()
        found, position, met = [], Position(), []
        while True:
            reader = Reader(path, features, format=format_, accepts=signs, expected="-1 or 1", constant=False,
                            start=position, block=block)  # fmt: skip
            batches, problem = until_bad(reader)
            for batch in batches:
                assert not batch.rejected
                found += named_rows([batch], features)
            if problem is None:
                break
            rejected = problem.rejected
            assert str(problem) == str(rejected)
            assert str(problem).startswith(f"{path}:{rejected.line}:{rejected.column}: ")
            met.append(rejected.line)
            # Delivered is what comes before it, and nothing else.
            assert [row[0] for row in found] == [row[0] for row in good if row[0] < rejected.line]
            # Go on behind the bad line.
            lines = path.read_bytes().split(b"\n")
            position = Position(0, sum(len(line) + 1 for line in lines[: rejected.line]), rejected.line + 1)
        assert found == good
        assert met == [line for line, _, _ in bad]


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


def test_skipped_rows_are_written_down(tmp_path):
    path, side = tmp_path / "x.csv", tmp_path / "side.jsonl"
    raw = b"label,n,c\n1,2,a\nx,2,b\n7,1,a\n1,1,\xff\n,3,c\n-1,2,b\n"
    path.write_bytes(raw)
    columns = Columns(categorical=("c",))
    reader = Reader(path, Hashing(8), columns=columns, on_error="skip", rejects=side, accepts=signs, expected="-1 or 1")
    assert sum(map(len, reader)) == 2 and reader.rejected == 4 and reader.rows == 2
    lines = [json.loads(line) for line in side.read_text().splitlines()]
    assert [(each["source"], each["line"], each["column"]) for each in lines] == [
        (str(path), 3, 1), (str(path), 4, 1), (str(path), 5, 5), (str(path), 6, 1),
    ]  # fmt: skip
    assert [each["problem"] for each in lines] == [
        "a label that is not a number: 'x'", "the label 7", "bytes that are not UTF-8 in the column 'c'", "no label",
    ]  # fmt: skip
    assert [each["expected"] for each in lines][1] == "-1 or 1"
    assert [each.get("raw") for each in lines] == ["x,2,b", "7,1,a", None, ",3,c"]
    assert lines[2]["raw_base64"] == "MSwxLP8="
    # Going on adds to the file; beginning again begins it again.
    start = Position(0, raw.index(b",3,c"), 6)
    list(Reader(path, Hashing(8), columns=columns, on_error="skip", rejects=side, accepts=signs, start=start))
    assert len(side.read_text().splitlines()) == 5
    list(Reader(path, Hashing(8), columns=columns, on_error="skip", rejects=side))
    assert len(side.read_text().splitlines()) == 2


def test_labels_do_not_matter_where_nobody_asks(tmp_path):
    path = tmp_path / "x.vw"
    path.write_text("|a x\n3 |a x\n")
    [batch] = Reader(path, Hashing(4))
    assert np.isnan(batch.labels[0]) and batch.labels[1] == 3.0
    with pytest.raises(BadRow, match=r":1:1: no label, expected -1 or 1"):
        list(Reader(path, Hashing(4), accepts=signs, expected="-1 or 1"))


def test_arguments_are_checked_before_anything_is_read(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1 1:1\n")
    for options, error, message in [
        ({"format": "libsvn"}, UnknownName, "did you mean 'libsvm'"),
        ({"normalize": "l2"}, UnknownName, "normalize"),
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


def test_broken_sources_deliver_what_they_have(tmp_path):
    path = tmp_path / "x.svm.gz"
    packed = gzip.compress(b"".join(b"1 %d:%d.5\n" % (i, i) for i in range(1, 20_000)))
    path.write_bytes(packed[: len(packed) // 2])
    batches = []
    with pytest.raises(BadSource) as caught:
        batches.extend(Reader(path, Hashing(20), block=1 << 12))
    # list.extend() keeps what came before the error.
    rows = sum(map(len, batches))
    assert rows > 1000 and str(caught.value).startswith(f"{path}:{rows + 1}:1: the gzip data ends too early")
    path.write_bytes(packed[:12])
    with pytest.raises(BadSource, match=":1:1: the gzip data ends too early"):
        list(Reader(path, Hashing(20)))


def test_a_long_line_is_a_bad_row(tmp_path):
    path = tmp_path / "x.svm"
    path.write_bytes(b"1 1:1\n1 " + b"2:1 " * 1000 + b"\n1 3:1\n")
    rows, rejected, _ = read(path, max_line=1000, block=100)
    assert [row[0] for row in rows] == [1, 3]
    assert rejected[0][:2] == (2, 1) and rejected[0][2].startswith("a line of 4003 bytes, which begins with b'1 2:1 ")
    with pytest.raises(BadRow, match=":2:1: a line of"):
        list(Reader(path, Hashing(4), max_line=1000, block=100))


def test_interactions_in_pieces_end_where_they_say(tmp_path, monkeypatch):
    from giftrl.streams import crossing

    original = crossing.Crossing.cross
    monkeypatch.setattr(crossing.Crossing, "cross", lambda self, batch: original(self, batch, 30, 60))
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


def test_a_dictionary_can_be_saved_between_batches(tmp_path):
    path = tmp_path / "x.vw"
    path.write_text("".join(f"1 |a f{i} g{i % 10}:2\n" for i in range(5000)))
    features = Dictionary()
    reader = Reader(path, features, block=4000)
    rows, saved = [], None
    for k, batch in enumerate(reader):
        rows += named_rows([batch], features)
        if k == 3:
            with reader.paused():
                saved = restore(*features.state()), batch.end, len(rows)
    again, start, count = saved
    more = []
    for batch in Reader(path, again, block=4000, start=start):
        more += named_rows([batch], again)
    assert more == rows[count:]
    assert again.dimension == features.dimension
    assert [again.name(i) for i in range(again.dimension)] == [features.name(i) for i in range(features.dimension)]


def test_leaving_early_ends_the_thread(tmp_path):
    path = tmp_path / "x.svm"
    path.write_bytes(b"1 1:1 2:2\n" * 200_000)

    def threads():
        return [each for each in threading.enumerate() if each.name == "giftrl-reader"]

    for batch in Reader(path, Hashing(4), block=1 << 12):
        assert len(threads()) == 1 and len(batch)
        break
    batches = iter(Reader(path, Hashing(4), block=1 << 12))
    next(batches)
    batches.close()
    assert threads() == []

    def fail() -> None:
        for _ in Reader(path, Hashing(4), block=1 << 12):
            raise RuntimeError("the learner's own")

    with pytest.raises(RuntimeError, match="the learner's own"):
        fail()
    assert sum(len(batch) for batch in Reader(path, Hashing(4))) == 200_000
    assert threads() == []


def test_work_ahead_hands_over_what_is_raised():
    def items():
        yield 1
        raise KeyError("inside")

    seen = []
    with pytest.raises(KeyError, match="inside"):
        seen.extend(Ahead(items()))
    closed = []

    def endless():
        try:
            while True:
                yield 0
        finally:
            closed.append(True)

    for _ in Ahead(endless()):
        break
    deadline = time.monotonic() + 30
    while not closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert closed == [True]


def test_interrupting_a_wait_for_standard_input():
    code = (
        "from giftrl.streams.reader import Reader\n"
        "from giftrl.streams.features import Hashing\n"
        "print('ready', flush=True)\n"
        "for batch in Reader('-', Hashing(4), format='libsvm'): pass\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors and b"Fatal" not in errors
    assert process.returncode != 0


def test_standard_input(tmp_path):
    code = (
        "import numpy as np\n"
        "from giftrl.streams.reader import Reader\n"
        "from giftrl.streams.features import Hashing\n"
        "reader = Reader('-', Hashing(4), constant=False)\n"
        "print([batch.data.tolist() for batch in reader], reader.progress.total, reader.schema)\n"
    )
    for data, expected in [
        (b"1 1:2\n", b"[[2.0]] None None\n"),
        (gzip.compress(b"label,n\n1,2.5\n"), b"None Schema(names=('label', 'n'), kinds=('label', 'number'))\n"),
    ]:
        done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
        assert done.stdout.endswith(expected)


def test_importing_streams_is_cheap():
    code = (
        "import sys, giftrl.streams as s\n"
        "assert set(s.__all__) <= set(dir(s))\n"
        "print([name for name in ('numba', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


SEEDS = {
    "csv": b'label,n,c\n1,2.5,red\n-1,,"blue, or\ngreen"\n0,7e3,"say ""hi"""\n\n1,0,a\n',
    "json": b'{"label": 1, "a": {"b": [1, 2.5]}, "c": "\\u00e9"}\n'
    b'{"label": -1, "features": {"x": true}, "weight": 2}\n',
    "libsvm": b"1 1:2 3:4.5e-1 # a\n-1 qid:3 9:1\n",
    "vw": b"1 2 'tag|a x:2 y |b:0.5 z\n-1 | q\n",
}


@settings(max_examples=2 * settings().max_examples)
@given(data=st.data(), format_=st.sampled_from(sorted(SEEDS)), stop=st.booleans(), block=st.integers(1, 80))
def test_mutated_files_end_in_rows_or_known_errors(tmp_path_factory, data, format_, stop, block):
    text = bytearray(SEEDS[format_] * 2)
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path = tmp_path_factory.getbasetemp() / "mutated"
    path.write_bytes(bytes(text) or b"\n")
    pairs = [("a", "c")] if format_ in ("csv", "json", "vw") else ["::"]
    reader = Reader(path, Dictionary(), format=format_, on_error="stop" if stop else "skip", interactions=pairs,
                    normalize="unit", accepts=signs, block=block)  # fmt: skip
    with contextlib.suppress(BadRow, BadSource, InvalidInput):
        last = Position()
        for batch in reader:
            assert np.isfinite(batch.data).all() and batch.end > last
            last = batch.end
        assert last.offset <= len(text)
