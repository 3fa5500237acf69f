"""Rows that cannot be used: they stop the reader or are written down, and nothing else is lost."""

import contextlib
import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl.errors import BadRow, BadSource, InvalidInput
from giftrl.streams.batch import Position
from giftrl.streams.columns import Columns
from giftrl.streams.names.features import Dictionary, Hashing
from giftrl.streams.reader import Reader
from tests.stream_rows import TEXTS, named_rows, read, signs, until_bad


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
