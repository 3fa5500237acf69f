"""The service over HTTP: what it answers, whom it refuses, and what it keeps."""

import json
import threading
import time

import httpx
import pytest

from giftrl.service.http import openapi, route_of
from giftrl.service.request_limits import Tokens
from giftrl.service.writer import Clock
from tests.serving import QUICK, at_once, quick_settings, rows, serving, trained

pytestmark = pytest.mark.plain
#: The options of every request, by its method and path.
OPTIONS = {
    (method, path): route_of(operations[method])[2]
    for path, operations in openapi()["paths"].items()
    for method in operations.keys() - {"parameters"}
}


def test_from_nothing_to_a_prediction(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        assert client.put("/models/churn").status_code == 201
        assert client.put("/models/churn").json()["created"] is False
        first = client.post("/models/churn/learn", json={"label": "yes", "age": 33}).json()
        assert first == {"predictions": [None], "examples": 0, "waiting": 1}
        several = {"rows": [{"label": "no", "age": 8}, {"label": "no", "age": 9}]}
        assert client.post("/models/churn/learn", json=several).json()["examples"] == 3
        assert client.post("/models/churn/predict", content=b'{"age": 8}\n{"age": 9}\n').json()["predictions"] == [
            "no", "no",
        ]  # fmt: skip
        shares = client.post("/models/churn/predict?proba=1", json={"age": 8}).json()["predictions"][0]
        assert sum(shares.values()) == pytest.approx(1.0)
        assert isinstance(client.post("/models/churn/predict?scores=1", json={}).json()["predictions"][0], float)
        shown = client.get("/models/churn").json()
        assert (shown["examples"], shown["chosen"]["loss"], len(shown["experts"]) > 1) == (3, "logistic", True)
        assert client.get("/models").json()["models"] == [{"name": "churn", "open": True, "examples": 3}]
        assert 'giftrl_examples{model="churn"} 3' in client.get("/metrics").text
        assert client.delete("/models/churn").status_code == 400
        assert client.delete("/models/churn?confirm=churn").status_code == 200
        assert client.get("/models/churn").status_code == 404
        assert client.get("/models").json() == {"models": []}


def test_a_key_gets_the_same_answer_and_is_learnt_once(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        key = {"Idempotency-Key": "a"}
        first = client.post("/models/m/learn", content=rows(1)[0], headers=key)
        client.post("/models/m/learn", content=rows(2)[1])
        assert client.post("/models/m/learn", content=rows(1)[0], headers=key).content == first.content
        other = client.post("/models/m/learn", content=rows(2)[1], headers=key)
        assert other.status_code == 422
        assert client.get("/models/m").json()["examples"] == 2
    with serving(tmp_path / "models") as (client, _):
        assert client.post("/models/m/learn", content=rows(1)[0], headers=key).content == first.content
        assert client.get("/models/m").json()["examples"] == 2


def test_the_same_key_at_the_same_time_is_learnt_once(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        key = {"Idempotency-Key": "k"}
        said = at_once(lambda line: client.post("/models/m/learn", content=line, headers=key).content, 8 * rows(1))
        assert len(set(said)) == 1
        assert client.get("/models/m").json()["examples"] == 1


def test_labels_that_come_later_are_learnt_with_the_row_as_it_was(tmp_path):
    lines = rows(20)
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        bare = [{k: v for k, v in json.loads(line).items() if k != "label"} for line in lines]
        told = client.post("/models/m/predict?remember=1", json={"rows": bare}).json()
        assert len(told["ids"]) == 20 and len(told["predictions"]) == 20
    later = []
    with serving(tmp_path / "models") as (client, _):
        for name, line in zip(told["ids"], lines, strict=True):
            label = {"id": name, "label": json.loads(line)["label"]}
            assert client.post("/models/m/label", json=label).status_code == 200
            assert client.post("/models/m/label", json=label).status_code == 409
            given = json.loads(line)
            later.append(json.dumps({k: v for k, v in given.items() if k != "label"} | {"label": given["label"]}))
        assert client.post("/models/m/label", json={"id": "nobody", "label": 1}).status_code == 404
        wanted = trained(tmp_path, [each.encode() + b"\n" for each in later], quick_settings())
        assert client.get("/models/m/file").content == wanted


def test_predictions_are_forgotten_after_their_time_whatever_the_clock_does(tmp_path):
    wall, steady = [1000.0], [0.0]
    clock = Clock(wall=lambda: wall[0], steady=lambda: steady[0])
    with serving(tmp_path / "models", clock, remember=100.0) as (client, _):
        client.put("/models/m", json=QUICK)
        first, second = client.post("/models/m/predict?remember=1", json={"rows": [{"a": 1}, {"a": 2}]}).json()["ids"]
        wall[0] += 1e9  # which nothing here can be late for
        assert client.post("/models/m/label", json={"id": first, "label": 1}).status_code == 200
        wall[0], steady[0] = 0.0, 101.0
        assert client.post("/models/m/label", json={"id": second, "label": 1}).status_code == 404
    # A clock that was set back before the start does not make old predictions young.
    with serving(tmp_path / "models", Clock(wall=lambda: 5.0, steady=lambda: 0.0), remember=100.0) as (client, folder):
        client.get("/models/m")
        assert folder.clock.now() >= 1101.0
        assert client.post("/models/m/label", json={"id": second, "label": 1}).status_code == 404


@pytest.mark.parametrize("request_", [
    "PUT /models/predict", "DELETE /models/predict?confirm=predict", "PUT /models/m/predict", "POST /models/predict",
    "POST /models/m/predict?remember=1", "POST /models/m/predict?%72emember=1", "POST /models/m/predict?a=b&remember",
    "POST /models/m/learn?x=/predict", "POST /models/predict/learn", "POST /models/predict/label",
])  # fmt: skip
def test_the_token_for_reading_changes_nothing(request_, tmp_path):
    tokens = Tokens("learn-0123456789", "read-0123456789a")
    with serving(tmp_path / "models", tokens=tokens) as (client, folder):
        for name in ("m", "predict"):
            folder.create(name, QUICK)
        method, path = request_.split()
        learn = {"Authorization": f"Bearer {tokens.learn}"}
        assert client.put("/models/m", json=QUICK, headers=learn).status_code == 200
        read = {"Authorization": f"Bearer {tokens.read}"}
        assert client.request(method, path, headers=read, content=b'{"a": 1}').status_code == 403
        assert client.post("/models/predict/predict", headers=read, content=b'{"a": 1}').status_code == 200
        assert folder.names == ["m", "predict"]


def test_pages_of_other_sites_are_refused(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        for origin in ("http://[", "null", "", "http://evil.com", "//", "https://evil.example"):
            assert client.put("/models/m", headers={"Origin": origin}).status_code == 403
        assert client.get("/models", headers={"Host": "evil.example"}).status_code == 403
        assert client.put("/models/m", headers={"Origin": str(client.base_url).rstrip("/")}).status_code == 201


@pytest.mark.parametrize(
    "name", ["..", "a%2f..%2fb", "%2e%2e", "%2fetc", "a%00b", ".hidden", "x" * 65, "con", "ä", "a."]
)
def test_names_cannot_leave_the_folder(name, tmp_path):
    with serving(tmp_path / "models") as (client, _):
        assert client.put(f"/models/{name}").status_code in (404, 405, 422)
    assert sorted(each.name for each in tmp_path.rglob("*")) in (["models"], [".lock", "models"])


def test_limits_of_size_and_count(tmp_path):
    with serving(tmp_path / "models", body=2000, rows=5) as (client, _):
        client.put("/models/m", json=QUICK)
        assert client.post("/models/m/learn", content=b"x" * 2001).status_code == 413
        assert client.post("/models/m/learn", content=iter([b"x" * 1500, b"x" * 1500])).status_code == 413
        assert client.post("/models/m/learn", content=b'{"label": 1}\n' * 6).status_code == 413
        assert client.get("/models/m").json()["examples"] == 0


def test_too_many_requests_are_asked_to_come_later(tmp_path):
    with serving(tmp_path / "models", queue=2) as (client, folder):
        client.put("/models/m", json=QUICK)
        client.post("/models/m/learn", content=rows(1)[0]).raise_for_status()
        statuses = []

        def send():
            statuses.append(client.post("/models/m/learn", content=rows(1)[0]))

        threads = [threading.Thread(target=send) for _ in range(8)]
        with folder.get("m").model.lock:  # the writer waits, and so do they
            for each in threads:
                each.start()
            while len(statuses) < 4:  # at most two are being learnt, and two wait
                time.sleep(0.01)
        for each in threads:
            each.join()
        refused = [answer for answer in statuses if answer.status_code == 429]
        assert all(answer.headers["retry-after"] == "1" for answer in refused)
        assert client.get("/models/m").json()["examples"] == 1 + 8 - len(refused)


def test_every_schema_and_every_answered_status_is_described():
    text = json.dumps(openapi())
    for reference in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert reference in openapi()["components"]["schemas"]
    every = openapi()["paths"]["/models/{name}/learn"]["post"]["responses"]
    assert {"500", "503", "504", "507"} <= set(every)


def test_the_events_of_a_model_end_when_it_is_deleted(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        with httpx.stream("GET", f"{client.base_url}/models/m/events", timeout=20) as events:
            lines = events.iter_lines()
            assert next(lines).startswith("data: ")
            client.delete("/models/m?confirm=m").raise_for_status()
            assert [line for line in lines if line][-2:] == ["event: deleted", "data: {}"]


def test_options_that_are_not_known_are_refused_with_the_known_ones(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK).raise_for_status()
        for method, path in OPTIONS:
            where = path.replace("{name}", "m")
            said = client.request(method, f"{where}?confirmed=m&foo=1", content=b'{"label": 1, "a": 2}')
            assert said.status_code == 400, (method, path)
            problem, remedy = (said.json()["error"][each] for each in ("problem", "remedy"))
            assert "'confirmed'" in problem
            known = ", ".join(OPTIONS[method, path]) or "no options"
            assert remedy == f"this request knows {known}"
        assert client.get("/models/m").json()["examples"] == 0


def test_options_that_are_known_are_taken_by_every_request(tmp_path):
    given = {"format": "json", "on_error": "skip", "certify": "0", "confirm": "m", "remember": "0"}
    with serving(tmp_path / "models") as (client, _):
        for method, path in [each for each in OPTIONS if "events" not in each[1]]:
            for name in OPTIONS[method, path]:
                client.put("/models/m", json=QUICK).raise_for_status()
                where = f"{path.replace('{name}', 'm')}?{name}={given.get(name, '1')}"
                said = client.request(method, where, content=b'{"label": 1, "a": 2}')
                assert said.status_code == 200, (method, where, said.text)
