"""Bodies of requests: tables, rows in JSON, and models that have learned nothing yet."""

import httpx
import pyarrow as pa
import pytest

from giftrl.service.bodies import read_body
from giftrl.service.server import background
from tests.commands import giftrl
from tests.serving import QUICK, arrow, rows, serving
from tests.test_streams_arrow import lying_streams

pytestmark = pytest.mark.plain
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
BODIES = {
    "broken": b"{bad",
    "number": b"5",
    "too deep": b'{"a": {"b": [null, {"c": [[1]]}]}}',
    "one": b'{"a": 1}',
    "blank line": b'{"a": 1}\n\n{"a": 2}\n',
    "broken line": b'{"a": 1}\n{bad\n',
    "with a label": b'{"a": 1, "label": 1}',
    "table": arrow({"a": [1.0, 2.0, 3.0]}),
    "vw": b"|n a:1\n|n b:2\n",
}


@pytest.mark.parametrize("given", [QUICK, {}])
def test_a_model_that_has_learnt_json_takes_tables_too(given, tmp_path):
    table = arrow({"label": [1, 0, 1], "a": [1.0, 2.5, None], "city": ["Rome", None, "Oslo"]})
    same = b'{"label":1,"a":1.0,"city":"Rome"}\n{"label":0,"a":2.5}\n{"label":1,"city":"Oslo"}\n'
    with serving(tmp_path / "models") as (client, _):
        for name in ("m", "n"):
            client.put(f"/models/{name}", json=given)
            client.post(f"/models/{name}/learn", content=b"".join(rows(10))).raise_for_status()
        client.post("/models/m/learn", content=table, headers=ARROW).raise_for_status()
        client.post("/models/n/learn", content=same).raise_for_status()
        scores = [
            client.post(f"/models/{name}/predict?scores=1", content=table, headers=ARROW).json() for name in ("m", "n")
        ]
        assert scores[0] == scores[1] and len(scores[0]["predictions"]) == 3
    with serving(tmp_path / "models") as (client, _):  # from its log
        files = [client.get(f"/models/{name}/file").content for name in ("m", "n")]
        assert files[0] == files[1]


def test_a_table_that_json_cannot_say_is_refused_in_words(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        client.post("/models/m/learn", content=rows(1)[0]).raise_for_status()
        said = client.post("/models/m/learn", content=arrow({"label": [1], "b": [b"\xff"]}), headers=ARROW)
        assert said.status_code == 422 and "JSON lines" in said.json()["error"]["remedy"]


def test_an_arrow_stream_is_read_as_train_reads_it_and_a_bomb_is_not(tmp_path):
    table = arrow({"label": [1.0, 0.0], "a": [1.0, 2.0]})
    with background(tmp_path) as address, httpx.Client(base_url=address, timeout=60) as client:
        client.put("/models/m", json=QUICK)
        assert client.post("/models/m/learn", content=table, headers=ARROW).json()["examples"] == 2
        assert len(client.post("/models/m/predict", content=table).json()["predictions"]) == 2
        packed = arrow({"label": [1.0] * 10_000}, compression="zstd")
        assert client.post("/models/m/learn", content=packed, headers=ARROW).status_code == 415
        endless = arrow({"label": pa.nulls(10**9)})
        assert client.post("/models/m/learn", content=endless, headers=ARROW).status_code == 413
        for size in range(0, len(table), 97):
            status = client.post("/models/m/learn", content=table[:size], headers=ARROW).status_code
            assert status in (200, 400, 415, 422)


@pytest.mark.parametrize("rows", ["3", "null", '{"a": 1}', '"a"'])
def test_rows_that_are_no_list_are_refused_as_such(rows, tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK).raise_for_status()
        for what in ("learn", "predict", "label"):
            said = client.post(f"/models/m/{what}", content=f'{{"rows": {rows}}}')
            assert said.status_code == 400 and "rows is no list" in said.json()["error"]["problem"], said.text


def test_a_feature_may_be_called_rows():
    assert read_body(b'{"label": 1, "rows": 3}').data == b'{"label":1,"rows":3}\n'


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


@pytest.mark.parametrize("lie", lying_streams())
def test_arrow_streams_that_lie_are_refused_and_the_service_goes_on(lie, tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        for act in ("learn", "predict", "learn?on_error=skip"):
            said = client.post(f"/models/m/{act}", content=lying_streams()[lie], headers=ARROW)
            assert said.status_code == (400 if lie in ("name of a column", "size of a message") else 422), said.text


def test_arrow_lists_of_nothing_are_not_unpacked(tmp_path):
    nothing = pa.FixedSizeListArray.from_arrays(pa.nulls(2**30), 2**30)
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        said = client.post("/models/m/learn", content=arrow({"label": [1], "v": nothing}), headers=ARROW)
        assert said.status_code == 413 and "too large in memory" in said.json()["error"]["problem"]
