"""Labels of any kind: read in every format, chosen by the first rows, printed by name."""

import csv
import gzip
import json
import os
import re
import shlex
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.errors import BadRow, GiftrlError, InvalidInput
from giftrl.streams import Columns, Dictionary, Reader
from giftrl.streams.batch import LabelNames
from giftrl.streams.first_labels import first_labels
from giftrl.training import LinearModel, Settings
from giftrl.training.settings import choose_target, distinct, look, names_where_text
from tests.commands import giftrl

NAMES = ("no", "yes")
X = np.round(np.random.default_rng(0).normal(size=(60, 2)) + 0.05, 3)
TRUE = X[:, 0] > 0.0


def columns(labels, **more):
    return {"a": X[:, 0], "b": X[:, 1], "label": labels, **more}


def write_csv(path, labels, end="\n"):
    rows = [f"{a:g},{b:g},{label}" for (a, b), label in zip(X, labels, strict=True)]
    path.write_bytes((end.join(["a,b,label", *rows]) + end).encode())


def write_json(path, labels):
    lines = (json.dumps({"a": a, "b": b, "label": label}) for (a, b), label in zip(X, labels, strict=True))
    path.write_text("\n".join(lines) + "\n")


def write_svm(path, labels):
    path.write_text("".join(f"{label} 1:{a:g} 2:{b:g}\n" for (a, b), label in zip(X, labels, strict=True)))


def write_vw(path, labels):
    path.write_text("".join(f"{label} | a:{a:g} b:{b:g}\n" for (a, b), label in zip(X, labels, strict=True)))


def write_parquet(path, labels):
    pq.write_table(pa.table(columns(labels)), path)


def write_arrow(path, labels):
    table = pa.table(columns(labels))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def write_npz(path, labels):
    np.savez(path, X=X, y=np.array(labels))


WRITERS = {
    "csv": write_csv, "json": write_json, "svm": write_svm, "vw": write_vw, "parquet": write_parquet,
    "arrow": write_arrow, "npz": write_npz,
}  # fmt: skip


@pytest.mark.parametrize("ending", WRITERS)
def test_names_mean_the_same_as_signs_in_every_format(ending, tmp_path):
    named, signed = tmp_path / f"named.{ending}", tmp_path / f"signed.{ending}"
    WRITERS[ending](named, [NAMES[int(each)] for each in TRUE])
    WRITERS[ending](signed, [1 if each else -1 for each in TRUE])
    assert first_labels(named).labels == [NAMES[int(each)] for each in TRUE]
    models = []
    for path, said in (
        (named, "labels: no and yes in the first 60 rows; so the loss is logistic"),
        (signed, "labels: -1 and 1"),
    ):
        assert said in giftrl("train", path, "--model", tmp_path / "m.giftrl").stderr.decode()
        models.append(LinearModel.load(tmp_path / "m.giftrl")[0])
        printed = giftrl("predict", tmp_path / "m.giftrl", path).stdout.decode().split()
        values = models[-1].settings.class_names
        scores = giftrl("predict", tmp_path / "m.giftrl", path, "--scores").stdout.decode().split()
        assert printed == [values[int(float(score) > 0.0)] for score in scores]
        heads, *rows = giftrl("predict", tmp_path / "m.giftrl", path, "--proba").stdout.decode().splitlines()
        assert heads.split("\t") == list(values)
        chances = np.array([row.split("\t") for row in rows], float)
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        assert [values[k] for k in chances.argmax(axis=1)] == printed
    assert np.array_equal(models[0].learner.x, models[1].learner.x)
    assert models[0].settings.label_values == NAMES and models[1].settings.label_values is None


KINDS = {
    "text": (["b", "a", "b"], "logistic", ("a", "b")),
    "truth": (["True", "False"], "logistic", ("False", "True")),
    "zero and one": (["1", "0", "1.0"], "logistic", (0.0, 1.0)),
    "one and two": (["2", "1"], "logistic", (1.0, 2.0)),
    "signs": (["-1", "+1"], "logistic", None),
    "one sign": (["1"], "logistic", None),
    "two real numbers": (["0.5", "7.25", "0.5"], "logistic", (0.5, 7.25)),
    "texts": (["c", "a", "b", "a"], "softmax", ("a", "b", "c")),
    "digits": ([str(k % 10) for k in range(50)], "softmax", tuple(map(float, range(10)))),
    "too few rows for classes": (["1", "2", "3", "4"], "squared", None),
    "many whole numbers": ([str(k % 40) for k in range(400)], "squared", None),
    "real numbers": (["1.5", "2", "-3e2"], "squared", None),
    "a mistake among numbers": (["1.5", "x", *map(str, range(30))], "squared", None),
}


