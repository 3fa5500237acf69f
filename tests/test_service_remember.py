"""Bodies are checked alike whether a model has learnt anything or not; predictions wait only for labels to come."""

import pyarrow as pa
import pytest

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
