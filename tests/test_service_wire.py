"""Requests as they arrive over the wire: order, repeated headers, and limits of heads."""

import asyncio
import json
import socket
import threading
import time

import pytest

from giftrl.service.folder import Folder
from giftrl.service.request_limits import Limits, Tokens
from giftrl.service.writer import Job, deliver
from tests.serving import QUICK, rows, serving

pytestmark = pytest.mark.plain

BODY = b'{"a": 1.5, "b": -2}'
HEAD = b"POST /models/m/%b HTTP/%b\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n%b\r\n"
LARGE = b"X-Large: " + 60_000 * b"x" + b"\r\n"


def request(body=BODY, way=b"predict", version=b"1.1", more=b""):
    return HEAD % (way, version, len(body), more) + body


@pytest.fixture
def wire(tmp_path):
    """A connection to a service with a model."""
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        client.post("/models/m/learn", content=b"".join(rows(10))).raise_for_status()
        with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as found:
            yield found


def answer(wire):
    """The status, the headers and the body of the next answer."""
    said = b""
    while b"\r\n\r\n" not in said:
        piece = wire.recv(1)
        assert piece, said
        said += piece
    first, *lines = said.decode().strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = b""
    while len(body) < int(headers["content-length"]):
        body += wire.recv(1)
    return int(first.split()[1]), headers, body


def test_an_answer_has_a_type_a_length_and_a_date(wire):
    wire.sendall(request())
    status, headers, body = answer(wire)
    assert status == 200 and set(headers) == {"date", "content-type", "content-length"}
    wire.sendall(request(way=b"predict?label=1"))
    assert answer(wire)[2] == body


def test_requests_that_are_sent_before_the_answer_are_answered_in_order(wire):
    large = json.dumps({"rows": [json.loads(line) for line in rows(3_000)]}).encode()
    wire.sendall(request(rows(1)[0], b"learn") + request() + request(large, b"learn") + request() + request())
    assert [json.loads(answer(wire)[2])["examples"] for _ in range(5)] == [11, 11, 3011, 3011, 3011]


@pytest.mark.parametrize(("version", "more"), [(b"1.1", b"Connection: close\r\n"), (b"1.0", b"")])
def test_a_connection_that_shall_end_ends(wire, version, more):
    wire.sendall(request(version=version, more=more))
    _, headers, body = answer(wire)
    assert headers["connection"] == "close" and json.loads(body)["examples"] == 10
    assert wire.recv(1) == b""


@pytest.mark.parametrize("more", [
    b"Host: localhost\r\n", b"Idempotency-Key: a\r\nIdempotency-Key: b\r\n", b"Origin: http://a\r\nOrigin: http://b\r\n",
    b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n", b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
])  # fmt: skip
def test_headers_that_contradict_each_other_are_refused(wire, more):
    wire.sendall(request(more=more))
    assert answer(wire)[0] == 400


def test_headers_that_decide_nothing_may_be_repeated(wire):
    wire.sendall(request(more=b"Accept: a\r\nAccept: b\r\n"))
    assert answer(wire)[0] == 200


def test_a_content_encoding_is_refused(wire):
    wire.sendall(request(more=b"Content-Encoding: gzip\r\n"))
    status, _, body = answer(wire)
    assert status == 415 and b"gzip" in body


def test_a_large_head_is_refused_and_a_large_body_is_not_taken_for_one(wire):
    wire.sendall(request(more=LARGE))
    assert answer(wire)[0] == 200
    body = BODY.ljust(300_000)
    wire.sendall(request(body) + request(body))
    assert [answer(wire)[0] for _ in range(2)] == [200, 200]
    for line in (b"GET /healthz HTTP/1.1\r\n", *(100 * [LARGE])):
        try:
            wire.sendall(line)
        except (BrokenPipeError, ConnectionResetError):
            break
    assert answer(wire)[0] == 431


def test_what_follows_a_refusal_is_the_rest_of_its_body_and_no_head(wire):
    body = BODY.ljust(200_000)
    whole = request(body, b"nothing")
    wire.sendall(whole[:500])
    assert answer(wire)[0] == 404
    wire.sendall(whole[500:] + request())
    assert answer(wire)[0] == 200


def test_a_token_is_asked_for_before_the_path_is_looked_at(tmp_path):
    tokens = Tokens("learn-0123456789", "read-0123456789a")
    with serving(tmp_path / "models", tokens=tokens) as (client, _):
        read = {"Authorization": f"Bearer {tokens.read}"}
        for method, path, without, with_read in (
            ("GET", "/nothing", 401, 404), ("POST", "/nothing", 401, 403), ("PATCH", "/models", 401, 403),
            ("GET", "/healthz", 200, 200), ("GET", "/metrics", 401, 200),
        ):  # fmt: skip
            assert client.request(method, path).status_code == without
            assert client.request(method, path, headers=read).status_code == with_read
        counts = client.get("/metrics", headers=read).text
        assert 'giftrl_requests_total{endpoint="other",status="401"} 4' in counts


def test_a_closed_event_stream_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("giftrl.service.http.MAX_LISTENERS", 1)
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        for _ in range(3):
            with client.stream("GET", "/models/m/events") as events:
                assert next(events.iter_lines()).startswith("data: ")
                assert client.get("/models/m/events").status_code == 429
            time.sleep(0.6)


def test_answers_of_one_commit_call_the_loop_once_and_late_ones_are_dropped(monkeypatch):
    async def ask():
        loop, calls = asyncio.get_running_loop(), []
        jobs = [Job("learn", answer=loop.create_future()) for _ in range(100)] + [Job("learn")]
        jobs[0].answer.set_exception(TimeoutError())
        original = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *what: (calls.append(what), original(*what)))
        thread = threading.Thread(target=deliver, args=(jobs, [*range(99), ValueError("no"), 7]))
        thread.start()
        thread.join()
        answers = await asyncio.gather(*(job.answer for job in jobs[:100]), return_exceptions=True)
        assert [str(each) for each in answers] == ["", *map(str, range(1, 99)), "no"]
        assert len(calls) == 1 and jobs[100].answer.result() == 7
        return jobs

    deliver(asyncio.run(ask())[:1], [1])  # the loop has ended


def test_a_job_that_was_given_up_is_not_carried_out(tmp_path):
    folder = Folder(tmp_path / "models", Limits())
    folder.create("m", QUICK)
    writer = folder.get("m")
    late, job = Job("note", facts={"x": "late"}), Job("note", facts={"y": "1"})
    late.answer.set_exception(TimeoutError())
    writer.submit(late)
    writer.submit(job).answer.result(60)
    assert (writer.recorded("x"), writer.recorded("y")) == (None, "1")
    folder.close()
