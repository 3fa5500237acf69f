"""Tables: rows agree with those that Python's csv and json modules, PyArrow and SciPy see, and bad rows are found."""

import contextlib
import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from giftrl.errors import InvalidInput, UnknownName
from giftrl.streams.arrow import ArrowTable, ConvertedWriter
from giftrl.streams.arrow_batches import RecordBatches
from giftrl.streams.batch import Position
from giftrl.streams.columns import Columns, Schema, decide
from giftrl.streams.csv_header import find_delimiter, layout
from giftrl.streams.csv_table import CsvText
from giftrl.streams.features import Dictionary, Hashing
from giftrl.streams.json_lines import JsonLines
from giftrl.streams.libsvm import LibsvmText
from giftrl.streams.npz import NpzMatrix
from giftrl.streams.sources import BadSource, Source, Stream
from tests.stream_rows import named_rows

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def number(text: str) -> float | None:
    """What is a number in a file: a finite decimal, and nothing that only Python takes for one."""
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


# --- CSV ---------------------------------------------------------------------------------------------------------


def read_csv(text: bytes, columns: Columns | None = None, schema: Schema | None = None, **options):
    """Rows, and the lines and columns that were rejected."""
    features = Dictionary()
    table = CsvText(features, columns, schema, **options)
    start = table.open(text, "x.csv", True)
    batch = table.parse(text[start.offset :], "x.csv", start)
    assert table.unused == 0
    assert batch.end.offset == len(text)
    return named_rows([batch], features), [(each.line, each.column) for each in batch.rejected], batch


def csv_twin(text: str, delimiter: str, kinds: dict[str, str]) -> tuple[list, list[int]]:
    """The same from Python's csv module, for text without broken quotes."""
    lines = re.findall("[^\n]*\n|[^\n]+", text)  # and not at carriage returns
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    header = next(reader)
    rows, bad = [], []
    before = reader.line_num
    for record in reader:
        line, before = before + 1, reader.line_num
        if not record:
            continue
        fields = dict(zip(header, record, strict=False))
        features, label, weight = {}, None, 1.0
        good = len(record) == len(header)
        for name, value in fields.items():
            kind = kinds[name]
            if kind == "category" and value:
                features[f"{name}={value}"] = 1.0
            elif kind == "number" and value not in ("", "NA", "N/A", "null", "NULL", "?"):
                found = number(value)
                good &= found is not None
                if found:
                    features[name] = found
            elif kind == "label" and value:
                label = number(value)
                good &= label is not None
            elif kind == "weight":
                found = number(value)
                good &= found is not None and found >= 0
                weight = found
        if good:
            rows.append((line, label, weight, features))
        else:
            bad.append(line)
    return rows, bad


words = st.text('ab ,;"\n\r\t|é漢{}', max_size=6).map(lambda text: text.strip(" "))
numerals = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["", "NA", "0", "-0.0", "+3", "1e5", ".5", "5.", "1e-400", "?"]),
)
mistakes = st.sampled_from(["x", "nan", "inf", "1e999", "0x10", "1_000", "--1", "1 2", "٣"])


@st.composite
def tables(draw):
    """The header, the kinds, and the rows of a table, some with mistakes."""
    kinds = {"y": "label", "n": "number", "c": "category", "w": "weight", "m^z": "number", "d": "category"}
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        row = [
            draw(st.sampled_from(["1", "-1", "", "0.5"])),
            draw(numerals),
            draw(words),
            draw(st.sampled_from(["1", "2.5", "0"])),
            draw(numerals),
            draw(words),
        ]
        wrong = draw(st.integers(0, 20))
        if wrong in (0, 1, 3, 4):
            row[wrong] = draw(mistakes)
        elif wrong == 6 and "\n" not in "".join(row):
            row = row[:-1]
        elif wrong == 7 and "\n" not in "".join(row):
            row.append(draw(numerals))
        elif wrong == 8:
            row[3] = "-1"
        rows.append(row)
    return list(kinds), kinds, rows


