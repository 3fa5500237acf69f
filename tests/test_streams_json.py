"""JSON lines: rows agree with those that Python's json module sees, and bad rows are found."""

import json
import math

import numpy as np
import orjson
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from giftrl.streams.batch import Position
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.names.features import Dictionary
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.objects import Keys, walk
from giftrl.streams.reader import Reader
from giftrl.streams.text.json import JsonLines
from tests.stream_rows import flat, named_rows


def read_json(text: bytes, columns: Columns | None = None, schema: Schema | None = None):
    features = Dictionary()
    batch = JsonLines(features, columns, schema).parse(text, "x.json", Position())
    assert batch.end == Position(0, len(text), text.count(b"\n") + (bool(text) and not text.endswith(b"\n")) + 1)
    return named_rows([batch], features), [(each.line, each.column) for each in batch.rejected], batch


keys = st.sampled_from(["a", "b", "c", "d e", "é", 'q"', "weight", "tag"])
WRITTEN = ["2024-03-05", "2024-03-05 12:30:01.25+02", "2000-01-01", "", "To be, or not to BE", "Été 漢字 été"]
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
        b'{"y": 0, "features": {"a": 3, "label": 3}, "tag": "t1", "weight": 4}\n'
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
        (b'{"label": 1, "a": }', 19, "unreadable JSON (unexpected character, expected a JSON value), expected one"),
        ("{\"é\": 1, 'a': 2}".encode(), 11, "unreadable JSON"),
        (b'{"label": 1} 2', 14, "unreadable JSON (unexpected content after document)"),
        (b'{"label": 1, "\xff": 2}', 15, "bytes that are not UTF-8"),
        (b'{"label": "1"}', 2, "a label that is not a number: '1', expected a finite number"),
        # What orjson refuses, or says in its own words.
        (b'{"label": 1, "a": NaN}', 19, "unreadable JSON (unexpected character, expected a JSON value)"),
        (b'{"label": 1, "a": -Infinity}', 20, "unreadable JSON"),
        (b'{"label": 1, "a": 1e400}', 19, "unreadable JSON (number is infinity when parsed as double)"),
        (b'{"label": 1, "a": 1' + b"0" * 400 + b"}", 19, "number is infinity"),
        (b'{"label": 1, "a": 1' + b"0" * 5000 + b"}", 19, "number is infinity"),
        (b'{"label": 1, "a": "\\ud800"}', 20, "unreadable JSON (no low surrogate in string)"),
        (b'{"label": 1, "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 1043, "depth limit exceeded"),
        (b'{"label": 1, "b": {"a": [1, "x"]}}', 20, "a list of several kinds of things"),
        (b'{"label": 1, "a": [[1]]}', 14, "a list of several kinds of things"),
        (b'{"label": 1, "features": {}, "weight": -1}', 30, "a weight below 0"),
        (b'{"label": 1, "features": {}, "weight": null}', 30, "a weight that is not a number"),
        (b'{"label": 1, "features": {}, "id": 4}', 30, "the key 'id' beside 'features'"),
        (b"[1, 2]", 1, "no object"),
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


@settings(max_examples=3 * settings().max_examples)
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


def test_what_orjson_makes_of_odd_objects():
    """Of whole numbers beyond 64 bits it makes floats; all values of a key that comes twice count, as in the loops."""
    odd = b'"t": "\\u0041"'  # a backslash leaves the line to orjson
    rows, bad, _ = read_json(
        b'{"label": 1, "id": 123456789012345678901234567890, %s}\n{"label": 1, "a": 1, "a": 2, %s}\n'
        b'{"label": 1, "a": 1, "a": 2}\n{"label": 1, "label": -1, "a": 5}\n{"label": 1, "a": -0, "b": 1e-400, %s}\n'
        % (odd, odd, odd),
        Columns(label="label", categorical=("id",)),
    )
    assert not bad
    assert rows[0][3] == {"id=1.2345678901234568e+29": 1.0, "t=A": 1.0}
    assert rows[1][3] == {"a": 3.0, "t=A": 1.0}
    assert rows[2][3] == {"a": 3.0}
    assert rows[3] == (4, -1.0, 1.0, {"a": 5.0})
    assert rows[4][3] == {"t=A": 1.0}


def all_slow(parser):
    """Leave all lines to orjson."""
    original = parser._scan

    def scan(block, start, plan):
        _, *nothing, _ = original(block[:0], start, plan)
        begins = np.concatenate([[0], np.flatnonzero(block == 10) + 1])[:-1].tolist()
        others = [(start.line + k, at, at, 0) for k, at in enumerate(begins) if block[at:][:1].tobytes() != b"\n"]
        return start.line + len(begins), *nothing, others

    parser._scan = scan


@settings(max_examples=3 * settings().max_examples)
@given(data=st.data(), nested=st.booleans(), compiled=st.booleans())
def test_the_loops_read_json_like_orjson_and_the_walk(data, nested, compiled):
    lines = []
    for _ in range(data.draw(st.integers(1, 3 if not compiled else 6))):
        features = data.draw(objects) | data.draw(st.dictionaries(keys, st.sampled_from(WRITTEN), max_size=3))
        assume(encodable(features))
        row = {"label": data.draw(st.sampled_from([1, -0.5, None, True, 10**25]))}
        row |= {"features": features, "tag": "t", "weight": 2} if nested and data.draw(st.booleans()) else features
        line = json.dumps(
            row, ensure_ascii=data.draw(st.booleans()), separators=data.draw(st.sampled_from([(",", ":"), None]))
        )
        if data.draw(st.integers(0, 3)) == 0:
            line = '{"a": 2, ' + line[1:]  # perhaps for the second time
        if data.draw(st.integers(0, 3)) == 0:
            raw = bytearray(line.encode())
            at = data.draw(st.integers(0, len(raw) - 1))
            marks = b'" , ] } { [ : \\ - 0 . e+ true \xff \t'.split(b" ")
            mark = st.sampled_from([*marks, b" "])
            raw[at : at + data.draw(st.integers(0, 2))] = data.draw(mark)
            lines.append(bytes(raw))
        else:
            lines.append(line.encode())
    text = b"\n".join(lines)
    roles = Columns(label="label", ignore=("b", "a^c"), categorical=("c",), date=("d e", "a"), text=("é", "a^b"))
    columns = roles if data.draw(st.booleans()) else Columns()
    found = []
    for slow in (False, True):
        features, interactions = Dictionary(), Interactions([("a", "b"), ("é", "é")])
        parser = JsonLines(features, columns, None, interactions, compiled=compiled)
        if slow:
            all_slow(parser)
        batch = parser.parse(text, "x", Position())
        # Groups are numbered as they are met, which is not in the same order.
        groups = {number: terms for terms, number in interactions._codes.items()}
        met = [groups[number] for number in batch.groups.tolist()]
        found.append((named_rows([batch], features), batch.rejected, met, batch.tags, batch.end))
    assert found[0] == found[1]


def test_plain_lines_are_left_to_the_loops():
    parser = JsonLines(Dictionary())
    lines = [
        '{"label": 1, "a": 2.5e-3, "user": {"age": 3, "geo": {"city": "Rome"}}, "tags": ["x", "y"], "v": [0.5, -1, 2]}',
        ' { "label" : -1 , "a" : true , "b" : false , "c" : null , "d" : { } , "e" : [ ] } ',
        '{"label": 0, "é": "漢", "l": [null, "x"], "m": [null, 1, true]}',
        "",
        "{}",
    ]
    block = np.frombuffer("\n".join([*lines, ""]).encode(), np.uint8)
    _, rows, _, _, others = parser._scan(block, Position(), parser._plan(block, "x.json"))
    assert others == [] and rows.lines.tolist() == [1, 2, 3, 5]
    wrong_lines = r'{"a": "\n"};{"a": 01};{"a": 1.};{"a": [1, "x"]};{"a": {"b": 1};{"a" 1};{"a": 1,};[1];1'
    for wrong in wrong_lines.split(";"):
        block = np.frombuffer((wrong + "\n").encode(), np.uint8)
        *_, others = parser._scan(block, Position(), parser._plan(block, "x.json"))
        assert len(others) == 1, wrong


def test_a_date_that_is_none_is_rejected_by_a_plain_number_of_its_line(tmp_path):
    good, bad = b'{"label": 1, "when": "2024-03-05"}\n', b'{"label": 1, "when": "soon"}\n'
    path, rejects = tmp_path / "rows.jsonl", tmp_path / "rejects"
    path.write_bytes(3 * good + bad + good)
    options = {"columns": Columns(date=("when",)), "on_error": "skip", "rejects": rejects}
    batches = list(Reader(path, Dictionary(), **options))
    [rejected] = [each for batch in batches for each in batch.rejected]
    assert orjson.loads(orjson.dumps(rejected[1:3])) == [4, 14]  # which takes no numbers of NumPy
    assert json.loads(rejects.read_text())["line"] == 4
    assert sum(map(len, batches)) == 4


def test_what_is_left_out_and_what_is_a_category():
    row = {"id": 7, "zip": 100, "u": {"x": 1, "y": 2.5, "z": {"deep": 1}}, "v": [1, True], "n": None, "t": "", "3": 4}
    found = walk(row, Keys(ignored={"id", "u^x", "u^z"}, categorical={"zip", "u^y", "v"}))
    assert [each[:2] for each in found] == [("zip=100", 1), ("u^y=2.5", 1), ("v=1", 1), ("v=true", 1), ("3", 4)]
