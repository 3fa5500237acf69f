"""Learning from files that grow, while the service runs."""

import os
import random
import signal
import subprocess
import time

import httpx
import pytest

from giftrl.errors import InvalidInput
from giftrl.service.folder import Folder
from giftrl.service.follow import Follower, parse
from giftrl.service.limits import Limits
from tests.commands import GIFTRL, environment
from tests.serving import QUICK, process, quick_settings, rows, trained

pytestmark = pytest.mark.plain


def until(client, examples, name="m", seconds=60.0):
    end = time.monotonic() + seconds
    while (found := client.get(f"/models/{name}").json()["examples"]) != examples:
        assert found < examples and time.monotonic() < end, (found, examples)
        time.sleep(0.05)


def test_a_file_that_grows_and_is_replaced(tmp_path):
    lines, log = rows(60), tmp_path / "log.json"
    with process(tmp_path / "models", "--follow", f"m={log}") as (_, address), httpx.Client(base_url=address) as client:
        client.delete("/models/m?confirm=m")
        client.put("/models/m", json=QUICK).raise_for_status()
        log.write_bytes(b"".join(lines[:20]) + lines[20][:5])
        until(client, 20)
        with log.open("ab") as file:
            file.write(lines[20][5:])
        until(client, 21)
        with log.open("ab") as file:
            file.write(b"no row\n" + b"".join(lines[21:40]))
        until(client, 40)
        log.rename(tmp_path / "log.json.1")
        log.write_bytes(b"".join(lines[40:]))
        until(client, 60)
        wanted = trained(tmp_path, [*lines[:21], b"no row\n", *lines[21:]], quick_settings(), on_error="skip")
        assert client.get("/models/m/file").content == wanted


def test_kills_neither_skip_nor_repeat_rows_of_files_that_arrive(tmp_path):
    lines, inbox, chosen = rows(300), tmp_path / "inbox", random.Random(0)
    inbox.mkdir()
    with process(tmp_path / "models") as (_, address), httpx.Client(base_url=address) as client:
        client.put("/models/m", json=QUICK).raise_for_status()
    for k in range(6):
        part = tmp_path / "part"
        part.write_bytes(b"".join(lines[50 * k : 50 * k + 50]))
        part.rename(inbox / f"{k}.json")
        with process(tmp_path / "models", "--follow", f"m={inbox}") as (running, _):
            time.sleep(chosen.random() * 0.4)
            running.send_signal(signal.SIGKILL)
            running.wait()
    follow = "--follow", f"m={inbox}"
    with process(tmp_path / "models", *follow) as (_, address), httpx.Client(base_url=address, timeout=60) as client:
        until(client, 300)
        assert client.get("/models/m/file").content == trained(tmp_path, lines, quick_settings())


def test_standard_input(tmp_path):
    command = [GIFTRL, "serve", str(tmp_path / "models"), "--port", "0", "--follow", "m=-", "--end-after", "3"]
    done = subprocess.run(command, input=b"".join(rows(30)), env=environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    with process(tmp_path / "models") as (_, address), httpx.Client(base_url=address, timeout=60) as client:
        assert client.get("/models/m").json()["examples"] == 30


def test_a_source_without_a_name_for_its_model_is_an_error():
    with pytest.raises(InvalidInput, match="NAME=SOURCE"):
        parse("-")


@pytest.fixture
def followed(tmp_path):
    """A file that grows; how to look at it once, as a follower that begins anew or goes on; and the model."""
    folder = Folder(tmp_path / "models", Limits())
    folder.create("m", QUICK)
    log = tmp_path / "log.json"
    followers = [Follower(folder, "m", str(log))]

    def look(anew=False):
        if anew:
            followers[-1]._let_go()
            followers.append(Follower(folder, "m", str(log)))
            followers[-1]._recall()
        while any(followers[-1]._read(path) for path in followers[-1]._files()):
            pass
        return folder.get("m").live.examples

    yield log, look
    followers[-1]._let_go()
    folder.close()


@pytest.mark.skipif(os.name != "posix", reason="nobody renames an open file on Windows")
def test_a_file_is_read_to_its_end_after_it_was_renamed(followed):
    log, look = followed
    lines = rows(60)
    log.write_bytes(b"".join(lines[:20]))
    assert look() == 20
    with log.open("ab") as old:
        old.write(b"".join(lines[20:30]))
        old.flush()
        log.rename(log.with_suffix(".1"))
        assert look() == 30
        old.write(b"".join(lines[30:35]))
        old.flush()
        log.write_bytes(b"".join(lines[35:50]))
        assert look() == 50
    log.with_suffix(".1").unlink()
    assert look() == 50
    assert look(anew=True) == 50


def test_a_file_that_was_written_anew_is_another_one(followed):
    log, look = followed
    lines = rows(60)
    log.write_bytes(b"".join(lines[:20]))
    assert look() == 20
    inode = log.stat().st_ino
    log.write_bytes(b"".join(lines[20:50]))  # longer than it was, and with the same number
    assert log.stat().st_ino == inode and look() == 50
    log.write_bytes(b"".join(lines[:30]))
    assert look(anew=True) == 80
    assert look(anew=True) == 80
