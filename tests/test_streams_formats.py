"""Formats: found from the content, then from the name; a doubt is an error that lists the formats."""

import contextlib
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.errors import BadSource
from giftrl.streams.source import FORMATS, HEAD_BYTES, detect


def arrow_head(kind: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"label": [1.0]})
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, sink)
    else:
        with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def npz_head() -> bytes:
    sink = io.BytesIO()
    np.savez(sink, X=np.eye(2))
    return sink.getvalue()


@pytest.mark.parametrize(
    ("content", "name", "format_"),
    [
        (b"1 2:3\n", "x", "libsvm"),
        (b"-1 qid:3 2:3.5e-1 # comment, with | all; sorts\n", "x", "libsvm"),
        (b"# a comment\n\n+1 a:1\r\n", "x", "libsvm"),
        (b"1\n1 2:3\n", "x", "libsvm"),
        (b"1\n-1\n", "x.svm", "libsvm"),
        (b"1 2:x 3:4\n", "x.svm.gz", "libsvm"),
        (b"1 2:3,4\n", "x.svm", "libsvm"),
        (b"1 |a b c:3\n", "x.csv", "vw"),
        (b"|a b:3\n", "x", "vw"),
        (b"1 2 'tag|a b:3\n", "x", "vw"),
        (b"1|a\n", "x.vw", "vw"),
        (b"1:0.5 2:1 | a\n", "x", "vw"),
        (b'{"label": 1, "a|b": "x,y"}\n', "x.csv", "json"),
        (b"a,b\n1,2\n", "x", "csv"),
        (b"a|b\n1|2\n", "x.psv.zst", "csv"),
        (b"\xef\xbb\xbfa;b\n1;2\n", "x", "csv"),
        (b'"a|b",c\n', "x", "csv"),
        (b"1\n2\n", "x.csv", "csv"),
        (b"1,2:3\n", "x", "csv"),
        (arrow_head("parquet"), "x.csv", "parquet"),
        (arrow_head("file"), "x", "arrow"),
        (arrow_head("stream"), "x", "arrow"),
        (npz_head(), "x", "npz"),
        (b"1 " + b"12:0.5 " * HEAD_BYTES, "x", "libsvm"),
    ],
)
def test_found(content, name, format_):
    assert detect(content[:HEAD_BYTES], name) == format_


@pytest.mark.parametrize(
    ("content", "name", "asked", "message"),
    [
        (b"id|age|label\n", "x", None, "not certain.*one of: vw, csv"),
        (b"1\n2\n", "x", None, "not certain.*one of: libsvm, vw, csv"),
        (b"hello world\n", "x", None, "unknown: its first line is 'hello world'.*one of: libsvm, vw, csv, json"),
        (b"\n \n\n", "x", None, "holds no line"),
        (b"", "x", None, "holds no line"),
        (b"\x00\x01\x02", "x", None, "binary data"),
        ("a,b\n".encode("utf-16"), "x.csv", None, "UTF-16"),
        (b"[1, 2]\n", "x", None, "JSON array"),
        (b"<html>,\n", "x.parquet", None, "the name says parquet, but its first line is '<html>,'"),
        (b"a,b\n", "x.csv", "parquet", "format='parquet' was asked for, but its first line is 'a,b'"),
        (arrow_head("parquet"), "x.csv", "csv", "format='csv' was asked for, but it begins like Parquet"),
        (arrow_head("parquet"), "x.csv", "npz", "begins like Parquet"),
    ],
)
def test_doubts_are_errors(content, name, asked, message):
    with pytest.raises(BadSource, match=message) as caught:
        detect(content, name, asked)
    assert str(caught.value).startswith(f"{name}: ")


def test_what_was_asked_for_is_believed():
    for asked in ("libsvm", "vw", "csv", "json"):
        assert detect(b"id|age|label\n", "x.csv", asked) == asked


@given(content=st.binary(max_size=200) | st.text('1 :|,\t\n{"a.e+-', max_size=200).map(str.encode))
def test_an_answer_or_an_error(content):
    with contextlib.suppress(BadSource):
        assert detect(content, "x") in FORMATS


def test_no_line_takes_long():
    # A pattern that backtracks would take hours here.
    for unit in (b"1", b"1:", b" 1:1", b" ", b"1 ", b"|", b" 1:1.", b"a:1 1e"):
        for end in (b"", b"x", b"\n"):
            with contextlib.suppress(BadSource):
                assert detect((b"1 " + unit * HEAD_BYTES + end)[:HEAD_BYTES], "x") in FORMATS
