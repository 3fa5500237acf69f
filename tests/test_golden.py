"""Losses and bounds of models equal the recorded ones, to nine digits on any processor."""

import json

import pytest

from giftrl import losses
from tests import golden

RECORDED = json.loads(golden.RECORD.read_text(encoding="utf-8"))


def differing(run):
    found = {name: golden.measure(make) for name, make in run}
    assert found and found.keys() <= RECORDED.keys()
    return golden.compare(found, RECORDED)[1]


@pytest.mark.verify
@pytest.mark.parametrize("loss", losses.EVERY)
def test_learners_estimators_passes_and_workers(loss):
    assert differing(golden.cases((loss,))) == []


def test_files_of_every_format_and_the_log_of_a_service():
    assert differing(case for case in golden.cases() if case[0].startswith(("format/", "service"))) == []


def test_a_case_with_another_loss_is_found():
    name, case = next((name, case) for name, case in RECORDED.items() if "loss" in case)
    assert golden.compare({name: case}, RECORDED) == ([], [])
    assert golden.compare({name: case | {"loss": case["loss"] * (1.0 + 1e-8)}}, RECORDED) == ([], [name])
    assert golden.compare({name: case | {"model": "other"}}, RECORDED) == ([name], [])
