"""``giftrl predict``: where its predictions go."""

import importlib

import pytest
from click.testing import CliRunner

from giftrl.errors import InvalidInput
from giftrl.training import LinearModel, Settings
from tests.commands import write_rows

command = importlib.import_module("giftrl.cli.predict").command


@pytest.fixture
def arguments(tmp_path):
    LinearModel(Settings(bits=4)).save(tmp_path / "m.giftrl")
    return [str(tmp_path / "m.giftrl"), str(write_rows(tmp_path / "rows.svm", n=3))]


def test_an_output_that_cannot_be_written_is_named(arguments, tmp_path):
    output = str(tmp_path / "no" / "such" / "p.txt")
    ran = CliRunner().invoke(command, [*arguments, "-o", output])
    assert isinstance(ran.exception, InvalidInput)
    assert (ran.exception.argument, ran.exception.value) == ("output", output)
    assert "cannot be written (No such file or directory)" in str(ran.exception)


def test_a_model_that_has_learnt_nothing_predicts_0_for_every_row(arguments, tmp_path):
    output = tmp_path / "p.txt"
    ran = CliRunner().invoke(command, [*arguments, "-o", str(output)], catch_exceptions=False)
    assert ran.exit_code == 0 and ran.output == "" and output.read_text() == "0\n0\n0\n"
    assert CliRunner().invoke(command, [*arguments, "--proba"]).output == "0.5\n0.5\n0.5\n"
