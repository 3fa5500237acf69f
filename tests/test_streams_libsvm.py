"""LIBSVM text: its twin in plain Python, scikit-learn's reader, and lines that must be rejected."""

import gzip
import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from giftrl.streams.batch import Batch, Position
from giftrl.streams.line_blocks import as_block
from giftrl.streams.names.features import Dictionary, Hashing
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.text.libsvm import LibsvmText, scan_libsvm
from giftrl.streams.text.libsvm import make_buffers as libsvm_buffers
from giftrl.streams.text.vw import VwText, scan_vw
from giftrl.streams.text.vw import make_buffers as vw_buffers
from tests.fuzz_parsers import check_libsvm, pieces, run_random
from tests.stream_rows import arrays


@given(pieces(check_libsvm), st.booleans())
def test_twin(data, compiled):
    check_libsvm(data, compiled)


def test_a_short_campaign():
    run_random(3000, seed=11)


def as_matrix(batch: Batch, columns: int) -> csr_matrix:
    return csr_matrix((batch.data, batch.indices, batch.indptr), shape=(len(batch), columns))


def read(data: bytes, features=None, **more) -> Batch:
    return LibsvmText(features or Hashing(18), **more).parse(data, "test", Position())


def check_against_scikit_learn(data: bytes) -> None:
    batch = read(data)
    assert not batch.rejected
    matrix, labels = load_svmlight_file(io.BytesIO(data), zero_based=False)
    np.testing.assert_array_equal(batch.labels, labels)
    np.testing.assert_array_equal(batch.indices, matrix.indices + 1)
    np.testing.assert_array_equal(batch.data, matrix.data)
    np.testing.assert_array_equal(batch.indptr, matrix.indptr)


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 50), st.sampled_from(["%.16g", "%.3f", "%.25e", "%g"])
)
def test_random_files_as_scikit_learn_reads_them(seed, rows, columns, form):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-20, 20, (rows, columns))
    x[rng.random(x.shape) < 0.5] = 0.0
    y = rng.normal(size=rows)
    file = io.BytesIO()
    dump_svmlight_file(x, y, file, zero_based=False, comment="two\nlines", query_id=rng.integers(0, 5, rows))
    check_against_scikit_learn(file.getvalue())
    lines = [
        form % label + "".join(f" {k + 1}:{form % v}" for k, v in enumerate(row) if v) + "\n"
        for label, row in zip(y, x, strict=True)
    ]
    check_against_scikit_learn("".join(lines).encode())


@pytest.mark.parametrize(
    "name",
    ["a9a", "abalone", "australian", "criteo_tiny", "elec2", "housing_scale", "mushrooms", "phishing", "rcv1_vw_small",
     "reuters_lasvm", "satimage.scale", "space_ga", "splice", "svmguide3"],
)  # fmt: skip
def test_real_files_as_scikit_learn_reads_them(name):
    folder = os.environ.get("GIFTRL_DATA")
    if not folder or not (path := Path(folder) / f"{name}.gz").exists():
        pytest.skip("set GIFTRL_DATA to a folder with LIBSVM files, such as a9a.gz")
    data = gzip.decompress(path.read_bytes())
    check_against_scikit_learn(data)
    # Cut into blocks, with coordinates from a dictionary, the rows are the same.
    features = Dictionary()
    parser, position, at = LibsvmText(features), Position(), 0
    whole = read(data)
    names = np.array([0] + [int(n) for n in read_names(data, features)])
    rows = 0
    while at < len(data):
        end = data.rfind(b"\n", at, at + 100_000) + 1
        batch = parser.parse(memoryview(data)[at:end], "test", position)
        assert position.offset == at and batch.lines[0] == position.line
        entries = slice(whole.indptr[rows], whole.indptr[rows + len(batch)])
        np.testing.assert_array_equal(names[batch.indices], whole.indices[entries])
        np.testing.assert_array_equal(batch.data, whole.data[entries])
        np.testing.assert_array_equal(batch.labels, whole.labels[rows : rows + len(batch)])
        at, position, rows = end, batch.end, rows + len(batch)
    assert rows == len(whole) and position == whole.end


def read_names(data: bytes, features: Dictionary) -> list[str | None]:
    LibsvmText(features).parse(data, "test", Position())
    return [features.name(slot) for slot in range(1, features.dimension)]


