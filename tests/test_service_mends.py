"""What was once wrong with the service, each shown by a request."""

import contextlib
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from giftrl import system
from giftrl.errors import InvalidInput
from giftrl.service.app import WarmUp, compile_loops
from giftrl.service.folder import Folder
from giftrl.service.follow import Follower, followable
from giftrl.service.http import openapi
from giftrl.service.limits import Limits
from giftrl.service.writer import Writer
from tests.serving import QUICK, process, quick_settings, rows, serving, trained
from tests.test_streams_arrow import lying_streams

pytestmark = pytest.mark.plain
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}


def arrow(**columns):
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("given", [QUICK, {}])
def test_a_model_that_has_learnt_json_takes_tables_too(given, tmp_path):
    table = arrow(label=[1, 0, 1], a=[1.0, 2.5, None], city=["Rome", None, "Oslo"])
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
        said = client.post("/models/m/learn", content=arrow(label=[1], b=[b"\xff"]), headers=ARROW)
        assert said.status_code == 422 and "JSON lines" in said.json()["error"]["remedy"]


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
        said = client.post("/models/m/learn", content=arrow(label=[1], v=nothing), headers=ARROW)
        assert said.status_code == 413 and "too large in memory" in said.json()["error"]["problem"]


def test_the_events_of_a_model_end_when_it_is_deleted(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        with httpx.stream("GET", f"{client.base_url}/models/m/events", timeout=20) as events:
            lines = events.iter_lines()
            assert next(lines).startswith("data: ")
            client.delete("/models/m?confirm=m").raise_for_status()
            assert [line for line in lines if line][-2:] == ["event: deleted", "data: {}"]


@pytest.mark.parametrize(
    "wrong", [{"constant": "x"}, {"constant": 1}, {"constant": None}, {"dictionary": "no"}, {"interactions": {}},
              {"ngrams": {}}, {"weight": []}, {"dtype": None}],
)  # fmt: skip
def test_settings_of_the_wrong_type_are_refused(wrong, tmp_path):
    with serving(tmp_path / "models") as (client, _):
        said = client.put("/models/m", json={"loss": "squared"} | wrong)
        assert said.status_code == 422 and next(iter(wrong)) in said.json()["error"]["problem"]


def test_the_description_has_every_status_that_is_answered():
    every = openapi()["paths"]["/models/{name}/learn"]["post"]["responses"]
    assert {"500", "503", "504", "507"} <= set(every)


def test_the_names_of_new_folders_are_synced(tmp_path, monkeypatch):
    flushed, flush = [], system.sync_folder
    monkeypatch.setattr(system, "sync_folder", lambda path: (flushed.append(path), flush(path)))
    Folder(tmp_path / "a" / "b" / "models", Limits()).close()
    assert flushed == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    Folder(tmp_path / "a" / "b" / "models", Limits()).close()
    assert len(flushed) == 3


def test_a_follower_that_meets_any_error_says_so_and_goes_on(tmp_path, monkeypatch):
    (tmp_path / "rows.json").write_bytes(b"".join(rows(20)))
    submit, broken = Writer.submit, threading.Event()
    broken.set()

    def failing(self, job, **more):
        if broken.is_set() and job.kind == "learn":
            raise RuntimeError("no thread is left")
        return submit(self, job, **more)

    monkeypatch.setattr(Writer, "submit", failing)
    with serving(tmp_path / "models") as (client, folder):
        folder.create("m", QUICK)
        follower = Follower(folder, "m", str(tmp_path / "rows.json"))
        follower.start()
        try:
            until(lambda: 'giftrl_follow_failing{model="m"} 1' in client.get("/metrics").text)
            followed = client.get("/models/m").json()["followed"]
            assert followed["problem"] == "RuntimeError" and followed["errors"] >= 1
            broken.clear()
            until(lambda: client.get("/models/m").json()["examples"] == 20)
            until(lambda: client.get("/models/m").json()["followed"]["problem"] is None)
        finally:
            follower.end()
            follower.join(10)


def until(done):
    for _ in range(200):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("not within ten seconds")


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


def test_loops_are_compiled_before_they_are_needed_and_readyz_says_when(tmp_path, monkeypatch):
    with process(tmp_path / "models") as (_, address), httpx.Client(base_url=address, timeout=60) as client:
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/readyz").json() == {"status": "ready"}
    hold, warm_up = threading.Event(), WarmUp()
    monkeypatch.setattr("giftrl.service.app.compile_loops", lambda given: hold.wait(20))
    with serving(tmp_path / "others", warm_up=warm_up) as (client, _):
        warm_up.ask({"loss": "squared"})
        said = client.get("/readyz")
        assert said.status_code == 503 and said.headers["retry-after"] == "1"
        hold.set()
        until(lambda: client.get("/readyz").status_code == 200)


@pytest.mark.parametrize(
    "given", [{}, QUICK, {"loss": "poisson"}, {"labels": ["a", "b", "c"]}, {"loss": "hinge"}, {"dictionary": True}]
)
def test_any_settings_can_be_warmed_up(given):
    compile_loops(given)


def test_a_model_whose_loops_cannot_be_compiled_is_no_reason_to_wait(monkeypatch):
    def failing(given):
        raise RuntimeError

    monkeypatch.setattr("giftrl.service.app.compile_loops", failing)
    warm_up = WarmUp()
    warm_up.ask({})
    until(lambda: warm_up.ready)


def test_a_folder_that_is_copied_while_it_learns_has_what_was_acknowledged(tmp_path):
    """The log by SQLite's own way of copying, then the model file, as the page says."""
    lines, copy, acknowledged = rows(400), tmp_path / "copy" / "m", []
    copy.mkdir(parents=True)
    with process(tmp_path / "models", "--log", 5_000) as (_, address):

        def teach():
            with httpx.Client(base_url=address, timeout=60) as client:
                for line in lines:
                    said = client.post("/models/m/learn", content=line).raise_for_status()
                    acknowledged.append(said.json()["examples"])

        httpx.put(f"{address}/models/m", json=QUICK).raise_for_status()
        teaching = threading.Thread(target=teach)
        teaching.start()
        until(lambda: len(acknowledged) > 100)
        before = len(acknowledged)
        with contextlib.closing(sqlite3.connect(tmp_path / "models" / "m" / "log.db")) as log:
            log.execute("VACUUM INTO ?", (str(copy / "log.db"),))
        shutil.copy(tmp_path / "models" / "m" / "model.giftrl", copy)
        after = len(acknowledged)
        teaching.join()
    with serving(tmp_path / "copy") as (client, _):
        count = client.get("/models/m").json()["examples"]
        assert before <= count <= after + 1
        assert client.get("/models/m/file").content == trained(tmp_path, lines[:count], quick_settings())


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting a small disk needs root on Linux")
def test_a_disk_that_is_really_full_is_503_until_there_is_room(tmp_path):
    disk, lines = tmp_path / "disk", rows(12000)
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        (disk / "filler").write_bytes(bytes(500_000))
        learnt, refused, ended = 0, 0, False
        with process(disk / "models") as (running, address), httpx.Client(base_url=address, timeout=60) as client:
            client.put("/models/m", json=QUICK).raise_for_status()
            while learnt < len(lines):
                said = client.post("/models/m/learn", content=b"".join(lines[learnt : learnt + 200]))
                assert said.status_code in (200, 503), said.text
                if said.status_code == 200:
                    learnt += 200
                    continue
                refused += 1
                assert "disk" in said.json()["error"]["problem"]
                assert client.post("/models/m/predict", json={"a": 1}).json()["examples"] == learnt
                if refused == 3:
                    running.kill()
                    ended = True
                    break
        assert ended, "the disk was never full"
        (disk / "filler").unlink()
        with process(disk / "models") as (_, address), httpx.Client(base_url=address, timeout=60) as client:
            assert client.get("/models/m").json()["examples"] == learnt
            client.post("/models/m/learn", content=b"".join(lines[learnt : learnt + 200])).raise_for_status()
            file = client.get("/models/m/file").content
        assert file == trained(tmp_path, lines[: learnt + 200], quick_settings())
    finally:
        subprocess.run(["umount", disk], check=True)


def test_rows_of_json_lines_are_read_alike_by_both_ways(tmp_path):
    """Options take the long way through the router, none the short one."""
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
        client.post("/models/m/learn", content=b"".join(rows(20))).raise_for_status()
        for line in rows(5, 1):
            row = {key: value for key, value in json.loads(line).items() if key != "label"}
            answers = {client.post(f"/models/m/predict{way}", json=row).content for way in ("", "?label=1")}
            assert len(answers) == 1


def test_one_file_that_cannot_be_opened_does_not_stop_a_folder(tmp_path, monkeypatch):
    arriving = tmp_path / "arriving"
    arriving.mkdir()
    (arriving / "a.jsonl").write_bytes(b"".join(rows(5)))
    (arriving / "b.jsonl").write_bytes(b"".join(rows(7)))
    opens = Path.open

    def refused(path, *args, **options):
        if path.name == "a.jsonl":
            raise PermissionError(13, "Permission denied")
        return opens(path, *args, **options)

    monkeypatch.setattr(Path, "open", refused)
    folder = Folder(tmp_path / "models", Limits())
    folder.create("m", QUICK)
    follower = Follower(folder, "m", str(arriving))
    follower.start()
    try:
        until(lambda: folder.get("m").model.examples == 7)
        assert folder.followed["m"].errors > 0 and "Permission" in folder.followed["m"].problem
        monkeypatch.setattr(Path, "open", opens)
        until(lambda: folder.get("m").model.examples == 12)
        until(lambda: folder.followed["m"].problem is None)
    finally:
        follower.end()
        follower.join()
        folder.close()


def test_standard_input_that_is_closed_is_refused_or_noted(tmp_path, monkeypatch):
    folder = Folder(tmp_path / "models", Limits())
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InvalidInput, match="is closed"):
        followable(["m=-"])
    with (tmp_path / "closed").open("w") as file:
        pass
    monkeypatch.setattr("sys.stdin", file)
    follower = Follower(folder, "m", "-")
    follower.run()
    assert folder.followed["m"].errors == 1 and folder.followed["m"].problem
    folder.close()


def test_a_body_that_comes_after_its_refusal_is_no_slow_head(tmp_path):
    with (
        serving(tmp_path / "models", seconds=0.6) as (client, _),
        socket.create_connection((client.base_url.host, client.base_url.port)) as link,
    ):
        link.sendall(b"POST /nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\n12")
        assert b" 404 " in link.recv(4096)
        link.sendall(b"34")
        link.settimeout(1.5)
        with contextlib.suppress(TimeoutError):
            assert b"408" not in link.recv(4096)
