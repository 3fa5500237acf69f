"""What the page says about operating the service is true: units, containers, upgrades."""

import contextlib
import logging
import os
import platform
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import httpx
import orjson
import pytest

from giftrl.service.server import WarmUp, compile_loops
from giftrl.service.store import VERSION
from tests.commands import GIFTRL, environment
from tests.serving import QUICK, process, quick_settings, rows, serving, trained, until

pytestmark = pytest.mark.plain
PAGE = Path(__file__).parents[1] / "docs" / "service.md"
#: The tables of the first version.
FIRST = """
CREATE TABLE entries (number INTEGER PRIMARY KEY AUTOINCREMENT, format TEXT, skip INTEGER, data BLOB) STRICT;
CREATE TABLE answers (key TEXT PRIMARY KEY, digest BLOB, answer BLOB, expires REAL) STRICT;
CREATE INDEX answers_expire ON answers (expires);
CREATE TABLE remembered (id TEXT PRIMARY KEY, row BLOB, expires REAL) STRICT;
CREATE INDEX remembered_expire ON remembered (expires);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) STRICT;
"""


def block(start):
    """The block of the page that begins with a line."""
    (found,) = re.findall(rf"```\n({re.escape(start)}.*?)```", PAGE.read_text(), re.DOTALL)
    return found


def command_of(words, tmp_path):
    """A command of the page with paths of this machine, which answers for a moment."""
    tokens = tmp_path / "tokens"
    tokens.write_text("learn 0123456789abcdef\n")
    places = {"/opt/giftrl/bin/giftrl": GIFTRL, "giftrl": GIFTRL, "%d/tokens": str(tokens),
              "/run/secrets/giftrl": str(tokens), "/var/lib/giftrl": str(tmp_path / "models"),
              "/models": str(tmp_path / "models")}  # fmt: skip
    return [places.get(word, word) for word in words] + ["--port", "0", "--end-after", "60"]


def check_serves(command):
    """Run a command until it answers; SIGTERM must end it in order."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as running:
        try:
            port = re.search(r":(\d+)/", running.stderr.readline())[1]
            assert httpx.get(f"http://127.0.0.1:{port}/healthz").json() == {"status": "ok"}
            headers = {"Authorization": "Bearer 0123456789abcdef"}
            assert httpx.get(f"http://127.0.0.1:{port}/models", headers=headers).json() == {"models": []}
            assert httpx.get(f"http://127.0.0.1:{port}/models").status_code == 401
            running.send_signal(signal.SIGTERM)
            assert "ended" in running.stderr.read() and running.wait(30) == 0
        finally:
            running.kill()


def test_the_unit_for_systemd_runs(tmp_path):
    (words,) = re.findall("^ExecStart=(.*)$", block("[Unit]"), re.MULTILINE)
    check_serves(command_of(shlex.split(words), tmp_path))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_for_systemd_is_sound(tmp_path):
    unit = tmp_path / "giftrl.service"
    unit.write_text(block("[Unit]").replace("/opt/giftrl/bin/giftrl", GIFTRL))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if "giftrl" in line]
    assert done.returncode == 0 and not ours, done.stderr


def test_the_command_of_the_container_runs(tmp_path):
    (words,) = re.findall(r"^CMD (.*)$", block("FROM"), re.MULTILINE)
    check_serves(command_of(orjson.loads(words), tmp_path))


def test_a_folder_of_the_first_version_opens_and_goes_on(tmp_path):
    lines = rows(20)
    (tmp_path / "models" / "m").mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(tmp_path / "models" / "m" / "log.db")) as old:
        old.executescript(FIRST)
        old.execute("INSERT INTO facts VALUES ('settings', ?)", (orjson.dumps(QUICK).decode(),))
        for line in lines[:10]:
            old.execute("INSERT INTO entries (format, skip, data) VALUES ('json', 0, ?)", (line,))
        old.commit()
    for part in (lines[10:15], lines[15:]):
        with serving(tmp_path / "models", log=300) as (client, _):
            for line in part:
                client.post("/models/m/learn", content=line).raise_for_status()
            file = client.get("/models/m/file").content
    assert file == trained(tmp_path, lines, quick_settings())


def test_a_folder_of_a_later_version_is_refused_and_left_alone(tmp_path, caplog):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK)
    log = tmp_path / "models" / "m" / "log.db"
    with contextlib.closing(sqlite3.connect(log)) as later:
        later.execute(f"PRAGMA user_version={VERSION + 1}")
    before = log.read_bytes()
    with serving(tmp_path / "models") as (client, _), caplog.at_level(logging.ERROR, "giftrl.service"):
        assert client.post("/models/m/learn", content=rows(1)[0]).status_code == 503
    assert "later version" in caplog.text and log.read_bytes() == before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries give memory back or not, as they do")
def test_models_that_are_closed_give_their_memory_back(tmp_path):
    """Eight models of 30 MB each, of which glibc would keep 160 MB."""

    def memory():
        return int(Path(f"/proc/{running.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with process(tmp_path / "models") as (running, address), httpx.Client(base_url=address, timeout=60) as client:
        client.put("/models/small", json=QUICK)
        client.post("/models/small/learn", content=rows(1)[0]).raise_for_status()
        for _ in range(1200):
            if client.get("/readyz").status_code == 200:
                break
            time.sleep(0.1)
        before = memory()
        for turn in range(2):  # glibc keeps more from the second turn on
            for k in range(8):
                client.put(f"/models/m{k}", json={"loss": "squared", "bits": 18})
                client.post(f"/models/m{k}/learn", content=rows(1)[0]).raise_for_status()
            if turn:
                assert memory() - before > 100 << 20
            for k in range(8):
                client.delete(f"/models/m{k}?confirm=m{k}").raise_for_status()
        assert memory() - before < 80 << 20  # one may still be waiting for the collector


def test_loops_are_compiled_before_they_are_needed_and_readyz_says_when(tmp_path, monkeypatch):
    with process(tmp_path / "models") as (_, address), httpx.Client(base_url=address, timeout=60) as client:
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/readyz").json() == {"status": "ready"}
    hold, warm_up = threading.Event(), WarmUp()

    def failing(given):
        hold.wait(20)
        raise RuntimeError  # which is no reason to wait

    monkeypatch.setattr("giftrl.service.server.compile_loops", failing)
    with serving(tmp_path / "others", warm_up=warm_up) as (client, _):
        warm_up.ask({"loss": "squared"})
        warm_up.start()
        said = client.get("/readyz")
        assert said.status_code == 503 and said.headers["retry-after"] == "1"
        hold.set()
        until(lambda: client.get("/readyz").status_code == 200)


@pytest.mark.parametrize(
    "given", [{}, QUICK, {"loss": "poisson"}, {"labels": ["a", "b", "c"]}, {"loss": "hinge"}, {"dictionary": True}]
)
def test_any_settings_can_be_warmed_up(given):
    compile_loops(given)


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
