"""CSV: rows agree with those that Python's csv module sees, and bad rows are found."""

import csv
import io
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl.errors import BadSource, InvalidInput, UnknownName
from giftrl.streams.columns import Columns, InferredColumn, Schema, decide
from giftrl.streams.names.features import Dictionary, Hashing
from giftrl.streams.source import Source, Stream
from giftrl.streams.tables.csv import CsvBlocks, CsvText, find_delimiter
from giftrl.streams.tables.csv_fallback import Dialect
from tests.stream_rows import named_rows

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def number(text: str) -> float | None:
    """What is a number in a file: a finite decimal, and nothing that only Python takes for one."""
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def parsed(text: bytes, features, **options):
    table = CsvText(features, **options)
    start = table.open(text, "x.csv", True)
    return table, table.parse(text[start.offset :], "x.csv", start)


def read_csv(text: bytes, columns: Columns | None = None, schema: Schema | None = None, **options):
    """Rows, and the lines and columns that were rejected."""
    features = Dictionary()
    table, batch = parsed(text, features, columns=columns or Columns(), schema=schema, **options)
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
            elif kind == "number" and value in ("", "NA", "N/A", "null", "NULL", "?"):
                features[f"{name}=missing"] = 1.0
            elif kind == "number":
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
        rows = [[field.replace("\r", "").strip(" ") for field in row] for row in rows]
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
    from giftrl.streams.line_blocks import LineBlocks

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
        lines = LineBlocks(stream, table.open(raw, "x.csv", True), size)
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
        "expected a finite number; if these are codes, --categorical n reads them as such",
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


def test_spaces_around_fields_do_not_count_in_quotes_or_not():
    schema = Schema(("y", "c", "n"), ("label", "category", "number"))
    text = b'y, c ,n\n 1 , a b ,  2\n1," a b "," 3 "\n   \n1,a, 4 5\n'
    rows, bad, _ = read_csv(text, Columns(), schema)
    assert rows == [(2, 1.0, 1.0, {"c=a b": 1.0, "n": 2.0}), (3, 1.0, 1.0, {"c=a b": 1.0, "n": 3.0})]
    assert bad == [(5, 6)]


def test_rows_may_span_lines():
    text = b'y,c\n1,"a\nb"\n0,"c""\n\nd"\n1,e\n'
    rows, bad, _ = read_csv(text)
    assert [(line, *features) for line, _, _, features in rows] == [(2, "c=a\nb"), (4, 'c=c"\n\nd'), (7, "c=e")]
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
    table = CsvText(Dictionary())
    start = table.open(text, "x.csv", True)
    assert (*table.schema, start.line) == (names, kinds, line)


def test_a_column_is_of_numbers_if_nine_in_ten_are():
    few = b"y,c\n" + b"1,7\n" * 18 + b"1,x\n1,z\n"
    rows, bad, _ = read_csv(few)
    assert [line for line, _ in bad] == [20, 21] and rows[0][3] == {"c": 7.0}
    rows, bad, _ = read_csv(few.replace(b"1,7\n", b"", 1))
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
    for text, header, known, message in (
        (b"y,n,c,q\n1,2,3,4\n", True, schema, "x.csv: has the column 'q', which the table"),
        (b"y,n\n1,2\n", None, schema, "x.csv: lacks the column 'c'"),
        (b"1,2\n", False, schema, "has 2 columns and no header, where 4 are known"),
        (b"y,a,a\n1,2,3\n", None, None, "two columns of the same name"),
        (b"\n\n", None, None, "holds no row"),
    ):
        with pytest.raises(BadSource, match=message):
            read_csv(text, Columns(header=header), known)
    assert Schema.restore(json.loads(json.dumps(schema.state()))) == schema
    with pytest.raises(InvalidInput, match="a kind for each name"):
        Schema.restore({"names": ["a"], "kinds": []})
    with pytest.raises(UnknownName, match="'colour'"):
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
    names = ",".join(f"n{i}" for i in range(40))
    text = f"y,{names}\n1,{','.join(['1'] * 40)}\n1,{','.join(['1.7e308'] * 40)}\n1{',0' * 40}\n".encode()
    _, batch = parsed(text, features)
    named_rows([batch], features)
    assert batch.lines.tolist() == [2, 4] and len(batch.data) <= 2
    slots, signs = features.slots(names.split(","))
    for slot, value in zip(batch.indices.tolist(), batch.data.tolist(), strict=True):
        assert value == signs[slots == slot].sum()
    assert [each.line for each in batch.rejected] == [3]


def test_the_usual_label():
    for columns, names, kinds in (
        (Columns(), ["x", "Y", "Label"], ("number", "number", "label")),
        (Columns(ignore=("label",)), ["label", "x"], ("ignored", "number")),
        (Columns(), ["a", "b"], ("number", "label")),
    ):
        assert decide(columns, names, [InferredColumn("number")] * len(names), "a")[0].kinds == kinds


