"""Clients that are slow, and clocks that jump."""

import socket
import time

import pytest

from tests.serving import QUICK, rows, serving

pytestmark = pytest.mark.plain

HEAD = b"POST /models/m/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"


def wire_to(client):
    return socket.create_connection(("127.0.0.1", client.base_url.port), timeout=20)


def said_by(wire):
    """Everything that is sent until the connection ends."""
    said = b""
    while piece := wire.recv(1 << 16):
        said += piece
    return said


@pytest.mark.parametrize("sent", [b"", b"POST /models/m/le", HEAD, HEAD + b"Content-Length: 5\r\n"])
def test_a_head_that_comes_too_slowly_ends_the_connection(sent, tmp_path):
    with serving(tmp_path / "models", seconds=0.5) as (client, _), wire_to(client) as wire:
        wire.sendall(sent)
        assert said_by(wire).startswith(b"HTTP/1.1 408 ")


def test_the_second_head_of_a_connection_is_limited_too(tmp_path):
    with serving(tmp_path / "models", seconds=0.5) as (client, _), wire_to(client) as wire:
        wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert wire.recv(1 << 16).endswith(b'{"status":"ok"}')
        wire.sendall(b"GET /heal")
        assert said_by(wire).startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_waits_between_requests_stays_open(tmp_path):
    with serving(tmp_path / "models", seconds=0.3) as (client, _), wire_to(client) as wire:
        for _ in range(3):
            wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert wire.recv(1 << 16).endswith(b'{"status":"ok"}')
            time.sleep(0.6)


@pytest.mark.parametrize("sent", [b'{"lab', b""])
def test_a_body_that_comes_too_slowly_is_408_and_nothing_is_learnt(sent, tmp_path):
    with serving(tmp_path / "models", seconds=0.5) as (client, _), wire_to(client) as wire:
        client.put("/models/m", json=QUICK)
        client.post("/models/m/learn", content=rows(1)[0]).raise_for_status()
        wire.sendall(HEAD + b"Content-Length: 100\r\nConnection: close\r\n\r\n" + sent)
        assert said_by(wire).startswith(b"HTTP/1.1 408 ")
        assert client.get("/models/m").json()["examples"] == 1


def test_a_body_that_is_cut_off_is_not_learnt(tmp_path):
    line = rows(1)[0]
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        for size in range(0, len(line), 9):
            with wire_to(client) as wire:
                wire.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(line) + line[:size])
        client.post("/models/m/learn", content=line).raise_for_status()
        assert client.get("/models/m").json()["examples"] == 1


def test_a_body_in_many_pieces_is_one_body(tmp_path):
    line = rows(1)[0]
    with serving(tmp_path / "models") as (client, _), wire_to(client) as wire:
        client.put("/models/m", json=QUICK)
        wire.sendall(HEAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(line))
        for byte in line:
            wire.sendall(bytes([byte]))
            time.sleep(0.002)
        assert said_by(wire).startswith(b"HTTP/1.1 200 ")


def test_an_answer_to_head_and_an_answer_without_a_body_are_sent(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        assert client.head("/healthz").status_code == 200
        assert client.get("/models/none").status_code == 404
