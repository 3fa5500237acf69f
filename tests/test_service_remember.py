"""Bodies are checked alike whether a model has learnt anything or not; predictions wait only for labels to come."""

import pyarrow as pa
import pytest

from tests.commands import giftrl
from tests.serving import QUICK, serving

pytestmark = pytest.mark.plain


def arrow(**columns):
    sink, table = pa.BufferOutputStream(), pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


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


BODIES = {
    "broken": b"{bad",
    "number": b"5",
    "too deep": b'{"a": {"b": [null, {"c": [[1]]}]}}',
    "one": b'{"a": 1}',
    "blank line": b'{"a": 1}\n\n{"a": 2}\n',
    "broken line": b'{"a": 1}\n{bad\n',
    "with a label": b'{"a": 1, "label": 1}',
    "table": arrow(a=[1.0, 2.0, 3.0]),
    "vw": b"|n a:1\n|n b:2\n",
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("query", ["", "?on_error=skip", "?remember=1"])
def test_a_model_that_has_learnt_nothing_looks_at_bodies_as_any_other(body, query, tmp_path):
    kind = {"broken": "application/json", "number": "application/json"}.get(body, "")
    with serving(tmp_path / "models") as (client, _):
        found = {}
        for name, settings in (("new", {}), ("known", QUICK)):
            client.put(f"/models/{name}", json=settings).raise_for_status()
            said = client.post(f"/models/{name}/predict{query}", content=BODIES[body], headers={"Content-Type": kind})
            rows = said.json().get("predictions")
            found[name] = said.status_code, None if rows is None else len(rows), len(said.json().get("rejected", []))
            for each in said.json().get("ids", []):
                client.post(f"/models/{name}/label", json={"id": each, "label": 1}).raise_for_status()
    assert found["new"] == found["known"]


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


def test_a_table_for_a_model_of_json_rows_is_refused_with_the_way_out(tmp_path):
    rows = [{"label": k % 2, "age": k, "plan": "abc"[k % 3], "since": f"2024-01-{k + 1:02}"} for k in range(20)]
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK | {"date": ["since"]})
        client.post("/models/m/learn", json={"rows": rows}).raise_for_status()
        (tmp_path / "m.giftrl").write_bytes(client.get("/models/m/file").content)
    (tmp_path / "rows.csv").write_text("age,plan,since\n3,a,2024-01-04\n")
    done = giftrl("predict", tmp_path / "m.giftrl", tmp_path / "rows.csv", check=False)
    assert done.returncode == 1 and b"'age'" in done.stderr and b"JSON lines" in done.stderr, done.stderr
    (tmp_path / "rows.jsonl").write_text('{"age": 3, "plan": "a", "since": "2024-01-04"}\n')
    assert giftrl("predict", tmp_path / "m.giftrl", tmp_path / "rows.jsonl").stdout.strip() in (b"0", b"1")
