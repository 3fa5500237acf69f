"""Tables for a model that knows its columns: what may be said of them, and labels that the model does not know."""

import json

import numpy as np
import pytest

from giftrl.errors import InvalidInput, UnknownName
from giftrl.streams.columns import Columns, Kind, Schema
from tests.commands import giftrl

SCHEMA = Schema(("age", "city", "y"), (Kind.NUMBER, Kind.CATEGORY, Kind.LABEL))


@pytest.mark.parametrize(
    ("names", "columns", "kinds"),
    [
        (("age", "city", "y"), Columns(label="y"), (Kind.NUMBER, Kind.CATEGORY, Kind.LABEL)),
        (("age", "city"), Columns(label="y"), (Kind.NUMBER, Kind.CATEGORY)),
        (("age", "city", "outcome"), Columns(label="outcome"), (Kind.NUMBER, Kind.CATEGORY, Kind.LABEL)),
        (("age", "city", "outcome"), Columns(label=-1), (Kind.NUMBER, Kind.CATEGORY, Kind.LABEL)),
        (("age", "id", "city"), Columns(ignore=("id",)), (Kind.NUMBER, Kind.IGNORED, Kind.CATEGORY)),
        (("age", "w", "city"), Columns(weight="w"), (Kind.NUMBER, Kind.WEIGHT, Kind.CATEGORY)),
    ],
)
def test_columns_may_be_named_as_they_are_known(names, columns, kinds):
    assert SCHEMA.kinds_of(names, "a.csv", columns) == kinds


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (Columns(label="city"), "known as a column of the kind category, and not label"),
        (Columns(ignore=("age",)), "known as a column of the kind number, and not ignored"),
        (Columns(categorical=("age",)), "known as a column of the kind number, and not category"),
        (Columns(text=("city",)), "known as a column of the kind category, and not text"),
        (Columns(label="more"), "is not the column of labels, which is 'y'"),
    ],
)
def test_columns_cannot_become_something_else(columns, problem):
    with pytest.raises(InvalidInput, match=problem):
        SCHEMA.kinds_of(("age", "city", "y", *(["more"] if columns.label == "more" else [])), "a.csv", columns)
    with pytest.raises(UnknownName, match="nope"):
        SCHEMA.kinds_of(("age", "city"), "a.csv", Columns(ignore=("nope",)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with three labels, its model, and a table of which some labels are unknown."""
    folder = tmp_path_factory.mktemp("known")
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{['low', 'mid', 'high'][int(x > -0.5) + int(x > 0.5)]}" for x in rng.normal(size=60)]
    (folder / "rows.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    (folder / "other.csv").write_text("\n".join(["x,y", *rows[:5], "0.1,none", "0.2,none"]) + "\n")
    giftrl("train", folder / "rows.csv", "--model", folder / "m", "--quiet")
    return folder


def test_labels_that_a_model_does_not_know_are_counted(folder):
    said = giftrl("predict", folder / "m", folder / "other.csv").stderr.decode()
    assert "2 rows with other labels than high, low or mid" in said and "over 5 rows with labels" in said
    bad = folder / "bad.csv"
    bad.write_text((folder / "other.csv").read_text() + "x,low\n")
    said = giftrl("predict", folder / "m", bad, "--on-error", "skip").stderr.decode()
    assert "1 row could not be used; nan stands for each" in said


def test_scores_of_several_classes_have_a_head(folder):
    head, *rows = giftrl("predict", folder / "m", folder / "rows.csv", "--scores").stdout.decode().splitlines()
    assert head.split("\t") == ["high", "low", "mid"] and {len(row.split("\t")) for row in rows} == {3}


def test_labels_of_converted_files_can_be_named(folder, monkeypatch):
    monkeypatch.setattr("giftrl.streams.first_labels.MAX_ROWS", 60)
    late, arrow = folder / "late.csv", folder / "late.arrow"
    late.write_text((folder / "rows.csv").read_text() + "0.1,none\n")
    refused = giftrl("convert", late, arrow, check=False).stderr.decode()
    assert f"{late}:62:5: the label 'none', expected high, low or mid (--labels names all of them)" in refused
    giftrl("convert", late, arrow, "--labels", "low,mid,high,none")
    direct, converted = (
        json.loads(giftrl("train", path, "--labels", "low,mid,high,none", "--json").stdout) for path in (late, arrow)
    )
    assert direct["average_loss"] == converted["average_loss"]
    assert (direct["examples"], direct["features"]) == (converted["examples"], converted["features"]) == (61, 1)


def test_keys_that_json_does_not_have_are_pointed_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"label": "a", "x": 1}\n{"label": "b", "x": 2}\n')
    said = giftrl("train", path, "--ignore", "nope").stderr.decode()
    assert f"note: no key is called nope in the first lines of {path}" in said
    assert "no key" not in giftrl("train", path, "--ignore", "x").stderr.decode()
