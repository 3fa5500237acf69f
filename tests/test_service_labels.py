"""Rows wait only for labels that may still come; everything else is refused, or learnt."""

import json

import pyarrow as pa
import pytest

from giftrl.errors import Refused
from giftrl.service.bodies import Body
from giftrl.service.provisional_model import ProvisionalModel, RequestedSettings
from tests.serving import serving

pytestmark = pytest.mark.plain


def arrow(*rows):
    sink, table = pa.BufferOutputStream(), pa.Table.from_pylist(list(rows))
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Body("arrow", sink.getvalue().to_pybytes())


def lines(*labels, skip=False):
    rows = [json.dumps({"label": label, "x": k}) + "\n" for k, label in enumerate(labels)]
    return Body("json", "".join(rows).encode(), skip)


@pytest.mark.parametrize("given", [{"bits": 18.5}, {"bits": True}, {"interactions": ["a"]}, {"normalize": 3},
                                   {"ngrams": -3}])  # fmt: skip
@pytest.mark.parametrize("more", [{}, {"loss": "squared"}])
def test_settings_that_no_model_can_have_are_refused(given, more):
    with pytest.raises(Refused) as refusal:
        RequestedSettings.checked(given | more)
    assert refusal.value.status == 422


def test_a_table_goes_with_rows_of_json_that_wait():
    live = ProvisionalModel(RequestedSettings({"bits": 4}))
    live.learn([lines("a")])
    assert live.waiting == 1
    assert live.learn([arrow({"label": "b", "x": 1.0})])[0].examples == 2


@pytest.mark.parametrize(("wanted", "first", "then", "words"), [
    ({"loss": "hinge"}, ["a"], ["b", "c"], "takes two labels"),
    ({}, ["a"], [f"t{k}" for k in range(101)], "different labels"),
    ({}, ["a"], [1] * 9, "already learned"),
])  # fmt: skip
def test_labels_that_more_rows_do_not_help_are_refused(wanted, first, then, words):
    live = ProvisionalModel(RequestedSettings({"bits": 4} | wanted))
    live.learn([lines(*first)])
    with pytest.raises(Refused, match=words):
        live.learn([lines(*then)])
    assert live.waiting == len(first)


@pytest.mark.parametrize("labels", [["a"], [5], [f"t{k}" for k in range(11)]])
def test_rows_wait_while_more_rows_can_help(labels):
    live = ProvisionalModel(RequestedSettings({"bits": 4}))
    live.learn([lines(*labels)])
    assert live.waiting == len(labels)
    live.learn([lines(*(["b"] * 20))])
    assert live.examples == len(labels) + 20


def test_a_new_label_makes_a_young_model_be_learnt_anew_where_rows_may_be_left_out():
    labels = ["no", "yes", "no", "yes", "no", "maybe", "no", "maybe", "no", "maybe"]
    found = []
    for skip in (False, True):
        live = ProvisionalModel(RequestedSettings({"bits": 4}))
        for label in labels:
            live.learn([lines(label, skip=skip)])
        found.append((live.online.model.settings.class_names, live.examples))
    assert found == [(("maybe", "no", "yes"), 10)] * 2


def test_rows_without_use_are_still_left_out_of_a_young_model():
    live = ProvisionalModel(RequestedSettings({"bits": 4}))
    live.learn([lines("no", "yes", "no", "yes")])
    (answer,) = live.learn([Body("json", b'{"label": "no", "x": 1}\n{bad\n', True)])
    assert len(answer.rejected) == 1 and live.examples == 5
    live.learn([lines("maybe", skip=True)])
    assert live.examples == 6


def test_the_rows_left_out_are_told_alike_in_every_state(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m")
        for count, label in enumerate(["no", "no", "yes", "no"], 1):
            body = json.dumps({"label": label, "x": 1}).encode() + b"\n{bad\n"
            client.post("/models/m/learn?on_error=skip&format=json", content=body).raise_for_status()
            for query in ("", "?certify=0.01"):
                said = client.get(f"/models/m{query}").json()
                assert [each["row"] for each in said["rejected"]] == [2] * count
                assert said["left_out"] == count
