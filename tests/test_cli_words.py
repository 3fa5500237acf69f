"""What the command line says is in its own words: its options, and every part that it knows."""

import re
from pathlib import Path

import pytest

from giftrl import regularizers, schedules, updates
from giftrl.errors import InvalidInput
from giftrl.regularizers.contract import require_diagonal
from tests.commands import giftrl, write_rows

pytestmark = pytest.mark.plain


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--loss", "softmax", "--labels", "1,1"), "--labels 1,1: must be the different labels of all classes"),
        (("--loss", "hinge", "--labels", "0,1,2"), "--labels 0,1,2: must be two different labels for hinge"),
        (("--loss", "logistics"), "--loss logistics: is not a known name; did you mean 'logistic'?"),
        (("--beta", "0"), "--beta 0.0: must be positive"),
        (("--regularizer", "curvature"), "--regularizer curvature"),
    ],
)
def test_messages_name_options_and_not_arguments(options, words, tmp_path):
    rows = write_rows(tmp_path / "rows.svm", n=20)
    said = giftrl("train", rows, *options, check=False).stderr.decode()
    assert words in said and not re.search(r"\b[a-z_]+=", said.replace(str(tmp_path), "")), said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--updates", "foo"), "giftrl: --updates foo: is not a known name"),
        (("--loss", "logistic"), "giftrl: labels x y z: must have two values for logistic, and there are 3; name the"),
        (("--loss", "absolute"), "giftrl: labels x: is not a number"),
    ],
)
def test_a_sweep_names_options_and_labels(options, words, tmp_path):
    data = tmp_path / "rows.csv"
    data.write_text("a,y\n1,x\n2,y\n3,z\n" * 5)
    said = giftrl("sweep", data, *options, "--out", tmp_path / "out", check=False).stderr.decode()
    assert words in said, said


@pytest.mark.parametrize("name", ["http://example.org/a.svm", "s3://bucket/day*.vw"])
def test_urls_are_said_to_need_a_cluster(name):
    said = giftrl("train", name, check=False).stderr.decode()
    assert said.startswith(f"giftrl: {name}: is a URL, which only `giftrl train --cluster` reads; add --cluster")


@pytest.mark.parametrize("command", [("inspect",), ("train", "rows.svm", "--from")])
def test_the_text_of_vowpal_wabbit_is_no_model_file_and_the_command_that_reads_it_is_named(command, tmp_path):
    rows, text, other = write_rows(tmp_path / "rows.svm", n=20), tmp_path / "vw.txt", tmp_path / "notes.txt"
    text.write_text("Version 9.11.9\nbits:18\noptions:\n:0\n92594:0.25\n")
    other.write_text("These are not the weights of a model.\n")
    command = [rows if each == "rows.svm" else each for each in command]
    hint = "Vowpal Wabbit, which giftrl certify --weights reads"
    for path, hinted in ((text, True), (other, False)):
        said = giftrl(*command, path, check=False).stderr.decode()
        assert "does not begin like a model file" in said and (hint in said) == hinted


def test_skipped_rows_need_skipping_before_anything_is_printed(tmp_path):
    rows = write_rows(tmp_path / "rows.svm", n=20)
    for command in (("train", rows), ("predict", rows, rows), ("convert", rows, tmp_path / "a.arrow")):
        done = giftrl(*command, "--rejects", tmp_path / "r", check=False)
        said = done.stderr.decode()
        assert done.returncode == 2 and "--rejects needs --on-error skip" in said and "since last" not in said


def diagonal(name):
    try:
        require_diagonal("regularizer", regularizers.BY_NAME.make(name))
    except InvalidInput:
        return False
    return True


@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("--update", list(updates.BY_NAME)),
        ("--regularizer", [name for name in regularizers.BY_NAME if diagonal(name)]),
        ("--schedule", list(schedules.BY_NAME)),
    ],
)
def test_every_part_that_can_be_named_is_listed(option, names):
    shown = giftrl("train", "--help").stdout.decode()
    page = Path(__file__).parents[1].joinpath("docs", "command-line.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{option}`"))
    for name in names:
        assert name in shown and f"`{name}`" in row
