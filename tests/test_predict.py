"""``giftrl predict``: where its predictions go."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from giftrl import losses
from giftrl.cli.commands import command_of
from giftrl.errors import InvalidInput
from giftrl.ops.loss import value
from giftrl.training import LinearModel, Settings
from tests.commands import giftrl, write_rows

pytestmark = pytest.mark.plain

command = command_of("predict")


@pytest.fixture
def arguments(tmp_path):
    LinearModel(Settings(bits=4)).save(tmp_path / "m.giftrl")
    return [str(tmp_path / "m.giftrl"), str(write_rows(tmp_path / "rows.svm", n=3))]


def test_an_output_that_cannot_be_written_is_named(arguments, tmp_path):
    output = str(tmp_path / "no" / "such" / "p.txt")
    ran = CliRunner().invoke(command, [*arguments, "-o", output])
    assert isinstance(ran.exception, InvalidInput)
    assert (ran.exception.argument, ran.exception.value) == ("output", output)
    assert "cannot be written: it lies in the folder" in str(ran.exception)


@pytest.mark.parametrize("option", ["--output", "--rejects"])
@pytest.mark.parametrize("how", ["its name", "a link", "in a folder", "standard input", "the model"])
def test_a_file_that_is_read_is_not_written_to(arguments, tmp_path, option, how):
    model, rows = map(Path, arguments)
    before = model.read_bytes(), rows.read_bytes()
    written, data = rows, rows
    if how == "a link":
        written = tmp_path / "link"
        written.symlink_to(rows)
    elif how == "in a folder":
        (tmp_path / "folder").mkdir()
        data = (tmp_path / "folder").resolve()
        written = rows.rename(data / "rows.svm")
    elif how == "the model":
        written = model
    elif how == "standard input":
        data = "-"
    with written.open("rb") as file:
        done = giftrl("predict", model, data, "--on-error", "skip", option, written, redirect=file, check=False)
    shown = done.stderr.decode()
    assert done.returncode == 1 and f"{option} {written}: must not be a file that is read" in shown
    kept = (data / "rows.svm") if how == "in a folder" else rows
    assert (model.read_bytes(), kept.read_bytes()) == before


def test_a_model_that_has_learnt_nothing_predicts_0_for_every_row(arguments, tmp_path):
    output = tmp_path / "p.txt"
    ran = CliRunner().invoke(command, [*arguments, "--scores", "-o", str(output)], catch_exceptions=False)
    assert ran.exit_code == 0 and ran.stdout == "" and output.read_text() == "0\n0\n0\n"
    assert CliRunner().invoke(command, [*arguments, "--proba"]).stdout == "-1\t1\n" + 3 * "0.5\t0.5\n"
    assert CliRunner().invoke(command, arguments).stdout == 3 * "-1\n"


@pytest.mark.parametrize("loss", ["logistic", "squared", "softmax"])
def test_the_loss_of_rows_with_labels_is_printed(tmp_path, loss):
    rows, model = write_rows(tmp_path / "rows.svm", n=50), tmp_path / "m"
    many = ("--labels=-1,1",) if loss == "softmax" else ()
    giftrl("train", rows, "--loss", loss, *many, "--beta", "1", "--bits", "6", "--model", model, "--quiet")
    done = giftrl("predict", model, rows, "--proba" if many else "--scores")
    labels = [float(line.split()[0]) for line in rows.read_text().splitlines()]
    answers = [[float(each) for each in line.split()] for line in done.stdout.decode().splitlines()[bool(many) :]]
    if many:
        expected = np.mean([-np.log(row[int(y > 0.0)]) for row, y in zip(answers, labels, strict=True)])
    else:
        phi = losses.get(loss)
        expected = np.mean([value(phi, row[0], y) for row, y in zip(answers, labels, strict=True)])
    assert f"average loss {expected:.6f} over 50 rows with labels" in done.stderr.decode()
    assert giftrl("predict", model, rows, "--quiet").stderr == b""
    rows.write_text("".join(f"9 {line.partition(' ')[2]}\n" for line in rows.read_text().splitlines()))
    assert ("over" in giftrl("predict", model, rows).stderr.decode()) == (loss == "squared")