@given(
    table=tables(),
    delimiter=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    ending=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
    cut=st.booleans(),
)
def test_csv_agrees_with_the_csv_module(table, delimiter, quoting, ending, mark, cut):
    names, kinds, rows = table
    if quoting == csv.QUOTE_MINIMAL:  # which writes carriage returns without quotes
        rows = [[field.replace("\r", "") for field in row] for row in rows]
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, delimiter=delimiter, quoting=quoting, lineterminator=ending)
    writer.writerow(names)
    writer.writerows(rows)
    text = sink.getvalue()
    if cut:
        text = text.removesuffix(ending)
    schema = Schema(tuple(names), tuple(kinds.values()))
    raw = (b"\xef\xbb\xbf" if mark else b"") + text.encode()
    found, bad, batch = read_csv(raw, Columns(delimiter=delimiter, header=True), schema)
    expected, wrong = csv_twin(text, delimiter, kinds)
    assert found == expected
    assert [line for line, _ in bad] == wrong
    for each in batch.rejected:
        assert each.raw.decode() in text


@given(table=tables(), size=st.integers(1, 60))
def test_csv_in_plain_python_and_in_blocks_is_the_same(tmp_path_factory, table, size):
    from giftrl.streams.lines import Lines

    names, kinds, rows = table
    sink = io.StringIO(newline="")
    csv.writer(sink, lineterminator="\n").writerows([names, *rows])
    raw = sink.getvalue().encode()
    schema = Schema(tuple(names), tuple(kinds.values()))
    columns = Columns(delimiter=",", header=True)
    whole = read_csv(raw, columns, schema)
    if len(rows) < 4:
        plain = read_csv(raw, columns, schema, compiled=False)
        assert plain[:2] == whole[:2]
    path = tmp_path_factory.getbasetemp() / "blocks.csv"
    path.write_bytes(raw)
    features = Dictionary()
    table = CsvText(features, columns, schema)
    batches, rejected = [], []
    with Stream(Source("x.csv", path)) as stream:
        lines = Lines(stream, table.open(raw, "x.csv", True), size)
        for block in lines:
            batch = table.parse(block.data, "x.csv", block.start, block.last)
            lines.give_back(table.unused)
            assert batch.end.offset == block.end.offset - table.unused
            batches.append(batch)
            rejected += [(each.line, each.column) for each in batch.rejected]
    assert named_rows(batches, features) == whole[0]
    assert rejected == whole[1]


def test_where_csv_is_wrong():
    text = b'y,n,c\n1,2,a\n1,x,a\n1,2\n1,2,a,b\n1,2,"a"b\n1,"2,a\n1,2,b\rc\n\xff,2,a\n1,2,\xff\n1,1e999,a\n3,"5",\n'
    rows, bad, batch = read_csv(text, Columns(), Schema(("y", "n", "c"), ("label", "number", "category")))
    assert bad == [(3, 3), (4, 4), (5, 7), (6, 8), (7, 3), (8, 6), (9, 1), (10, 5), (11, 3)]
    assert [line for line, *_ in rows] == [2, 12]
    assert rows[1][3] == {"n": 5.0}
    assert [str(each).partition(": ")[2] for each in batch.rejected] == [
        "'x' in the column of numbers 'n', "
        "expected a finite number; if these are codes, name the column in categorical",
        "only 2 of 3 columns, expected 3 columns",
        "4 columns, expected 3 columns",
        "text after a closing quote: 'b', expected the delimiter or the end of the line",
        "a quote that is not closed: '\"2,a', expected its end within 16777216 bytes",
        "a carriage return inside a line, expected one before the newline, or in quotes",
        "a label that is not a number: '\\\\xff', expected a finite number",
        "bytes that are not UTF-8 in the column 'c', expected text in UTF-8",
        "'1e999' in the column 'n', too large for float64, expected a finite number",
    ]
    assert batch.rejected[0].raw == b"1,x,a"
    assert batch.rejected[4].raw == b'1,"2,a'


