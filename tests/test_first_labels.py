"""The look at the first rows: how far it goes, and what is said where it finds no labels."""

import gzip
import re

import pyarrow as pa
import pytest

from giftrl.errors import BadRow, GiftrlError
from giftrl.streams import Columns
from giftrl.streams.first_labels import first_labels
from giftrl.training.choose_loss import choose_target, look
from tests.commands import giftrl
from tests.test_labels import NAMES, STRANGE, TRUE, WRITERS, write_parquet


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
