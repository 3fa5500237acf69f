"""VW text: its twin in plain Python, Vowpal Wabbit itself, FeatureHasher, and lines that must be rejected."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher

from giftrl.streams.batch import Batch, Position
from giftrl.streams.names.features import Dictionary, Hashing
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.text.vw import VwText
from tests.fuzz_parsers import Row, check_vw, pieces, twin_vw

NUMBERS = st.one_of(
    st.floats(-1e6, 1e6).map(repr), st.integers(-5, 5).map(str), st.sampled_from(["1e200", "1e400", "x", "1e-200"])
)
NAMES = st.one_of(
    st.sampled_from(["a", "b", "c", "city=Paris", "é", "日本", "a^b", "#", "'q'", "12"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\r\n\0|:"), min_size=1, max_size=6),
)
BLANKS = st.sampled_from([" ", " ", " ", "\t", "  "])


@st.composite
def lines(draw, numbers=NUMBERS) -> str:
    """A line that is mostly right."""
    line = draw(st.sampled_from(["", "", " "]))
    line += "".join(draw(numbers) + " " for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 2, 3]))))
    line += draw(st.sampled_from(["", "", "tag", "'t", "'t "]))
    for _ in range(draw(st.integers(1, 4))):
        line += "|" + draw(st.one_of(st.just(""), NAMES))
        if line[-1] != "|" and draw(st.booleans()):
            line += ":" + draw(numbers)
        for _ in range(draw(st.integers(0, 5))):
            line += draw(BLANKS) + draw(NAMES)
            if draw(st.booleans()):
                line += ":" + draw(numbers)
        line += draw(st.sampled_from(["", " "]))
    return line


@given(st.lists(lines(), max_size=5), st.sampled_from(["\n", "\r\n", "\n \n"]), st.booleans())
def test_twin(some, ending, compiled):
    check_vw(ending.join(some).encode(), compiled)


@given(pieces(check_vw))
def test_twin_on_any_bytes(data):
    check_vw(data)


def read(data: bytes, features=None, **more) -> Batch:
    return VwText(features or Hashing(18), **more).parse(data, "test", Position())


@pytest.fixture(scope="module")
def as_vw():
    """What Vowpal Wabbit makes of a line."""
    package = pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    workspace = package.Workspace("--quiet --noconstant --hash all -b 28")
    yield lambda line: as_vw_reads_it(workspace, line)
    workspace.finish()


def as_vw_reads_it(vw, line: str) -> tuple[float, float, str, list[float], int]:
    """Label, importance, tag, the values of different features, and how many there are with repetitions."""
    example = vw.parse(line)
    label, weight = example.get_simplelabel_label(), example.get_simplelabel_weight()
    values: dict[tuple[int, int], float] = {}
    for k in range(example.num_namespaces()):
        for j in range(example.num_features_in(k)):
            key = (example.namespace(k), example.feature(k, j))
            values[key] = values.get(key, 0.0) + example.feature_weight(k, j)
    found = (math.nan if label > 3e38 else label, weight, example.get_tag(), sorted(values.values()))
    count = example.get_feature_number()
    vw.finish_example(example)
    return (*found, count)


ODD = [
    "1 2 0 'tag|a b c:2", "1|x y", "1 |a:2 b:3 c", "| a b", "|a x:0 y", " 1 | b", "abc|d e", "1 abc|d e", "1 2 abc|d",
    "'x |d e", "1 'x |d e", "|x", "1 |", "|", "||", "1 |a b |c d |a e", "1 |a b|c d", "1 |a:0 b", "1 ||b c",
    "+1 | a:+2", "1 | a:1e3 b:1e+3", "1 | \ta\tb  c ", "1 |a b:2 |a b:3", "| a a:3 a", "1 | café", "1 | a:.5 b:5.",
    "1 |\t a",
    "1 | 12 007 5:2", "-1.5 0 ''quoted|f 1:2", "  0.5   2   t|x:0.5 y:-4 z |x:3 y", "1 0.25 |ns^x a^b =",
]  # fmt: skip


@pytest.mark.parametrize("line", ODD)
def test_odd_lines_as_vowpal_wabbit_reads_them(as_vw, line):
    label, weight, tag, values, count = as_vw(line)
    batch = read(line.encode(), Dictionary())
    assert not batch.rejected
    assert batch.labels[0] == label or (math.isnan(batch.labels[0]) and math.isnan(label))
    assert batch.weights[0] == weight and (batch.tags or ("",))[0] == tag
    assert sorted(batch.data.tolist()) == values
    names = [word for section in line.split("|")[1:] for word in section.split(" ")[1:]]
    assert len(batch.data) <= count <= len(names)


@given(lines(st.integers(-40, 40).map(str)))  # whole numbers: VW reads 0.125 as 0.12499999
def test_random_lines_as_vowpal_wabbit_reads_them(as_vw, line):
    assume(twin_or_none(line) is not None)
    assume(line.strip() == line.strip(" \t"))  # Workspace.parse takes off every kind of blank
    label, weight, tag, values, _ = as_vw(line)
    batch = read(line.encode(), Dictionary())
    assert batch.labels[0] == label or (math.isnan(batch.labels[0]) and math.isnan(label))
    assert batch.weights[0] == weight and (batch.tags or ("",))[0] == tag
    # VW tells namespaces apart by name, and features by a hash of both: "a^b" of "" and "b" of "a" are two for it.
    if "^" not in line:
        assert sorted(batch.data.tolist()) == values


def twin_or_none(line: str) -> Row | None:
    try:
        return twin_vw(line.encode())
    except Exception:
        return None


@given(st.lists(lines(st.integers(1, 99).map(str)), min_size=1, max_size=5), st.integers(2, 20))
def test_hashed_as_feature_hasher_does(some, bits):
    """Namespace^feature through FeatureHasher is the same row."""
    batch = read("\n".join(some).encode(), Hashing(bits))
    rows = [row for row in map(twin_or_none, some) if row is not None]
    assert len(rows) == len(batch)
    for k, row in enumerate(rows):
        entries = slice(batch.indptr[k], batch.indptr[k + 1])
        hashed = FeatureHasher(2**bits).transform([row.entries]).toarray()[0]
        found = np.zeros(2**bits)
        found[batch.indices[entries]] = batch.data[entries]
        np.testing.assert_allclose(found, hashed, rtol=1e-12, atol=1e-9)
        assert len(set(batch.indices[entries].tolist())) == len(batch.indices[entries])


BAD = [
    (b"1 x:2 y", 1, "no bar: '1'", "label | features"),
    (b"id\t1 | a", 3, "a tab before the first bar", "spaces"),
    (b"one | a", 1, "a label that is not a number: 'one'", "a finite number"),
    (b"nan | a", 1, "a label that is not a number: 'nan'", "a finite number"),
    (b"1e999 | a", 1, "a label too large for float64: '1e999'", "at most"),
    (b"1 tag | a", 3, "an importance that is not a number: 'tag'", "a finite number, or a tag that touches the bar"),
    (b"1 -2 | a", 3, "an importance below 0: '-2'", "0 or more"),
    (b"1 1e999 | a", 3, "an importance too large for float64: '1e999'", "at most"),
    (b"1 2 tag | a", 5, "a base that is not a number: 'tag'", "a finite number, or a tag that touches the bar or"),
    (b"1 2 1e999 | a", 5, "a base too large for float64: '1e999'", "at most"),
    (b"1 2 0 3 | a", 7, "a fourth number before the first bar: '3'", "at most label, importance and base"),
    (b"1 |:2 a", 4, "a colon where a namespace should be: ':2'", "a namespace"),
    (b"1 |n:x a", 6, "a factor of a namespace that is not a number: 'x'", "a finite number"),
    (b"1 |n: a", 6, "a factor of a namespace that is not a number: ''", "a finite number"),
    (b"1 |n:1e999 a", 6, "a factor of a namespace too large for float64: '1e999'", "at most"),
    (b"1 |" + b"n" * 256, 4, "a namespace of more than 255 bytes: '" + "n" * 40 + "'...", "at most 255"),
    (
        b"1 |n:9e99 a:1e299",
        11,
        "a value that is too large for float64 times the factor of its namespace: 'a:1e299'",
        "",
    ),
    (b"1 | a:1e308 a:1e308", 1, "values of one feature whose sum is too large for float64", "at most"),
    (b"1 | city:Paris", 10, "a value that is not a number: 'Paris'", "a finite number"),
    (b"1 | a: b", 7, "a value that is not a number: ''", "a finite number"),
    (b"1 | a:2x", 7, "a value that is not a number: '2x'", "a finite number"),
    (b"1 | a:inf", 7, "a value that is not a number: 'inf'", "a finite number"),
    (b"1 | a:1e999", 7, "a value too large for float64: '1e999'", "at most"),
    (b"1 | a::2", 7, "a value that is not a number: ':2'", "a finite number"),
    (b"1 | :2", 5, "a feature without a name: ':2'", "feature or feature:value"),
    (b"1 | ca\xff", 7, "bytes that are not UTF-8: '\\\\xff'", "names and tags in UTF-8"),
    (b"1 |\xed\xa0\x80", 4, "bytes that are not UTF-8: '\\\\xed\\\\xa0\\\\x80'", "names and tags in UTF-8"),
    (b"\xc3| a", 1, "bytes that are not UTF-8: '\\\\xc3|'", "names and tags in UTF-8"),
    (b"1 | a\0b", 6, "a NUL byte", "text"),
    (b"'t\0| a", 3, "a NUL byte", "text"),
    (b"1 | a\rb", 6, "a carriage return inside a line", "one only before the newline"),
]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("line", "column", "problem", "expected"), BAD)
def test_lines_that_are_rejected(line, column, problem, expected, compiled):
    for ending in (b"\n", b"\r\n", b""):
        batch = read(b"1 | a\n\n" + line + ending, compiled=compiled)
        (rejected,) = batch.rejected
        assert (rejected.source, rejected.line, rejected.column) == ("test", 3, column)
        assert rejected.problem == problem and rejected.expected.startswith(expected)
        assert rejected.raw == line
        assert batch.lines.tolist() == [1] and batch.nonzeros == 1


def test_labels_weights_and_tags():
    batch = read(b"1 2 'one|a b\n|c d\n -1 two|e\n")
    assert batch.labels.tolist()[::2] == [1.0, -1.0] and math.isnan(batch.labels[1])
    assert batch.weights.tolist() == [2.0, 1.0, 1.0] and batch.tags == ("one", "", "two")
    assert read(b"1 | a\n").tags == ()
    assert batch.indptr.tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("compiled", [True, False])
def test_groups(compiled):
    interactions = Interactions([("item", "user")])
    parser = VwText(Dictionary(), interactions, compiled=compiled)
    batch = parser.parse(b"1 |user a b |item c | d |user a\n", "test", Position())
    user, item = interactions.code("user"), interactions.code("item")
    assert batch.groups.tolist() == [user, user, item, 0] and batch.data.tolist() == [2.0, 1.0, 1.0, 1.0]
    again = parser.parse(b"1 |new x |item y\n", "test", Position())
    assert again.groups.tolist() == [0, item]
    assert len(VwText(Dictionary()).parse(b"| a", "test", Position()).groups) == 0


def test_groups_that_are_forgotten_keep_their_codes(monkeypatch):
    monkeypatch.setattr("giftrl.streams.text.parser.MAX_KNOWN_GROUPS", 10)
    parser = VwText(Hashing(18), Interactions([("n3", "n300")]))
    for _ in range(2):
        batch = parser.parse(b"1" + b"".join(b" |n%d x" % k for k in range(400)), "test", Position())
        assert {int(k): code for k, code in enumerate(batch.groups.tolist()) if code} == {3: 1, 300: 2}


def test_blocks_of_whole_lines_make_the_same_rows():
    rng = np.random.default_rng(1)
    some = [b"%d |f" % k + b"".join(b" x%d:%.3f" % (n, n / 7) for n in rng.integers(0, 500, 30)) for k in range(300)]
    some[50], some[200] = b"bad", b"1 | a:x"
    data = b"\n".join(some)
    whole = read(data, Dictionary())
    parser, position, parts = VwText(Dictionary()), Position(), []
    while position.offset < len(data):
        end = data.rfind(b"\n", position.offset, position.offset + 5000) + 1 or len(data)
        parts.append(parser.parse(memoryview(data)[position.offset : end], "test", position))
        position = parts[-1].end
    assert position == whole.end
    for field in ("data", "indices", "labels", "weights", "lines"):
        np.testing.assert_array_equal(np.concatenate([getattr(p, field) for p in parts]), getattr(whole, field))
    assert sum((p.rejected for p in parts), ()) == whole.rejected and len(whole.rejected) == 2


@pytest.mark.parametrize("shape", ["one namespace", "many namespaces", "one name", "no bar"])
def test_a_long_line(shape):
    """Megabytes in a line, whatever they are."""
    count = 500_000
    text = {
        "one namespace": b"1 |" + b"n" * 255 + b"".join(b" f%d" % k for k in range(count)),
        "many namespaces": b"1 " + b"".join(b"|n%d f " % k for k in range(count)),
        "one name": b"1 | " + b"x" * (4 * count),
        "no bar": b"1 " * count,
    }[shape]
    batch = read(text, Hashing(24))
    if shape == "no bar":
        assert batch.rejected[0].column == 1 and len(batch.rejected[0].raw) == 4096
    else:
        assert len(batch) == 1 and not batch.rejected
        assert np.abs(batch.data).sum() <= (1 if shape == "one name" else count)
        assert batch.nonzeros > (0 if shape == "one name" else 0.95 * count)


def test_hard_numbers_are_left_to_float():
    half = "9007199254740993.000000000000000000001"
    line = f"{half} {half} 't|{half}:{half} {half}:{half} a:{half} |b {half}\n"
    features = Dictionary()
    batch = VwText(features).parse(line.encode(), "x", Position())
    value = float(half)
    assert not batch.rejected and (batch.labels[0], batch.weights[0]) == (value, value)
    assert batch.data.tolist() == [value * value, value * value, 1.0]
    assert [features.name(slot) for slot in batch.indices] == [f"{half}^{half}", f"{half}^a", f"b^{half}"]