def test_spaces_around_fields_do_not_count_and_quoted_ones_do():
    schema = Schema(("y", "c", "n"), ("label", "category", "number"))
    text = b'y, c ,n\n 1 , a b ,  2\n1," a b "," 3 "\n   \n1,a, 4 5\n'
    rows, bad, _ = read_csv(text, Columns(), schema)
    assert rows == [(2, 1.0, 1.0, {"c=a b": 1.0, "n": 2.0}), (3, 1.0, 1.0, {"c= a b ": 1.0, "n": 3.0})]
    assert bad == [(5, 6)]


def test_rows_may_span_lines():
    text = b'y,c\n1,"a\nb"\n0,"c""\n\nd"\n1,e\n'
    rows, bad, _ = read_csv(text)
    assert [(line, list(features)) for line, _, _, features in rows] == [
        (2, ["c=a\nb"]),
        (4, ['c=c"\n\nd']),
        (7, ["c=e"]),
    ]
    assert bad == []


@pytest.mark.parametrize(
    ("text", "names", "kinds", "line"),
    [
        (b"y,a\n1,2\n", ("y", "a"), ("label", "number"), 2),
        (b"1,2\n3,4\n", ("0", "1"), ("number", "label"), 1),
        (b"a,b\n1,2\n", ("a", "b"), ("number", "label"), 2),
        (b"0,1,label\n5,6,1\n", ("0", "1", "label"), ("number", "number", "label"), 2),
        (b"NA,2\n3,4\n", ("0", "1"), ("number", "label"), 1),
        (b"red,1\nblue,2\n", ("0", "1"), ("category", "label"), 1),
        (b"\n\n Target ,x\n1,a\n", ("Target", "x"), ("label", "category"), 4),
        (b"a,,b\n1,2,3\n", ("a", "1", "b"), ("number", "number", "label"), 2),
        (b"a,b\n", ("a", "b"), ("number", "label"), 2),
        (b"class,y,label\n1,2,3\n", ("class", "y", "label"), ("number", "number", "label"), 2),
    ],
)
def test_header_and_kinds_are_found(text, names, kinds, line):
    found = layout(text, "x.csv", Columns(), None, True)
    assert (found.names, found.kinds, found.line) == (names, kinds, line)


def test_a_column_is_of_numbers_if_nine_in_ten_are():
    few = b"y,c\n" + b"1,7\n" * 18 + b"1,x\n1,z\n"
    rows, bad, _ = read_csv(few)
    assert [line for line, _ in bad] == [20, 21] and rows[0][3] == {"c": 7.0}
    many = b"y,c\n" + b"1,7\n" * 17 + b"1,x\n1,z\n"
    rows, bad, _ = read_csv(many)
    assert not bad and rows[0][3] == {"c=7": 1.0}


def test_what_the_user_says_of_columns():
    text = b"id,zip,y,h,age\n7,100,1,2,30\n8,200,0,3,40\n"
    columns = Columns(label="age", weight="h", ignore=(0,), categorical=("zip",))
    rows, _, _ = read_csv(text, columns)
    assert rows[0] == (2, 30.0, 2.0, {"zip=100": 1.0, "y": 1.0})
    rows, _, _ = read_csv(text, Columns(label="-1", ignore=("id", "y"), weight=3))
    assert rows[1] == (3, 40.0, 3.0, {"zip": 200.0})
    for wrong, error, message in [
        (Columns(label="agee"), UnknownName, "did you mean 'age'"),
        (Columns(label=5), InvalidInput, "one of 5 columns"),
        (Columns(label="age", weight="age"), InvalidInput, "must not be the column of weight as well"),
        (Columns(ignore=("y",), categorical=(2,)), InvalidInput, "must not be the column of ignore as well"),
    ]:
        with pytest.raises(error, match=message):
            read_csv(text, wrong)
    with pytest.raises(InvalidInput, match="must be a tuple"):
        Columns(ignore="id")
    for mark in ("ab", "\n", '"', "5", "é"):
        with pytest.raises(InvalidInput, match="one character"):
            Columns(delimiter=mark)