BAD = [
    (b"1 5:x", 5, "a value that is not a number: 'x'", "a finite number"),
    (b"1 5:", 5, "a value that is not a number: ''", "a finite number"),
    (b"1 5: 2", 5, "a value that is not a number: ''", "a finite number"),
    (b"1 5:nan", 5, "a value that is not a number: 'nan'", "a finite number"),
    (b"1 5:-inf", 5, "a value that is not a number: '-inf'", "a finite number"),
    (b"1 5:0x10", 5, "a value that is not a number: '0x10'", "a finite number"),
    (b"1 5:1_0", 5, "a value that is not a number: '1_0'", "a finite number"),
    (b"1 5:2,", 5, "a value that is not a number: '2,'", "a finite number"),
    (b"1 5:1e400", 5, "a value too large for float64: '1e400'", "at most 1.797e308 in magnitude"),
    (b"1 3:1 0:1", 7, "an index out of range: '0:1'", "an index from 1 to 9223372036854775807"),
    (b"1 -3:1", 3, "an index out of range: '-3:1'", "an index from 1 to 9223372036854775807"),
    (b"1 9223372036854775808:1", 3, "an index out of range: '9223372036854775808:1'", "an index from 1"),
    (b"1 +3:1", 3, "an index that is not a whole number: '+3:1'", "index:value"),
    (b"1 2.5:1", 3, "an index that is not a whole number: '2.5:1'", "index:value"),
    (b"1 :1", 3, "an index that is not a whole number: ':1'", "index:value"),
    (b"1 3:1 7", 7, "a feature without a colon: '7'", "index:value"),
    (b"1 3:1 4:1 3:2", 11, "an index used twice in a row: '3:2'", "each index at most once"),
    (b"1 qid:2 3:1  003:2 # x", 14, "an index used twice in a row: '003:2'", "each index at most once"),
    (b"3:1 4:2", 1, "no label before the first feature: '3:1'", "a label at the beginning of the line"),
    (b" one 4:2", 2, "a label that is not a number: 'one'", "a finite number"),
    (b"1,2 4:2", 1, "a label that is not a number: '1,2'", "a finite number"),
    (b"nan 4:2", 1, "a label that is not a number: 'nan'", "a finite number"),
    (b"1e999 4:2", 1, "a label too large for float64: '1e999'", "at most 1.797e308 in magnitude"),
    (b"1 qid:x 4:2", 3, "a qid that is not a whole number: 'qid:x'", "qid:digits"),
    (b"1 4:2 qid:1", 7, "an index that is not a whole number: 'qid:1'", "index:value"),
    (b"1 4:2\r5:1", 6, "a carriage return inside a line", "one only before the newline"),
    (b"1 4:2 \x005:1", 7, "a NUL byte", "text"),
    (b"1 4:\xff\xff", 5, "a value that is not a number: '\\\\xff\\\\xff'", "a finite number"),
]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("line", "column", "problem", "expected"), BAD)
def test_lines_that_are_rejected(line, column, problem, expected, compiled):
    for ending in (b"\n", b"\r\n", b""):
        batch = read(b"1 1:1\n\n" + line + ending, compiled=compiled)
        (rejected,) = batch.rejected
        assert (rejected.source, rejected.line, rejected.column) == ("test", 3, column)
        assert rejected.problem == problem and rejected.expected.startswith(expected)
        assert rejected.raw == line
        assert batch.lines.tolist() == [1] and batch.indices.tolist() == [1]


def test_rejected_lines_teach_no_names_and_are_cut():
    features = Dictionary()
    long = b"1 " + b" ".join(b"%d:1" % k for k in range(1, 5000)) + b" x"
    batch = read(b"1 7:1\n" + long + b"\n1 9:1 8:1 9:1\n1 3:1", features)
    assert [features.name(k) for k in range(1, features.dimension)] == ["7", "3"]
    assert [r.raw for r in batch.rejected] == [long[:4096], b"1 9:1 8:1 9:1"]
    assert batch.rejected[0].column == len(long)
    assert batch.lines.tolist() == [1, 4] and batch.indptr.tolist() == [0, 1, 2]


@pytest.mark.parametrize("order", ["up", "down", "random", "twice"])
def test_a_long_line(order):
    """Ten megabytes in a line, in any order."""
    count = 1_000_000
    numbers = np.arange(1, count + 1)
    if order != "up":
        numbers = numbers[::-1] if order == "down" else np.random.default_rng(0).permutation(numbers)
    text = "1 " + " ".join(f"{n}:2" for n in numbers.tolist())
    batch = read((text + (f" {numbers[0]}:1" if order == "twice" else "")).encode(), Dictionary())
    if order == "twice":
        assert batch.rejected[0].column == len(text) + 2 and len(batch) == 0
    else:
        assert batch.indices.tolist() == list(range(1, count + 1)) and (batch.data == 2.0).all()


def test_indices_that_meet_on_a_slot_are_summed():
    hashing = Hashing(3)
    slots, signs = Hashing(3).slots([str(n) for n in range(8, 40)])
    text = b"1 2:0.5 " + b" ".join(b"%d:1" % n for n in range(8, 40))
    batch = read(text, hashing)
    sums = np.bincount(slots, signs, 8)
    sums[2] += 0.5
    assert sorted(batch.indices.tolist()) == sorted({2, *slots.tolist()})
    np.testing.assert_array_equal(batch.data, sums[batch.indices])
    assert hashing.report().used == 7 and not hashing.report().exact
    assert (batch.indices < 8).all() and hashing.constant == 8 and hashing.dimension == 9