@pytest.mark.parametrize("case", KINDS)
def test_the_first_rows_choose_the_loss(case):
    labels, loss, values = KINDS[case]
    found = choose_target(labels)
    assert (found.loss, found.label_values) == (loss, values)
    assert loss in found.reason and "--loss" in found.reason and "\n" not in found.reason


@given(st.lists(st.sampled_from(["0", "1", "2", "yes", "no", "2.5", ""]), min_size=1, max_size=30))
def test_every_label_of_the_first_rows_has_a_place(labels):
    labels = [each for each in labels if each]
    if len(set(labels)) < 2 and set(labels) != {"1"}:
        with pytest.raises(InvalidInput, match="label"):
            choose_target(labels)
        return
    found = choose_target(labels)
    if found.label_values is None:
        assert found.loss == "squared" or set(labels) <= {"1"}
        return
    settings = Settings(loss=found.loss, label_values=found.label_values, bits=4)
    texts = settings.label_names
    for label in labels:
        if texts is not None:
            assert settings.accepts(texts.codes([label])).all() and texts.code(label) >= 0
        elif label not in ("yes", "no"):
            assert settings.accepts(np.array([float(label)])).all()


@pytest.mark.parametrize(
    ("labels", "loss", "said"),
    [
        (["yes"] * 3, "auto", "only yes; name all labels, such as label_values=('no', 'yes')"),
        (["yes"], "auto", "in the first row there is only yes"),
        (["0"] * 3, "auto", "only 0; name all labels, such as label_values=('no', 'yes'), or loss='squared' for"),
        ([], "auto", "the first rows have no label; name the column of labels with label"),
        ([], "hinge", "needs labels, and the first rows have none"),
        ([f"row {k}" for k in range(30)], "auto", "30 different labels, such as 'row 0'"),
        (["a", "b", "c"], "hinge", "takes two labels, and the first rows have 3: a, b or c; use loss='softmax'"),
        (["7"] * 9, "softmax", "only 7"),
    ],
)
def test_what_cannot_be_chosen_is_an_error_with_its_remedy(labels, loss, said):
    with pytest.raises(InvalidInput) as problem:
        choose_target(labels, loss)
    assert said in str(problem.value)


STRANGE = {
    "csv": ("0.5,0.25,maybe", "62:10"),
    "svm": ("  maybe 1:0.5", "61:3"),
    "vw": ("maybe | a:1", "61:1"),
    "json": ('{"a": 0.5, "label": "maybe"}', "61:12"),
}


@pytest.mark.parametrize("ending", STRANGE)
def test_a_label_that_the_first_rows_did_not_have(ending, tmp_path, monkeypatch):
    path, model, (line, place) = tmp_path / f"rows.{ending}", tmp_path / "m.giftrl", STRANGE[ending]
    WRITERS[ending](path, [NAMES[int(each)] for each in TRUE])
    path.write_text(f"{path.read_text()}{line}\n")
    monkeypatch.setattr("giftrl.streams.first_labels.MAX_ROWS", 60)
    done = giftrl("train", path, "--model", model, check=False)
    assert done.returncode == 1 and not model.exists()
    said = f"{path}:{place}: the label 'maybe', expected no or yes ("
    assert f"{said}--labels no,yes,maybe adds it, --on-error skip leaves it out)" in done.stderr.decode()
    skipped = json.loads(giftrl("train", path, "--on-error", "skip", "--json").stdout)
    assert (skipped["examples"], skipped["rejected"]) == (60, 1)
    three = giftrl("train", path, "--labels", "no,yes,maybe", "--model", model).stderr.decode()
    assert "so the loss is softmax, for several classes" in three
    assert "no, yes, maybe" in giftrl("inspect", model).stdout.decode()
    # Labels do not matter to predictions: one that is not known is no mistake there.
    giftrl("train", path, "--labels", "no,yes", "--on-error", "skip", "--model", model, "--quiet")
    assert len(giftrl("predict", model, path).stdout.splitlines()) == 61
    # A model has its labels: there, none can be added.
    for command in (("certify", model, path), ("train", path, "--from", model)):
        assert f"{said}--on-error skip leaves it out)" in giftrl(*command, check=False).stderr.decode()