def test_other_tables_follow_the_first():
    schema = Schema(("y", "n", "c", "id"), ("label", "number", "category", "ignored"))
    rows, bad, _ = read_csv(b"c,n\n5,6\n", None, schema)
    assert rows == [(2, None, 1.0, {"c=5": 1.0, "n": 6.0})] and not bad
    rows, _, _ = read_csv(b"1,6,7,x\n", None, Schema(("0", "1", "2", "3"), schema.kinds))
    assert rows == [(1, 1.0, 1.0, {"1": 6.0, "2=7": 1.0})]
    with pytest.raises(BadSource, match="x.csv: has the column 'q', which the table"):
        read_csv(b"y,n,c,q\n1,2,3,4\n", Columns(header=True), schema)
    with pytest.raises(BadSource, match="x.csv: lacks the column 'c'"):
        read_csv(b"y,n\n1,2\n", None, schema)
    with pytest.raises(BadSource, match="has 2 columns and no header, where 4 are known"):
        read_csv(b"1,2\n", Columns(header=False), schema)
    with pytest.raises(BadSource, match="two columns of the same name"):
        read_csv(b"y,a,a\n1,2,3\n")
    with pytest.raises(BadSource, match="holds no row"):
        read_csv(b"\n\n")
    assert Schema.restore(json.loads(json.dumps(schema.state()))) == schema
    with pytest.raises(InvalidInput, match="a kind for each name"):
        Schema.restore({"names": ["a"], "kinds": ["colour"]})


def test_delimiters():
    assert find_delimiter("a,b;c\n1,2;3\n") == ";"
    assert find_delimiter("a\tb,c\n1\t2\n") == "\t"
    assert find_delimiter('"a;b",c\n"d;e;f",g\n') == ","
    assert find_delimiter("a|b\n1|2\n") == "|"
    rows, _, _ = read_csv(b"y c\n1 a\n", Columns(delimiter=" "))
    assert rows == [(2, 1.0, 1.0, {"c=a": 1.0})]


def test_colliding_columns_are_summed_and_too_large_sums_rejected():
    features = Hashing(1)
    table = CsvText(features)
    names = ",".join(f"n{i}" for i in range(40))
    text = f"y,{names}\n1,{','.join(['1'] * 40)}\n1,{','.join(['1.7e308'] * 40)}\n1{',' * 40}\n".encode()
    start = table.open(text, "x.csv", True)
    batch = table.parse(text[start.offset :], "x.csv", start)
    named_rows([batch], features)
    assert batch.lines.tolist() == [2, 4] and len(batch.data) <= 2
    slots, signs = features.slots(names.split(","))
    for slot, value in zip(batch.indices.tolist(), batch.data.tolist(), strict=True):
        assert value == signs[slots == slot].sum()
    assert [each.line for each in batch.rejected] == [3]


@settings(max_examples=300)
@given(data=st.data())
def test_mutated_csv_is_read_or_rejected_line_by_line(data):
    text = bytearray(b'label,n,c\n1,2.5,red\n-1,,"blue, or\ngreen"\n0,7e3,"say ""hi"""\n\n1,0,a\n' * 2)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text) - 1))
        what = data.draw(
            st.sampled_from([b'"', b",", b"\n", b"\r", b"\0", b"\xff", b"9", b"e", b" ", b""]) | st.binary(max_size=3)
        )
        text[at : at + data.draw(st.integers(0, 3))] = what
    schema = Schema(("label", "n", "c"), ("label", "number", "category"))
    with contextlib.suppress(BadSource):
        rows, bad, batch = read_csv(bytes(text), Columns(delimiter=",", header=True), schema)
        lines = bytes(text).count(b"\n") + (not text.endswith(b"\n"))
        assert all(line <= lines for line, *_ in rows) and all(line <= lines for line, _ in bad)
        assert batch.end.line == lines + 1
    with contextlib.suppress(BadSource, InvalidInput):
        read_csv(bytes(text))


