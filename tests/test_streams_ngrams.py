"""n-grams: those of a slow twin, and of Vowpal Wabbit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.errors import BadSource, InvalidInput
from giftrl.streams.batch import Position
from giftrl.streams.names import interactions as module
from giftrl.streams.names.features import SEPARATOR, Dictionary, Hashing
from giftrl.streams.names.interactions import Interactions, Ngrams
from giftrl.streams.reader import Reader
from giftrl.streams.tables.arrow import ConvertedWriter
from giftrl.streams.text.vw import VwText
from tests.commands import giftrl
from tests.stream_rows import named_rows, vowpal_wabbit

words = st.tuples(st.sampled_from(["the", "cat", "é", "on^mat", "x"]), st.integers(-2, 3))
sections = st.tuples(st.sampled_from(["", "text", "title", "user"]), st.lists(words, max_size=6))
rows = st.lists(st.lists(sections, min_size=1, max_size=4), max_size=4)
sizes = st.lists(st.tuples(st.sampled_from([":", "t", "text", "u", "none"]), st.integers(2, 5)), min_size=1, max_size=3)


def line_of(row: list) -> str:
    return "1 " + " ".join(f"|{name} " + " ".join(f"{word}:{value}" for word, value in some) for name, some in row)


def twin(row: list, given: list[tuple[str, int]]) -> dict[str, float]:
    out: dict[str, float] = {}
    for name, some in row:
        prefix = f"{name}^" if name else ""
        there = [(word, value) for word, value in some if value]
        matched = [n for term, n in given if term in (":", name) or (len(term) == 1 and name.startswith(term))]
        for word, value in there:
            out[prefix + word] = out.get(prefix + word, 0.0) + value
        for n in range(2, max(matched, default=1) + 1):
            for k in range(len(there) - n + 1):
                gram = prefix + "^".join(word for word, _ in there[k : k + n])
                out[gram] = out.get(gram, 0.0) + 1.0
    return out


@given(rows, sizes, st.booleans())
def test_ngrams_are_those_of_the_twin(some, given, compiled):
    data = "".join(f"{line_of(row)}\n" for row in some).encode()
    features = Dictionary(compiled=compiled)
    batch = VwText(features, ngrams=Ngrams(given), compiled=compiled).parse(data, "x", Position())
    assert [row[3] for row in named_rows([batch], features)] == [twin(row, given) for row in some]


@given(rows, sizes)
def test_hashed_ngrams_are_hashed_by_their_names(some, given):
    data = "".join(f"{line_of(row)}\n" for row in some).encode()
    features = Hashing(10)
    batch = VwText(features, Interactions(["tu"]), Ngrams(given)).parse(data, "x", Position())
    assert len(batch.groups) == len(batch.data)
    for i, row in enumerate(some):
        expected = np.zeros(features.dimension)
        for name, value in twin(row, given).items():
            [slot], [sign] = features.slots([name])
            expected[slot] += sign * value
        found = np.zeros(features.dimension)
        entries = slice(batch.indptr[i], batch.indptr[i + 1])
        found[batch.indices[entries]] = batch.data[entries]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("options", "asked", "products"),
    [
        ("--ngram 2", [(":", 2)], []),
        ("--ngram 3", [(":", 3)], []),
        ("--ngram t2", [("t", 2)], []),
        ("--ngram t3 --ngram u2", [("t", 3), ("u", 2)], []),
        ("--ngram t2 --interactions tu", [("t", 2)], ["tu"]),
    ],
)
@pytest.mark.parametrize("text", ["1 |text the:2 cat sat:0.5 |user a b", "1 |text:3 a b:0 c d |user x", "1 |text a"])
def test_vowpal_wabbit_has_the_same_ngrams(tmp_path, capfd, options, asked, products, text):
    theirs = vowpal_wabbit(text, options, capfd)
    path = tmp_path / "x.vw"
    path.write_text(text + "\n")
    features = Dictionary()
    [batch] = Reader(path, features, ngrams=asked, interactions=products, constant=False)
    ours = named_rows([batch], features)[0][3]
    # Vowpal Wabbit writes the namespace before each word of an n-gram, and * between factors.
    plain = {
        "*".join(sorted(part.replace("^text^", "^").replace("^user^", "^") for part in name.split("*"))): value
        for name, value in theirs.items()
    }
    assert {"*".join(sorted(name.split(SEPARATOR))): value for name, value in ours.items()} == pytest.approx(plain)


def test_converted_files_have_their_ngrams(tmp_path):
    path, rows = tmp_path / "x.vw", tmp_path / "x.arrow"
    path.write_text("1 |t a b c\n-1 |t b c |u d e\n")
    asked = Ngrams([("t", 2)])
    for features in (Hashing(12), Dictionary()):
        expected = [batch.data.tolist() for batch in Reader(path, features, ngrams=asked, constant=False)]
        with ConvertedWriter(rows, features, ngrams=asked) as writer:
            for batch in Reader(path, features, ngrams=asked, constant=False):
                writer.write(batch)
        assert [batch.data.tolist() for batch in Reader(rows, features, ngrams=[("t", 2)], constant=False)] == expected
        with pytest.raises(BadSource, match="was converted with the n-grams"):
            list(Reader(rows, features, constant=False))


@pytest.mark.parametrize(
    ("name", "text"), [("x.svm", "1 1:2\n"), ("x.csv", "label,a\n1,b\n"), ("x.json", '{"label": 1, "a": ["b", "c"]}\n')]
)
def test_formats_whose_names_have_no_order_are_refused(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadSource, match="only names in VW text have an order"):
        list(Reader(path, Dictionary(), ngrams=[(":", 2)]))


def test_bad_sizes():
    for wrong in [(":", 1)], [("a", 9)], [("", 2)], [("a", 2.5)], [("a",)]:
        with pytest.raises(InvalidInput, match="ngram"):
            Ngrams(wrong)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_row_with_too_many_ngrams_is_rejected(monkeypatch, compiled):
    monkeypatch.setattr(module, "MAX_NGRAMS_PER_ROW", 8)
    features = Dictionary()
    parser = VwText(features, ngrams=Ngrams([(":", 3)]), compiled=compiled)
    batch = parser.parse(b"1 | a b c d\n1 | a b c d e\n1 | x\n", "x", Position())
    [rejected] = batch.rejected
    assert rejected.line == 2 and rejected.problem == "more features than n-grams can be made of"
    assert batch.lines.tolist() == [1, 3] and np.diff(batch.indptr).tolist() == [9, 1]
    assert features.name(5) == "a^b" and "e" not in [features.name(k) for k in range(1, features.dimension)]


@pytest.mark.plain
def test_word_order_is_learnt_predicted_and_gone_on_with(tmp_path):
    rows, model = tmp_path / "x.vw", tmp_path / "m"
    rows.write_text("1 |text not bad\n-1 |text bad not\n" * 40)
    without = giftrl("train", rows, "--quiet", "--beta", 1, "--model", model, "--bits", 12, "--json").stdout
    joined = giftrl(
        "train", rows, "--quiet", "--beta", 1, "--model", model, "--bits", 12, "--json", "--ngram", "text:2"
    )
    assert b'"ngrams"' not in without and b'"ngrams"' in joined.stdout
    scores = list(map(float, giftrl("predict", model, rows, "--scores").stdout.split()))
    assert min(scores[::2]) > 0.5 and max(scores[1::2]) < -0.5
    assert "text^not^bad" in giftrl("inspect", model).stdout.decode()
    refused = giftrl("train", rows, "--from", model, "--ngram", "3", check=False)
    assert refused.returncode == 1 and b"--ngram text:2, now 3" in refused.stderr
    giftrl("train", rows, "--from", model, "--ngram", "text:2", "--model", model, "--quiet")
    for wrong in ("x", "text2", "0", "9", "a"):
        refused = giftrl("train", rows, "--ngram", wrong, check=False)
        assert refused.returncode != 0 and b"gram" in refused.stderr
    said = giftrl("train", rows, "--beta", 1, "--bits", 8, "--ngram", "z2").stderr.decode()
    assert "note: ngram z:2: nothing is called that" in said
