"""Labels: when rows wait for them, when they are refused, and when they come later."""

import json

import pytest

from giftrl.errors import Refused
from giftrl.service.bodies import Body
from giftrl.service.online_model import OnlineModel
from giftrl.service.requested_settings import RequestedSettings
from tests.serving import QUICK, arrow, serving

pytestmark = pytest.mark.plain


def lines(*labels, skip=False):
    rows = [json.dumps({"label": label, "x": k}) + "\n" for k, label in enumerate(labels)]
    return Body("json", "".join(rows).encode(), skip)


@pytest.mark.parametrize("given", [
    {"bits": 18.5}, {"bits": True}, {"interactions": ["a"]}, {"normalize": 3}, {"ngrams": -3}, {"constant": "x"},
    {"constant": 1}, {"constant": None}, {"dictionary": "no"}, {"interactions": {}}, {"ngrams": {}}, {"weight": []},
    {"dtype": None}, {"dictionary": True, "bits": 18}, {"los": "squared"},
])  # fmt: skip
@pytest.mark.parametrize("more", [{}, {"loss": "squared"}])
def test_settings_that_no_model_can_have_are_refused(given, more):
    with pytest.raises(Refused, match=next(iter(given))) as refusal:
        RequestedSettings.checked(given | more)
    assert refusal.value.status == 422


def test_bits_or_a_dictionary_may_be_asked_for():
    for given in ({"bits": 18, "dictionary": False}, {"bits": None, "dictionary": True}):
        assert RequestedSettings.checked(given).given == given


def test_a_table_goes_with_rows_of_json_that_wait():
    live = OnlineModel(RequestedSettings({"bits": 4}))
    live.learn([lines("a")])
    assert live.waiting == 1
    assert live.learn([Body("arrow", arrow([{"label": "b", "x": 1.0}]))])[0].examples == 2


@pytest.mark.parametrize(("wanted", "first", "then", "words"), [
    ({"loss": "hinge"}, ["a"], ["b", "c"], "takes two labels"),
    ({}, ["a"], [f"t{k}" for k in range(101)], "different labels"),
    ({}, ["a"], [1] * 9, "already learned"),
])  # fmt: skip
def test_labels_that_more_rows_do_not_help_are_refused(wanted, first, then, words):
    live = OnlineModel(RequestedSettings({"bits": 4} | wanted))
    live.learn([lines(*first)])
    with pytest.raises(Refused, match=words):
        live.learn([lines(*then)])
    assert live.waiting == len(first)


@pytest.mark.parametrize("labels", [["a"], [5], [f"t{k}" for k in range(11)]])
def test_rows_wait_while_more_rows_can_help(labels):
    live = OnlineModel(RequestedSettings({"bits": 4}))
    live.learn([lines(*labels)])
    assert live.waiting == len(labels)
    live.learn([lines(*(["b"] * 20))])
    assert live.examples == len(labels) + 20


def test_a_new_label_makes_a_young_model_be_learnt_anew_where_rows_may_be_left_out():
    labels = ["no", "yes", "no", "yes", "no", "maybe", "no", "maybe", "no", "maybe"]
    found = []
    for skip in (False, True):
        live = OnlineModel(RequestedSettings({"bits": 4}))
        for label in labels:
            live.learn([lines(label, skip=skip)])
        found.append((live.linear.settings.class_names, live.examples))
    assert found == [(("maybe", "no", "yes"), 10)] * 2


def test_rows_without_use_are_still_left_out_of_a_young_model():
    live = OnlineModel(RequestedSettings({"bits": 4}))
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


def test_predictions_that_have_their_labels_do_not_count_as_waiting(tmp_path):
    with serving(tmp_path / "models", remembered=2) as (client, folder):
        client.put("/models/m", json=QUICK)
        for _ in range(5):
            told = client.post("/models/m/predict?remember=1", json={"rows": [{"a": 1}, {"a": 2}]})
            assert told.status_code == 200
            assert client.post("/models/m/predict?remember=1", json={"a": 1}).status_code == 429
            for name in told.json()["ids"]:
                client.post("/models/m/label", json={"id": name, "label": 1}).raise_for_status()
        assert folder.get("m").store.count_remembered() == 0
        assert client.post("/models/m/label", json={"id": name, "label": 1}).status_code == 409


def test_labels_that_are_sent_again_are_answered_alike_or_refused_by_id(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        ids = client.post("/models/m/predict?remember=1", json={"rows": [{"a": 1}, {"a": 2}, {"a": 3}]}).json()["ids"]

        def label(names, key, value=1):
            given = {"rows": [{"id": name, "label": value} for name in names]}
            return client.post("/models/m/label", json=given, headers={"Idempotency-Key": key})

        first = label(ids[:2], "monday")
        assert first.status_code == 200 and first.json()["examples"] == 2
        assert label(ids[:2], "monday").content == first.content
        refused = label(ids, "tuesday")
        assert refused.status_code == 409 and refused.json()["error"]["labelled"] == ids[:2]
        assert ids[0] in refused.json()["error"]["problem"] and "1 more" in refused.json()["error"]["problem"]
        assert client.get("/models/m").json()["examples"] == 2
        assert label(ids[2:], "wednesday").json()["examples"] == 3
        unknown = label(["nobody", "none"], "thursday")
        assert unknown.status_code == 404 and "nobody" in unknown.json()["error"]["problem"]