# --- JSON lines --------------------------------------------------------------------------------------------------


def read_json(text: bytes, columns: Columns | None = None, schema: Schema | None = None):
    features = Dictionary()
    batch = JsonLines(features, columns, schema).parse(text, "x.json", Position())
    assert batch.end == Position(0, len(text), text.count(b"\n") + (bool(text) and not text.endswith(b"\n")) + 1)
    return named_rows([batch], features), [(each.line, each.column) for each in batch.rejected], batch


def flat(key: str, value: object, out: dict[str, float]) -> None:
    """What an object means, slowly."""
    if isinstance(value, dict):
        for inner, item in value.items():
            flat(f"{key}^{inner}", item, out)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            if isinstance(item, str):
                flat(key, item, out)
            else:
                flat(f"{key}^{at}", item, out)
    elif isinstance(value, str):
        if value:
            out[f"{key}={value}"] = out.get(f"{key}={value}", 0.0) + 1.0
    elif value is not None and float(value) != 0.0:
        out[key] = out.get(key, 0.0) + float(value)


keys = st.sampled_from(["a", "b", "c", "d e", "é", 'q"', "weight", "tag"])
scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e300, 1e300) | st.text(max_size=5)
scalars = scalars.filter(lambda x: not isinstance(x, str) or x.isprintable() or "\n" in x or "\0" in x)
lists = st.lists(st.text(max_size=3), max_size=3) | st.lists(st.floats(-1e300, 1e300) | st.none(), max_size=3)
objects = st.dictionaries(
    keys,
    scalars | lists | st.dictionaries(keys, scalars | st.dictionaries(keys, scalars, max_size=2), max_size=3),
    max_size=4,
)


def encodable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(
    rows=st.lists(st.tuples(st.sampled_from([1, -1, 0.5, None]), st.sampled_from([None, 0, 2.5]), objects), max_size=6),
    nested=st.booleans(),
    ascii_=st.booleans(),
    junk=st.lists(
        st.sampled_from(["{", "[]", '{"label": "x"}', '{"label": NaN}', "", "  ", '{"label": 1e999}']), max_size=3
    ),
)
def test_json_agrees_with_the_json_module(rows, nested, ascii_, junk):
    assume(encodable(rows))
    lines, expected, bad = [], [], []
    for label, weight, features in rows:
        if junk:
            lines.append(junk.pop())
            if lines[-1].strip():
                bad.append(len(lines))
        row = {} if label is None else {"label": label}
        if nested:
            row["features"] = features
            if weight is not None:
                row["weight"] = weight
        else:
            row.update(features)
        lines.append(json.dumps(row, ensure_ascii=ascii_))
        out: dict[str, float] = {}
        for key, value in features.items():
            flat(key, value, out)
        expected.append((len(lines), label, weight if nested and weight is not None else 1.0, out))
    text = "\n".join(lines).encode()
    found, wrong, _ = read_json(text, Columns(label="label"))
    assert found == expected
    assert [line for line, _ in wrong] == bad