def test_truth_values_of_tables_and_json_are_labels(tmp_path):
    for write, ending in ((write_parquet, "parquet"), (write_json, "json"), (write_npz, "npz")):
        path = tmp_path / f"rows.{ending}"
        write(path, [bool(each) for each in TRUE])
        giftrl("train", path, "--model", tmp_path / "m.giftrl", "--quiet")
        assert set(giftrl("predict", tmp_path / "m.giftrl", path).stdout.split()) == {b"true", b"false"}


def test_names_go_through_every_command(tmp_path):
    path, model, arrow = tmp_path / "rows.csv", tmp_path / "m.giftrl", tmp_path / "rows.arrow"
    write_csv(path, [NAMES[int(each)] for each in TRUE], "\r\n")
    giftrl(
        "train", path, "--loss", "hinge", "--model", model, "--checkpoint-every", 10, "--summary", tmp_path / "s.json"
    )
    assert json.loads((tmp_path / "s.json").read_text())["settings"]["label_values"] == list(NAMES)
    assert "no (-), yes (+)" in giftrl("inspect", model).stdout.decode()
    assert "prediction\tyes" in giftrl("predict", model, path, "--audit").stdout.decode()
    assert "average loss" in giftrl("certify", model, path).stdout.decode()
    np.savez(tmp_path / "w.npz", coef=np.array([[3.0, 0.0]]), intercept=np.zeros(1), classes=np.array(NAMES))
    given = giftrl("certify", "--weights", tmp_path / "w.npz", "--loss", "logistic", path, "--json").stdout
    assert json.loads(given)["rows"] == 60
    giftrl("convert", path, arrow)
    giftrl("train", arrow, "--loss", "hinge", "--model", tmp_path / "n.giftrl", "--quiet")
    first, second = (giftrl("predict", tmp_path / f"{name}.giftrl", path).stdout for name in "mn")
    assert first == second and giftrl("predict", model, arrow).stdout == first
    giftrl("train", path, "--from", model, "--model", tmp_path / "more.giftrl", "--quiet")
    assert LinearModel.load(tmp_path / "more.giftrl")[0].examples == 120
    refused = giftrl("train", arrow, "--loss", "squared", check=False).stderr.decode()
    assert "labels that are no numbers: no or yes" in refused


@pytest.mark.parametrize("fifo", [False, True])
def test_what_comes_through_a_pipe_is_looked_at_and_learnt(fifo, tmp_path):
    path, model = tmp_path / "rows.csv", tmp_path / "m.giftrl"
    write_csv(path, [NAMES[int(each)] for each in TRUE])
    if fifo:
        pipe = tmp_path / "pipe.csv"
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_bytes(path.read_bytes()))
        writer.start()
        giftrl("train", pipe, "--model", model, "--quiet")
        writer.join()
    else:
        giftrl("train", "-", "--model", model, "--quiet", stdin=path.read_bytes())
    giftrl("train", path, "--model", tmp_path / "same.giftrl", "--quiet")
    assert model.read_bytes() == (tmp_path / "same.giftrl").read_bytes()


words = st.text(
    st.characters(blacklist_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], blacklist_characters=":|#\"\\,'{}"),
    min_size=1,
    max_size=6,
)


@given(st.lists(words, min_size=2, max_size=5, unique=True), st.data())
def test_lines_with_names_are_read_as_they_are_written(names, data):
    from giftrl.streams.batch import Position
    from giftrl.streams.text.json import JsonLines
    from giftrl.streams.text.libsvm import LibsvmText
    from giftrl.streams.text.vw import VwText

    *known, strange = names
    labels = LabelNames(known)
    written = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=8))
    expected = [float(known.index(each)) if each in known else -1.0 for each in written]
    for parser, line in (
        (LibsvmText, "{} 1:2\n"), (VwText, "{} |a x\n"), (JsonLines, '{{"label": {}, "x": 1}}\n'),
    ):  # fmt: skip
        shown = (json.dumps(each, ensure_ascii=False) if parser is JsonLines else each for each in written)
        block = "".join(line.format(each) for each in shown).encode()
        made = parser(Dictionary(), labels=labels, compiled=False)
        batch = made.parse(block, "a", Position())
        assert batch.labels.tolist() == expected and not batch.rejected
        raw = line.format(json.dumps(strange, ensure_ascii=False) if parser is JsonLines else strange).encode()
        assert made.label_at(1, raw)[0] == strange