@settings(max_examples=3 * settings().max_examples)
@given(
    text=st.lists(
        st.sampled_from([b"1", b"-2.5", b"a", b"b c", b" ", b"\t", b",", b",", b",", b'"', b'""', b"\n", b"\r\n",
                         b"\r", b"nan", b"1e999", b"+3", b"NA", b"\xc3\xa9", b"\xff", b"\xef\xbb\xbf", b"\0",
                         b"1,2,x\n", b'3,"4","y\nz"\n'])
    ).map(b"".join),
    whole=st.booleans(),
    delimiter=st.sampled_from([",", ",", " "]),
)  # fmt: skip
def test_pyarrow_and_the_csv_module_read_the_same(text, whole, delimiter):
    text = text.replace(b",", delimiter.encode()) + b"\n"
    kinds = ("label", "number", "category")
    for dialect in (Dialect(delimiter, ("y", "n", "c"), kinds, ("NA",)), Dialect(delimiter, ("w",), ("weight",), ())):
        blocks = CsvBlocks(dialect, "x.csv")
        slow = blocks.typed(blocks._by_csv(text, 1, whole))
        for quick in (blocks.read(text, 1, whole), blocks.typed(blocks.texts(text, 1, whole))):
            assert quick.rejected == slow.rejected
            for mine, twin in zip(quick[:5], slow[:5], strict=True):
                assert np.array_equal(mine, twin)
            for at in dialect.used:
                assert repr(quick.columns[at].to_pylist()) == repr(slow.columns[at].to_pylist())


def test_what_pyarrow_reads_in_its_own_way():
    schema = Schema(("y", "n", "c"), ("label", "number", "category"))

    def rows_of(text):
        rows, bad, _ = read_csv(b"y,n,c\n" + text, Columns(), schema)
        return [(label, features) for _, label, _, features in rows], bad

    # Tabs around a number do not count, and neither do spaces inside quotes; tabs around a category do.
    assert rows_of(b'1,\t2\t,"\ta "\n') == ([(1.0, {"n": 2.0, "c=\ta": 1.0})], [])
    # A lone carriage return ends no line, and what follows a closing quote is not part of the field: both reject.
    assert rows_of(b'1,2,a\rb\n1,2,"a"b\n1,2,"a" \n1,3,a\n') == (
        [(1.0, {"n": 3.0, "c=a": 1.0})],
        [(2, 6), (3, 8), (4, 8)],
    )
    # A quote in the middle of a field is a letter, and in quotes a carriage return is one too.
    assert rows_of(b'1,2,5" pipe\n1,2,"a\rb"\n')[0] == [
        (1.0, {"n": 2.0, 'c=5" pipe': 1.0}), (1.0, {"n": 2.0, "c=a\rb": 1.0})
    ]  # fmt: skip


def test_one_bad_row_does_not_change_how_others_are_read():
    good = b"".join(b"%d,%d,v%d\n" % (i % 2, i, i % 7) for i in range(2000))
    at = good.index(b"1,999,")
    schema = Schema(("y", "n", "c"), ("label", "number", "category"))
    for wrong in (b"1,x,a\n", b"1,2\n", b'1,2,"a"b\n', b"1,nan,a\n", b"1,2,\xff\n"):
        rows, bad, _ = read_csv(b"y,n,c\n" + good[:at] + wrong + good[at:], Columns(), schema)
        assert [line for line, _ in bad] == [1001] and len(rows) == 2000
        assert rows[1000][1:] == (0.0, 1.0, {"n": 1000.0, "c=v6": 1.0})


@pytest.mark.parametrize("header", [b"y,n,c\n", b"", b"\xef\xbb\xbf\n\ny,n,c\n"])
@pytest.mark.parametrize("quote", [b"", b'"'])
@pytest.mark.parametrize("wrong", [b"", b"0,x,a\n"])
def test_rows_that_show_what_columns_hold_are_the_rows_of_the_first_block(header, quote, wrong):
    rows = b"".join(b"%d,%d,%bv%d%b\n" % (i % 2, i + 1, quote, i % 7, quote) for i in range(1500))
    raw = header + rows + wrong + b"1,2,v1"
    columns = Columns(label=0)
    found, bad, batch = read_csv(raw, columns)
    names = ("y", "n", "c") if header else ("0", "1", "2")
    again, bad_again, batch_again = read_csv(raw, columns, Schema(names, ("label", "number", "category")))
    assert found == again and len(found) == 1501 and bad == bad_again and len(bad) == bool(wrong)
    assert batch.end == batch_again.end


def test_a_row_longer_than_what_pyarrow_takes_at_once_is_read():
    short = b"1,2,a\n" * 3000
    rows, bad, _ = read_csv(b"y,n,c\n" + short + b"1,3," + b"b" * (3 << 20) + b"\n" + short)
    assert len(rows) == 6001 and not bad
    assert rows[3000][3] == {"n": 3.0, "c=" + "b" * (3 << 20): 1.0}