def test_json_shapes():
    rows, bad, batch = read_json(
        b'{"y": 1, "a": 2, "user": {"age": 3, "geo": {"city": "Rome"}}, "tags": ["x", "y", "x", ""], '
        b'"v": [0.5, 0, 2], "f": true}\n'
        b'{"y": 0, "features": {"a": 1, "a": 2, "label": 3}, "tag": "t1", "weight": 4}\n'
    )
    assert not bad
    assert rows[0][:3] == (1, 1.0, 1.0)
    assert rows[0][3] == {
        "a": 2.0, "user^age": 3.0, "user^geo^city=Rome": 1.0, "tags=x": 2.0, "tags=y": 1.0, "v^0": 0.5, "v^2": 2.0,
        "f": 1.0,
    }  # fmt: skip
    assert rows[1] == (2, 0.0, 4.0, {"a": 3.0, "label": 3.0})
    assert batch.tags == ("", "t1")
    rows, _, _ = read_json(
        b'{"clicked": 1, "h": 2, "id": 7, "zip": 100, "u": {"x": 1, "y": 2}}\n',
        Columns(label="clicked", weight="h", ignore=("id", "u^x"), categorical=("zip", "u^y")),
    )
    assert rows == [(1, 1.0, 2.0, {"zip=100": 1.0, "u^y=2": 1.0})]


def test_the_key_of_the_label_is_found_once():
    parser = JsonLines(Dictionary())
    first = parser.parse(b'{"target": 1, "a": 1}\n{"y": 1, "a": 2}\n', "x", Position())
    assert first.labels[0] == 1.0 and math.isnan(first.labels[1])
    assert parser.schema == Schema(("target",), ("label",))
    again = JsonLines(Dictionary(), None, parser.schema)
    assert math.isnan(again.parse(b'{"label": 3}\n', "x", Position()).labels[0])


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        (b'{"label": 1, "a": }', 19, "not JSON (Expecting value), expected one object a line"),
        ("{\"é\": 1, 'a': 2}".encode(), 11, "not JSON"),
        (b'{"label": 1} 2', 14, "not JSON (Extra data)"),
        (b'{"label": 1, "\xff": 2}', 15, "bytes that are not UTF-8"),
        (b'{"label": "1"}', 2, "a label that is not a number: '1', expected a finite number"),
        (b'{"label": 1, "label": 1}', 2, "two keys 'label'"),
        (b'{"label": 1, "a": NaN}', 19, "NaN, which is no number in JSON"),
        (b'{"label": 1, "a": -Infinity}', 19, "-Infinity, which is no number"),
        (b'{"label": 1, "a": 1e400}', 14, "a number too large"),
        (b'{"label": 1, "a": 1' + b"0" * 400 + b"}", 14, "a number too large"),
        (b'{"label": 1, "a": 1' + b"0" * 5000 + b"}", 1, "a number too large"),
        (b'{"label": 1, "b": {"a": [1, "x"]}}', 20, "a list of several kinds of things"),
        (b'{"label": 1, "a": [[1]]}', 14, "a list of several kinds of things"),
        (b'{"label": 1, "features": {}, "weight": -1}', 30, "a weight below 0"),
        (b'{"label": 1, "features": {}, "weight": null}', 30, "a weight that is not a number"),
        (b'{"label": 1, "features": {}, "id": 4}', 30, "the key 'id' beside 'features'"),
        (b'{"label": 1, "a": "\\ud800"}', 20, "half of a pair of surrogates"),
        (b"[1, 2]", 1, "no object"),
        (b'{"label": 1, "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 1, "too deep"),
        (b'{"label": 1, "a": ' + b'{"b": ' * 200 + b"1" + b"}" * 200 + b"}", None, "too deep"),
    ],
)
def test_where_json_is_wrong(line, column, message):
    text = b'{"label": 1, "a": 1}\n' + line + b'\n{"label": 1, "a": 2}\n'
    rows, bad, batch = read_json(text, Columns(label="label"))
    assert [row[0] for row in rows] == [1, 3] and [at for at, _ in bad] == [2]
    assert message in str(batch.rejected[0])
    assert column is None or bad[0][1] == column
    assert batch.rejected[0].raw == line


