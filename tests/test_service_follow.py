"""Learning from files that grow, while the service runs."""

import os
import random
import signal
import subprocess
import time

import httpx
import pytest

from giftrl.errors import InvalidInput, Refused
from giftrl.service import follow
from giftrl.service.folder import Folder
from giftrl.service.follow import Follower, parse_follow
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
        parse_follow("-")


@pytest.fixture
def followed(tmp_path):
    """A file that grows; how to look at it once, as a follower that begins anew or goes on; and the model."""
    folder = Folder(tmp_path / "models", Limits())
    folder.create("m", QUICK)
    log = tmp_path / "log.json"
    followers = [Follower(folder, "m", str(log))]

    def look(anew=False):
        if anew:
            followers[-1]._release()
            followers.append(Follower(folder, "m", str(log)))
            followers[-1]._restore()
        while any(followers[-1]._read(path) for path in followers[-1]._files()):
            pass
        return folder.get("m").model.examples

    look.folder = folder
    yield log, look
    followers[-1]._release()
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


def test_a_model_that_is_made_again_learns_its_source_from_the_beginning(followed):
    log, look = followed
    lines = rows(40)
    log.write_bytes(b"".join(lines[:20]))
    assert look() == 20
    look.folder.delete("m")
    with pytest.raises(Refused, match="no model"):
        look()
    look.folder.create("m", QUICK)
    assert look() == 20
    with log.open("ab") as file:
        file.write(b"".join(lines[20:]))
    assert look() == 40
    assert look(anew=True) == 40


def test_rows_that_were_read_for_a_model_are_not_learnt_by_the_next_one_of_its_name(followed, monkeypatch):
    """The model is deleted and made again between reading a file and learning from it."""
    log, look = followed
    log.write_bytes(b"".join(rows(20)))
    assert look() == 20
    with log.open("ab") as file:
        file.write(b"".join(rows(30)[20:]))
    learn = Follower._learn

    def late(self, *args):
        monkeypatch.setattr(Follower, "_learn", learn)
        self._folder.delete("m")
        self._folder.create("m", QUICK)
        return learn(self, *args)

    monkeypatch.setattr(Follower, "_learn", late)
    look()
    assert look() == 30


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_that_is_too_long_is_passed_over_in_little_memory(followed, monkeypatch, caplog, end):
    monkeypatch.setattr("giftrl.service.follow.MAX_LINE", 3 << 20)
    log, look = followed
    lines, held = rows(40), []
    whole = follow.whole_lines
    monkeypatch.setattr(follow, "whole_lines", lambda *args: held.append(whole(*args)) or held[-1])
    log.write_bytes(b"".join(lines[:10]))
    assert look() == 10
    with log.open("ab") as file:  # comes bit by bit, and is as long as no line may be
        for piece in (b'{"a": "', (2 << 20) * b"x", (2 << 20) * b"x", (2 << 20) * b"x", end):
            file.write(piece)
            file.flush()
            assert look() == 10
    assert sum(map(len, held)) < 1 << 20
    assert look(anew=True) == 10
    with log.open("ab") as file:
        file.write(b"x\n" + b"".join(lines[10:30]))
    # The rest of the line, if it had not ended, is no row, and what comes behind it is learnt.
    assert look() == 30
    assert look(anew=True) == 30
    said = [record.message for record in caplog.records if "longer than" in record.message]
    assert len(said) == 1 and str(log) in said[0] and str(3 << 20) in said[0]
    told = look.folder.get("m").stats.rejected
    assert any("longer than" in each["problem"] for each in told)


def test_a_line_of_the_longest_length_is_learnt(followed, monkeypatch):
    monkeypatch.setattr("giftrl.service.follow.MAX_LINE", 3 << 20)
    log, look = followed
    row = b'{"label": 1, "a": 2, "b": "%b"}\n'
    log.write_bytes(row % (b"x" * ((3 << 20) - len(row) + 2)))
    assert log.stat().st_size == 3 << 20
    assert look() == 1


def test_standard_input_without_the_end_of_a_line_takes_little_memory(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("giftrl.service.follow.MAX_LINE", 3 << 20)
    folder = Folder(tmp_path / "models", Limits())
    folder.create("m", QUICK)
    lines = rows(20)
    (tmp_path / "input").write_bytes(b"".join(lines[:10]) + (9 << 20) * b"x" + b"\n" + b"".join(lines[10:]))
    with (tmp_path / "input").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        follower, held = Follower(folder, "m", "-"), []
        learn = follower._learn
        monkeypatch.setattr(follower, "_learn", lambda data, *more: held.append(len(data)) or learn(data, *more))
        follower.run()
    assert folder.get("m").model.examples == 20 and max(held) < 2 << 20
    assert sum("longer than" in record.message for record in caplog.records) == 1
    folder.close()


def test_a_file_that_is_cut_off_within_a_long_line_is_read_anew(followed):
    log, look = followed
    for seed, beginning in enumerate((b"x" * 50, b"x" * (3 << 20))):
        log.write_bytes(beginning)
        before = look()
        log.write_bytes(b"".join(rows(3, seed)) + b"{")
        assert look() == before + 3
        log.write_bytes(b"")
        look()
