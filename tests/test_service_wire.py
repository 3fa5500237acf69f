"""Answers as they go over the wire, in one piece where they are of the usual kind."""

import json
import socket

import pytest

from giftrl.service import connection
from giftrl.service.connection import Together, sent_whole
from tests.serving import QUICK, rows, serving

pytestmark = pytest.mark.plain

BODY = b'{"a": 1.5, "b": -2}'
HEAD = b"POST /models/m/%b HTTP/%b\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n%b\r\n"


def request(body=BODY, way=b"predict", version=b"1.1", more=b""):
    return HEAD % (way, version, len(body), more) + body


@pytest.fixture
def wire(tmp_path):
    """A connection to a service with a model."""
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        client.post("/models/m/learn", content=b"".join(rows(10))).raise_for_status()
        for _ in range(2):  # from then on, answers come at once
            client.post("/models/m/predict", content=BODY).raise_for_status()
        with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as found:
            yield found


def answer(wire):
    """The status line, the headers and the body of the next answer."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += wire.recv(1)
    first, *lines = said.decode().strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = b""
    while len(body) < int(headers["content-length"]):
        body += wire.recv(1)
    return first, headers, body


@pytest.fixture
def counted(monkeypatch):
    """How many answers were sent at once."""
    count = []

    def counting(cycle, said):
        sent = sent_whole(cycle, said)
        count.append(sent)
        return sent

    monkeypatch.setattr(connection, "sent_whole", counting)
    return count


def test_both_ways_say_the_same(wire, counted):
    wire.sendall(request())
    short = answer(wire)
    assert counted == [True]
    wire.sendall(request(way=b"predict?label=1"))
    long = answer(wire)
    assert counted == [True] and short[0] == long[0] == "HTTP/1.1 200 OK" and short[2] == long[2]
    assert set(short[1]) == set(long[1]) == {"date", "content-type", "content-length"}
    assert all(short[1][name] == long[1][name] for name in ("content-type", "content-length"))


@pytest.mark.parametrize("size", [len(BODY), 1 << 15])
def test_the_short_way_takes_no_body_that_the_other_refuses(wire, counted, size):
    """A content encoding is refused however short the body is, and whatever it holds."""
    wire.sendall(request(BODY.ljust(size), more=b"Content-Encoding: gzip\r\n"))
    first, _, body = answer(wire)
    assert first.split()[1] == "415" and b"gzip" in body and not any(counted)


def test_requests_that_are_sent_before_the_answer_are_answered_in_order(wire, counted):
    wanted = []
    for k in range(5):
        line = json.loads(rows(5)[k])
        wire.sendall(request(json.dumps(line).encode(), b"learn"))
        wanted.append(answer(wire)[2])
    assert [json.loads(each)["examples"] for each in wanted] == [11, 12, 13, 14, 15]
    wire.sendall(request(rows(1)[0], b"learn") + request() + request(rows(1)[0], b"learn") + request())
    found = [json.loads(answer(wire)[2])["examples"] for _ in range(4)]
    assert found == [16, 16, 17, 17] and counted == 9 * [True]


@pytest.mark.parametrize(("version", "more"), [(b"1.1", b"Connection: close\r\n"), (b"1.0", b"")])
def test_a_connection_that_shall_end_ends(wire, counted, version, more):
    wire.sendall(request(version=version, more=more))
    _, headers, body = answer(wire)
    assert headers["connection"] == "close" and json.loads(body)["examples"] == 10
    assert wire.recv(1) == b"" and counted == [True]


def test_a_client_that_is_gone_or_does_not_read_is_sent_nothing_at_once():
    class Flow:
        write_paused = False

    class Cycle:
        flow, disconnected, response_started = Flow(), False, False

    for what, name in ((Cycle, "disconnected"), (Cycle, "response_started"), (Flow, "write_paused")):
        setattr(what, name, True)
        assert not sent_whole(Cycle(), b"{}")
        setattr(what, name, False)


def test_a_head_leaves_with_its_body_and_a_whole_answer_by_itself():
    class Transport:
        written, closed = (), False

        def write(self, data):
            self.written += (data,)

        def is_closing(self):
            return self.closed

        def close(self):
            self.closed = True

    head, body = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", b"{}"
    together, under = (lambda under: (Together(under), under))(Transport())
    together.write(head)
    assert under.written == ()
    together.write(body)
    together.write(head + body)
    assert under.written == (head + body, head + body)
    together.write(head)
    together.close()
    assert under.written[2:] == (head,) and under.closed