def test_sums_that_are_too_large_are_rejected():
    slots, signs = Hashing(1).slots([str(n) for n in range(2, 20)])
    pair = [n for n in range(2, 20) if (slots[n - 2], signs[n - 2]) == (slots[0], signs[0])][:2]
    text = f"1 1:1\n1 {pair[0]}:1e308 {pair[1]}:1e308\n1 1:2\n"
    batch = read(text.encode(), Hashing(1))
    assert batch.lines.tolist() == [1, 3] and batch.data.tolist() == [1.0, 2.0]
    assert str(batch.rejected[0]).startswith("test:2:1: values of one feature whose sum is too large for float64")


def test_frozen_dictionary_drops_what_it_does_not_know():
    features = Dictionary()
    parser = LibsvmText(features)
    parser.parse(b"1 5:1 7:1\n", "test", Position())
    features.freeze()
    batch = parser.parse(b"1 3:9 7:2\n1 4:1\n", "test", Position())
    assert batch.indices.tolist() == [2] and batch.data.tolist() == [2.0] and batch.indptr.tolist() == [0, 1, 1]
    assert features.report().dropped == 2


def test_where_a_block_begins_and_ends():
    parser = LibsvmText(Hashing(4))
    batch = parser.parse(b"1 1:1\r\n\n# x\n1 x", "a", Position(2, 100, 41))
    assert batch.end == Position(2, 115, 45) and batch.lines.tolist() == [41]
    assert [(r.source, r.line) for r in batch.rejected] == [("a", 44)]
    mark = b"\xef\xbb\xbf"
    assert len(parser.parse(mark + b"1 1:1\n", "a", Position())) == 1
    assert len(parser.parse(mark + b"1 1:1\n", "a", Position(0, 50, 3)).rejected) == 1


@pytest.mark.parametrize("parser", [LibsvmText, VwText])
@pytest.mark.parametrize("data", [b"", bytearray(b""), np.empty(0, np.uint8), b"\n", memoryview(b" \t\r\n"), b"#"])
def test_nothing(parser, data):
    batch = parser(Hashing(18), Interactions([":" * 2])).parse(data, "test", Position())
    assert len(batch) == 0 and batch.nonzeros == 0 and batch.indptr.tolist() == [0] and batch.end.offset == len(data)
    assert len(batch.rejected) == (parser is VwText and bytes(data) == b"#")


@pytest.mark.parametrize("parser", [LibsvmText, VwText])
def test_loops_over_lines_count_no_references(parser):
    """What the compiler adds for that takes longer than reading the text; a loop that made an array would need it."""
    numba = pytest.importorskip("numba")
    from giftrl.compiled.codegen import install

    install()  # a loop that is kept from before is loaded without Numba, which then knows no formulas
    loop, buffers = (scan_libsvm, libsvm_buffers(9, 1)) if parser is LibsvmText else (scan_vw, vw_buffers(9, 1, 1))
    block = as_block(b"1 | 1:2\n")

    @numba.njit(error_model="numpy", _nrt=False)
    def kernel(args):
        return loop(*args)

    kernel((block, 0, 1, buffers))
    (code,) = kernel.inspect_llvm().values()
    assert "NRT_incref" not in code and "NRT_decref" not in code


def test_hard_numbers_are_left_to_float():
    """More than 19 digits that could round either way, at every place of a line, and many of them in one line."""
    half = "9007199254740993"  # half-way between two float64
    texts = [half + ".000000000000000000001", half + "." + "0" * 30, "-" + half + "e0000000000000000000", half * 3]
    texts += ["2.4703282292062327208000000000000001e-324", "2.47032822920623272090e-324"]
    texts += ["1.7976931348623158" + "0" * 30, "0." + "0" * 30 + half + "00001", half + "0" * 290 + ".1"]
    lines = [f"{text} {k + 1}:{text} {k + 2}:1" for k, text in enumerate(texts)]
    lines.append("1 " + " ".join(f"{k + 1}:{text}" for k, text in enumerate(texts * 50)))
    batch = read("\n".join(lines).encode())
    assert not batch.rejected
    assert batch.labels.tolist() == [*map(float, texts), 1.0]
    assert batch.data.tolist() == [x for text in texts for x in (float(text), 1.0)] + [*map(float, texts)] * 50
    # What is rejected is shown as it was written.
    large = "1.797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179776"
    wrong = f"1 1:{large}e308 2:{texts[0]}\n1 1:{texts[0]} 2:x\n1 1:{texts[0]}x\n"
    batch = read(wrong.encode())
    assert [(each.line, each.column) for each in batch.rejected] == [(1, 5), (2, len(texts[0]) + 8), (3, 5)]
    assert [each.raw.decode() for each in batch.rejected] == wrong.splitlines()
    assert "too large" in batch.rejected[0].problem and large[:30] in batch.rejected[0].problem


def test_batches_do_not_share_memory_with_the_parser():
    parser = LibsvmText(Hashing(4))
    first = parser.parse(b"1 1:1 3:4\n2 2:1\n", "a", Position())
    copy = [array.copy() for array in arrays(first)]
    parser.parse(b"9 5:9 7:9\n9 5:9\n", "a", Position())
    assert all((a == b).all() for a, b in zip(copy, arrays(first), strict=True))