@settings(max_examples=300)
@given(data=st.data())
@example(data=None)
def test_mutated_json_is_read_or_rejected_line_by_line(data):
    text = bytearray(
        b'{"label": 1, "a": {"b": [1, 2.5]}, "c": "\\u00e9"}\n{"y": -1, "features": {"x": true}, "weight": 2}\n\n' * 2
    )
    if data is not None:
        for _ in range(data.draw(st.integers(1, 8))):
            at = data.draw(st.integers(0, len(text) - 1))
            what = data.draw(
                st.sampled_from([b'"', b"{", b"}", b"\n", b"[", b"\\u", b"\xff", b"1e", b"null", b""])
                | st.binary(max_size=3)
            )
            text[at : at + data.draw(st.integers(0, 3))] = what
    _, bad, batch = read_json(bytes(text))
    lines = bytes(text).split(b"\n")
    filled = [at for at, line in enumerate(lines, 1) if line.strip()]
    assert sorted([*batch.lines.tolist(), *(line for line, _ in bad)]) == filled


# --- Parquet and Arrow -------------------------------------------------------------------------------------------


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
        table = ArrowTable(features, columns, schema)
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


@settings(max_examples=60)
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
            "when": pa.array([1, 2], pa.timestamp("s")),
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
    with pytest.raises(BadSource, match=r"the column 'when' has type timestamp\[s\].*; ignore the column"):
        read_arrow(source, "file")
    rows, _, _ = read_arrow(source, "file", Columns(ignore=("when",), categorical=("zip",)))
    assert rows == [
        (1, 1.0, 1.0, {"money": 1.0, "zip=100": 1.0, "big=a": 1.0, "view=a": 1.0, "vector^0": 1.0, "vector^1": 2.0}),
        (2, None, 1.0, {"zip=200": 1.0}),
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
    assert str(batch.rejected[0]).endswith(
        ":2:1: a value that is not finite in the column 'a', expected a finite number"
    )
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


def test_arrow_through_pipes_and_compression(tmp_path):
    import gzip

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


# --- the converted layout ----------------------------------------------------------------------------------------

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
        ConvertedWriter(tmp_path / "no" / "rows.arrow", features)
    with pytest.raises(InvalidInput, match="lz4"):
        ConvertedWriter(path, features, compression="rar")
    with ConvertedWriter(path, features) as writer, pytest.raises(InvalidInput, match="constant"):
        writer.write(batch.__class__(**(batch._asdict() | {"indices": batch.indices + np.int32(16 - 3)})))


# --- npz ---------------------------------------------------------------------------------------------------------


def read_npz(path: Path, start: int = 0):
    features = Dictionary()
    with Stream(Source("x.npz", path)) as stream:
        batches = list(NpzMatrix(features).read(stream, Position(0, start, start + 1)))
    return named_rows(batches, features), [(b.line, b.column) for batch in batches for b in batch.rejected]


def npz_twin(matrix, labels, weights) -> list:
    rows = []
    for i, (row, label, weight) in enumerate(zip(matrix.tolist(), labels, weights, strict=True)):
        rows.append((i + 1, label, weight, {str(j + 1): v for j, v in enumerate(row) if v != 0.0}))
    return rows


@pytest.mark.parametrize("layout_", ["dense", "fortran", "float32", "parts", "csr", "csc", "coo", "compressed", "int"])
def test_npz_agrees_with_its_matrix(tmp_path, monkeypatch, layout_):
    from giftrl.streams import npz

    monkeypatch.setattr(npz, "CELLS", 16)
    monkeypatch.setattr(npz, "ROWS", 7)
    rng = np.random.default_rng(0)
    matrix = np.where(rng.random((50, 6)) < 0.4, rng.integers(-5, 6, (50, 6)), 0).astype(np.float64)
    y, h = rng.integers(0, 2, 50).astype(np.float64), rng.integers(1, 4, 50).astype(np.float64)
    path = tmp_path / "x.npz"
    csr = sparse.csr_array(matrix)
    if layout_ == "parts":
        np.savez(path, data=csr.data, indices=csr.indices, indptr=csr.indptr, shape=csr.shape, y=y, weights=h)
    elif layout_ in ("csr", "csc", "coo"):
        sparse.save_npz(path, csr.asformat(layout_))
        np.save(tmp_path / "x.y.npy", y)
        np.save(tmp_path / "x.weights.npy", h)
    elif layout_ == "compressed":
        np.savez_compressed(path, X=matrix, y=y.astype(np.int8), weights=h)
    else:
        stored = {"fortran": np.asfortranarray(matrix), "float32": matrix.astype("f4"), "int": matrix.astype("i2")}
        np.savez(path, X=stored.get(layout_, matrix), y=y, weights=h)
    expected = npz_twin(matrix, y, h)
    assert read_npz(path) == (expected, [])
    assert read_npz(path, start=23)[0] == expected[23:]
    assert read_npz(path, start=50)[0] == []
    with pytest.raises(BadSource, match="ends at row 50, before row 51"):
        read_npz(path, start=51)


def test_npz_rows_that_are_not_finite(tmp_path):
    path = tmp_path / "x.npz"
    matrix = np.array([[1.0, 2.0], [0.0, np.nan], [3.0, 0.0], [np.inf, 1.0], [1.0, 1.0]])
    np.savez(path, X=matrix, y=[1.0, 1.0, np.nan, 1.0, np.inf], weights=[1, 1, 1, 1, 1])
    rows, bad = read_npz(path)
    assert rows == [(1, 1.0, 1.0, {"1": 1.0, "2": 2.0}), (3, None, 1.0, {"1": 3.0})]
    assert bad == [(2, 2), (4, 1), (5, 1)]


def test_npz_errors(tmp_path):
    path = tmp_path / "x.npz"
    for arrays, message in [
        ({"X": np.array([[{}]])}, "Python objects"),
        ({"X": np.ones(3)}, "must be a matrix"),
        ({"A": np.ones((3, 3))}, "it holds A; expected X"),
        ({"X": np.ones((3, 3)), "y": np.ones(4)}, r"y has shape \(4,\), where the matrix has 3 rows"),
        ({"X": np.array([["a"]])}, "X has type"),
        ({"X": np.ones((2, 2), complex)}, "no number"),
        ({"data": np.ones(2), "indices": [0, 9], "indptr": [0, 1, 2], "shape": [2, 3]}, "a column out of range"),
        ({"data": np.ones(2), "indices": [0, 1], "indptr": [0, 2, 1], "shape": [2, 3]}, "do not fit"),
        ({"data": np.ones(2), "indices": [0, 1], "indptr": [0, 1], "shape": [2, 3]}, "do not fit"),
    ]:
        np.savez(path, **arrays)
        with pytest.raises(BadSource, match=message):
            read_npz(path)
    np.savez(path, X=np.random.default_rng(0).random((100, 100)), y=np.ones(100))
    raw = path.read_bytes()
    path.write_bytes(raw[:-100])
    with pytest.raises(BadSource, match="cannot be read"):
        read_npz(path)
    path.write_bytes(raw[:40_000] + b"xxxxxxxx" + raw[40_008:])
    with pytest.raises(BadSource, match="cannot be read"):
        read_npz(path)


def test_the_usual_label():
    assert decide(Columns(), ["x", "Y", "Label"], ["number"] * 3, "a").kinds == ("number", "number", "label")
    assert decide(Columns(ignore=("label",)), ["label", "x"], ["number"] * 2, "a").kinds == ("ignored", "number")
    assert decide(Columns(), ["a", "b"], ["number"] * 2, "a").kinds == ("number", "label")


def test_record_batches_report_how_far_they_are(tmp_path):
    source = write(pa.table({"a": np.arange(10.0)}), tmp_path / "t", "parquet", 2)
    with Stream(source) as stream:
        found = RecordBatches(stream, "parquet")
        for _ in found.pieces(0, None, ()):
            pass
        assert found.fraction == 1.0