def test_names_that_are_not_text_stay_numbers_of_their_own(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('{"label": 1, "x": 1}\n{"label": "b", "x": 2}\n{"label": true, "x": 2}\n{"label": null, "x": 2}\n')
    labels = names_where_text(first_labels(path).labels)
    assert labels.names == ("1", "b", "true")
    batches = list(Reader(path, Dictionary(), labels=labels, compiled=False))
    np.testing.assert_array_equal(np.concatenate([each.labels for each in batches]), [0.0, 1.0, 2.0, np.nan])
    with pytest.raises(BadRow, match="a label that is not a number: 'b'"):
        list(Reader(path, Dictionary(), compiled=False))


def test_a_row_without_a_label_can_be_left_out(tmp_path):
    for labels, loss in (([*"01" * 9, "NA"], ()), ([*"01" * 9, ""], ("--loss", "squared"))):
        path = tmp_path / "rows.csv"
        path.write_text("a,label\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels)))
        said = giftrl("train", path, *loss, check=False).stderr.decode().splitlines()[-1]
        assert ":20:4: no label, expected " in said and said.endswith(" (--on-error skip leaves out such rows)")
        assert "--labels" not in said


def test_names_with_commas_can_be_given_as_they_are_advised(tmp_path):
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        labels = ["will not, leave"] * 30 + ['"no"'] * 30 + [" maybe"]
        csv.writer(file).writerows([("a", "label"), *enumerate(labels)])
    refused = giftrl("train", path, "--labels", '"will not, leave", """no"""', check=False).stderr.decode()
    advice = shlex.split(re.search(r"\((--labels .*) adds it", refused)[1])
    assert advice == ["--labels", '"will not, leave","""no""",maybe']
    done = giftrl("train", path, *advice).stderr.decode()
    assert "the first 30 labels are all 'will not, leave': if the rows are sorted" in " ".join(done.split())
    for wrong, said in (('"will not', "a quote out of place"), ("", "an empty label"), ("no,,yes", "an empty label")):
        assert said in giftrl("train", path, "--labels", wrong, check=False).stderr.decode()


def test_whole_numbers_that_float64_has_not_are_names(tmp_path):
    many = [str(2**53 + k % 2) for k in range(60)]
    for ending, write in WRITERS.items():
        path = tmp_path / f"rows.{ending}"
        write(path, many if ending in ("csv", "svm", "vw") else [int(each) for each in many])
        labels = names_where_text(first_labels(path).labels)
        assert labels.names == (str(2**53), str(2**53 + 1))
        read = np.concatenate([batch.labels for batch in Reader(path, Dictionary(), labels=labels)])
        assert read.tolist() == [k % 2 for k in range(60)]
    done = giftrl("train", path, "--labels", f"{2**53},{2**53 + 1}").stderr.decode()
    assert f"labels: {2**53} and {2**53 + 1}; so the loss is logistic" in done
    # Many of them are real labels, and those that float64 has are numbers.
    assert choose_target([str(2**60 + 1000 * k) for k in range(60)]).loss == "squared"
    assert distinct(["1234567890123", "1"]) == (1.0, 1234567890123.0)
    assert "labels: 1 and 1234567890123 in" in choose_target(["1234567890123", "1"]).reason


def test_names_that_differ_in_case_or_blanks_alone_are_pointed_out():
    assert choose_target(["yes", "no", "Yes"]).reason.endswith("Note: Yes and yes count as two labels")
    assert choose_target(["yes", " yes"], "hinge").reason.endswith("Note: ' yes' and yes count as two labels")
    several = choose_target(["True", "False", "true", "false"]).reason
    assert several.endswith("Note: False and false count as two labels, and so do True and true")
    assert "Note" not in choose_target(["yes", "no"]).reason


# The look at the first rows: its length, and messages where it finds no labels.


@pytest.mark.parametrize("ending", [each for each in WRITERS if each != "npz"])
def test_how_much_is_read_at_a_time_does_not_matter(ending, tmp_path, monkeypatch):
    path = tmp_path / f"rows.{ending}"
    labels = [f"{NAMES[int(each)]}{k % 3}" for k, each in enumerate(TRUE)]
    WRITERS[ending](path, labels if ending != "csv" else [f'"\n{each}"' for each in labels])
    monkeypatch.setattr("giftrl.streams.first_labels.BLOCK_BYTES", 7)
    assert [each.strip() for each in first_labels(path).labels] == labels
    monkeypatch.setattr("giftrl.streams.first_labels.MAX_ROWS", 25)
    assert [each.strip() for each in first_labels(path).labels] == labels[:25]
    if ending in STRANGE:
        monkeypatch.setattr("giftrl.streams.first_labels.MAX_BYTES", 60)
        assert 0 < len(first_labels(path).labels) < 25


def test_rows_are_looked_at_however_wide_they_are(tmp_path):
    path, wide = tmp_path / "rows.csv", "x" * 20_000
    path.write_text("text,label\n" + "".join(f"{wide},{'late' if k > 150 else NAMES[k % 2]}\n" for k in range(160)))
    assert choose_target(first_labels(path).labels).label_values == ("late", *NAMES)
    batches = pa.table({"x": range(300), "label": [*NAMES * 149, "late", "late"]}).to_batches(max_chunksize=7)
    for name, new in (("file.arrow", pa.ipc.new_file), ("stream.arrow", pa.ipc.new_stream)):
        with pa.OSFile(str(tmp_path / name), "wb") as sink, new(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        assert set(first_labels(tmp_path / name).labels) == set(first_labels(packed).labels) == {"late", *NAMES}


UNREADABLE = {
    "rows.json": (b'[{"a": 1, "label": "yes"},\n{"a": 2, "label": "no"}]\n', ":1:.* expected one object a line"),
    "pretty.json": (b'{\n"a": 1,\n"label": "yes"\n}\n', ":1:2: unreadable JSON"),
    "keys.json": (b'{"a": 1, "churn": "yes"}\n', r"label \('a' or 'churn'\)"),
    "old.csv": (b"a,label\r1,2\r3,4\r", ":1:8: a carriage return inside a line"),
    "comment.csv": (b"# of 2024\na,label\n1,yes\n2,no\n", ":2:.: 2 columns, expected 1 columns"),
    "header.csv": (b"a,label\n", "holds no row"),
    "latin.csv": (b"a,label\n1,n\xe9\n2,n\xe8\n", ":2:3: bytes that are not UTF-8 in the column 'label'"),
    "half.csv": (b"a,label\n1,yes\n2,n\xe8\n", ":3:3: bytes that are not UTF-8 in the column 'label'"),
    "empty.csv": (b"a,label\n1,\n2,NA\n", r"the first rows have .*label \('a' or 'label'\)"),
    "none.svm": (b"1:2 3:4\n", ":1:1: no label before the first feature"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_where_no_label_can_be_seen_reading_says_why(name, tmp_path):
    path, (data, said) = tmp_path / name, UNREADABLE[name]
    path.write_bytes(data)
    for loss in ("auto", "hinge"):
        with pytest.raises(GiftrlError, match=said):
            look(path, loss, None, format=None, columns=Columns())
    asked = {".svm": "libsvm"}.get(path.suffix, path.suffix[1:])
    assert re.search(said, giftrl("train", "-", "--format", asked, stdin=data, check=False).stderr.decode())


def test_what_else_the_look_says_of_rows_without_labels(tmp_path):
    path, table, usual = tmp_path / "rows.json", tmp_path / "rows.parquet", {"format": None, "columns": Columns()}
    path.write_text('{"a": 1, "churn": "yes"}\n{"a": 2, "churn": "no"}\n')
    said = giftrl("train", path, "--label", "chrun", check=False).stderr.decode()
    assert "--label chrun: is not a known name; did you mean 'churn'?" in said
    write_parquet(table, TRUE)
    table.write_bytes(gzip.compress(table.read_bytes()))
    with pytest.raises(GiftrlError, match="Parquet cannot be read from a pipe or from compressed data"):
        look(table, "auto", None, **usual)
    table.with_name("rows.csv").write_text("a,label\n1,7\n2,7\n")
    giftrl("convert", table.with_name("rows.csv"), table.with_name("rows.arrow"), "--bits", 9)
    with pytest.raises(GiftrlError, match="in the first 2 rows there is only 7"):  # whatever its bits
        look(table.with_name("rows.arrow"), "auto", None, **usual)
    path.write_text('{"label": "yes"}\n{"label": "yes"\n')
    with pytest.raises(BadRow, match=":2:"):
        look(path, "auto", None, **usual)
    with pytest.raises(GiftrlError, match="there is only yes"):  # the other row is to be skipped
        look(path, "auto", None, on_error="skip", **usual)
