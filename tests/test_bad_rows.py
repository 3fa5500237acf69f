"""Rows that cannot be used: where, what and what instead; or written down and skipped."""

import json

import pytest

from tests.commands import giftrl, write_rows

pytestmark = pytest.mark.plain

BAD = {"1 3:x": ":5:5: ", "1 3:1 3:2": ":5:7: ", "7 3:1": ":5:1: "}


@pytest.mark.parametrize("line", BAD)
def test_a_bad_row_stops_with_its_place_or_is_skipped_and_kept(line, tmp_path):
    rows = write_rows(tmp_path / "rows.svm", n=60, line=line)
    done = giftrl("train", rows, "--loss", "logistic", "--beta", 1, check=False)
    assert done.returncode == 1
    assert f"{rows}{BAD[line]}" in done.stderr.decode() and ", expected " in done.stderr.decode()
    side = tmp_path / "side.jsonl"
    options = "--loss", "logistic", "--beta", 1, "--on-error", "skip", "--rejects", side, "--json"
    found = json.loads(giftrl("train", rows, *options).stdout)
    assert (found["examples"], found["rejected"]) == (59, 1)
    kept = json.loads(side.read_text())
    assert kept["line"] == 5 and kept["raw"] == line and kept["problem"] and kept["expected"]


def test_predictions_stay_in_step_with_rows_that_are_skipped(tmp_path):
    rows = write_rows(tmp_path / "rows.svm", n=60)
    giftrl("train", rows, "--beta", 1, "--model", tmp_path / "m.giftrl", "--quiet")
    good = giftrl("predict", tmp_path / "m.giftrl", rows).stdout.split()
    write_rows(rows, n=60, line="1 3:x")
    found = giftrl("predict", tmp_path / "m.giftrl", rows, "--on-error", "skip").stdout.split()
    assert found[4] == b"nan"
    assert found[:4] + found[5:] == good[:4] + good[5:]
