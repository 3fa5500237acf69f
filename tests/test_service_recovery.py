"""A model that is made again from its log is the one that answered."""

import json
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from giftrl.errors import Refused
from giftrl.service.bodies import Body
from giftrl.service.folder import Folder
from giftrl.service.online_model import OnlineModel
from giftrl.service.request_limits import Limits
from giftrl.service.requested_settings import RequestedSettings
from giftrl.service.store import ModelStore
from giftrl.service.writer import LEARN, Job, Writer, recover
from tests.serving import QUICK, break_store, quick_settings, rows, serving, trained

pytestmark = pytest.mark.plain

SETTINGS = {"beta": 1.0, "bits": 4}
NO_YES_MAYBE = ["no", "yes", "no", "yes", "no", "maybe", "no"]
WORDS, NUMBERS = st.sampled_from(["no", "yes", "maybe", "never"]), st.sampled_from([0, 1, 2, -1, 2.5, 7.25])
#: Mostly two labels, and at times others.
LABELS = st.one_of(
    st.lists(st.one_of(st.sampled_from(["no", "yes"]), kind), min_size=1, max_size=40)
    for kind in (WORDS, NUMBERS, st.one_of(WORDS, NUMBERS))
) | st.lists(st.one_of(st.sampled_from([0, 1]), NUMBERS), min_size=1, max_size=40)  # fmt: skip


def row(label, k, day=None):
    more = {} if day is None else {"day": day}
    return json.dumps({"label": label, "x": k % 5, f"n{k % 3}": 1} | more).encode() + b"\n"


def state(live, path):
    """Everything that a model is, as bytes."""
    if live.linear is None:
        return live.waiting, live.is_provisional
    live.linear.save(path / "state")
    asked = [Body("json", b'{"x": 2, "n1": 1}\n')]
    return (path / "state").read_bytes(), live.is_provisional, live.predict(asked)


def check(path, wanted, entries):
    """Learn entries one by one; recovery must give what they gave."""
    live, store = OnlineModel(RequestedSettings(wanted)), ModelStore(":memory:", False)
    with store.transaction():
        store.set_fact("settings", json.dumps(wanted))
        for number, entry in enumerate(entries, 1):
            try:
                live.learn([entry])
            except Refused:
                continue
            store.add(number, entry)
    assert state(recover(path, store)[0], path) == state(live, path)
    store.close()


@settings(max_examples=60)
@given(LABELS, st.lists(st.booleans(), min_size=1, max_size=5))
@example(NO_YES_MAYBE, [False])
def test_any_labels_learnt_one_by_one_are_learnt_again_from_the_log(tmp_path_factory, labels, skip):
    entries = [Body("json", row(label, k), skip[k % len(skip)]) for k, label in enumerate(labels)]
    check(tmp_path_factory.mktemp("log"), SETTINGS, entries)


@pytest.mark.parametrize("wanted", [SETTINGS, SETTINGS | {"loss": "logistic", "labels": ["no", "yes"]}])
@pytest.mark.parametrize("days", [["2024-01-01", "tea"], ["tea", "2024-01-01"], ["2024-01-01", 3], [3, "tea"]])
def test_what_keys_mean_is_decided_again_as_it_was(wanted, days, tmp_path):
    entries = [Body("json", row(("no", "yes")[k % 2], k, days[min(k // 3, 1)])) for k in range(12)]
    check(tmp_path, wanted, entries)


def test_a_young_model_is_opened_again_and_made_again_after_a_failing_disk(tmp_path):
    folder = Folder(tmp_path / "f", Limits())
    folder.create("m", SETTINGS)
    writer = folder.get("m")
    for k, label in enumerate(NO_YES_MAYBE):
        writer.submit(Job(LEARN, Body("json", row(label, k)))).answer.result(60)
    before, mend = state(writer.model, tmp_path), break_store(writer, "COMMIT")
    with pytest.raises(Refused, match="disk"):
        writer.submit(Job(LEARN, Body("json", row("yes", 9)))).answer.result(60)
    mend()
    assert state(writer.model, tmp_path) == before
    folder.close()
    folder = Folder(tmp_path / "f", Limits())
    assert state(folder.get("m").model, tmp_path) == before
    folder.close()


def test_the_learning_curve_goes_on_when_a_model_is_opened_again(tmp_path):
    for k in range(2):
        with serving(tmp_path / "models") as (client, folder):
            client.put("/models/m", json=QUICK)
            for line in rows(8, k):
                client.post("/models/m/learn", content=line).raise_for_status()
            curve = folder.get("m").stats.curve
    assert [count for count, _ in curve] == list(range(1, 17))


def test_a_request_that_was_answered_504_is_not_learnt_twice(tmp_path, monkeypatch):
    lines, key = rows(10), {"Idempotency-Key": "late"}
    work, hold = Writer._work, threading.Event()
    monkeypatch.setattr(Writer, "_work", lambda self, jobs: (hold.wait(20), work(self, jobs))[1])
    with serving(tmp_path / "models", seconds=0.5) as (client, _):
        hold.set()
        client.put("/models/m", json=QUICK)
        for line in lines[:5]:
            client.post("/models/m/learn", content=line).raise_for_status()
        hold.clear()
        assert client.post("/models/m/learn", content=lines[5], headers=key).status_code == 504
        hold.set()
        first = client.post("/models/m/learn", content=lines[5], headers=key)
        again = client.post("/models/m/learn", content=lines[5], headers=key)
        assert first.json()["examples"] == 6 and first.content == again.content
        for line in lines[6:]:
            client.post("/models/m/learn", content=line).raise_for_status()
        assert client.get("/models/m/file").content == trained(tmp_path, lines, quick_settings())
