"""Followed sources: which are accepted, and what is learned of them."""

import os
import random
import signal
import subprocess
import threading
import time

import httpx
import pytest

from giftrl.errors import InvalidInput, Refused
from giftrl.service import follow
from giftrl.service.folder import Folder
from giftrl.service.follow import Follower, followable, parse_follow
from giftrl.service.request_limits import Limits
from giftrl.service.writer import Writer
from tests.commands import GIFTRL, environment
from tests.serving import QUICK, following, process, quick_settings, rows, serving, trained, until

pytestmark = pytest.mark.plain

#: Files that cannot be followed.
STRANGE = {
    "rows.csv": b"label,age\n1,33\n0,8\n",
    "rows.json": '{"label": 1}\n'.encode("utf-16"),
    "rows.txt": b"no known format\n",
    "rows.parquet": b"PAR1\n\0\0\n",
}


def until_learned(client, examples, name="m"):
    def found():
        count = client.get(f"/models/{name}").json()["examples"]
        assert count <= examples
        return count == examples

    until(found)


def test_a_file_that_grows_and_is_replaced(tmp_path):
    lines, log = rows(60), tmp_path / "log.json"
    with process(tmp_path / "models", "--follow", f"m={log}") as (_, address), httpx.Client(base_url=address) as client:
        client.delete("/models/m?confirm=m")
        client.put("/models/m", json=QUICK).raise_for_status()
        log.write_bytes(b"".join(lines[:20]) + lines[20][:5])
        until_learned(client, 20)
        with log.open("ab") as file:
            file.write(lines[20][5:])
        until_learned(client, 21)
        with log.open("ab") as file:
            file.write(b"no row\n" + b"".join(lines[21:40]))
        until_learned(client, 40)
        log.rename(tmp_path / "log.json.1")
        log.write_bytes(b"".join(lines[40:]))
        until_learned(client, 60)
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
        until_learned(client, 300)
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
    log = tmp_path / "log"
    followers = [Follower(folder, "m", str(log))]

    def look(anew=False):
        if anew:
            followers[-1]._release()
            followers.append(Follower(folder, "m", str(log)))
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


@pytest.fixture
def piped(tmp_path, monkeypatch):
    """What a follower of standard input learns of some bytes: the folder, and the sizes of the pieces."""
    folder, held = Folder(tmp_path / "models", Limits()), []
    folder.create("m", QUICK)

    def learn(data):
        (tmp_path / "input").write_bytes(data)
        with (tmp_path / "input").open() as file:
            monkeypatch.setattr("sys.stdin", file)
            follower = Follower(folder, "m", "-")
            learn = follower._learn
            monkeypatch.setattr(follower, "_learn", lambda data, *more: held.append(len(data)) or learn(data, *more))
            follower.run()
        return folder, held

    yield learn
    folder.close()


def test_standard_input_without_the_end_of_a_line_takes_little_memory(piped, monkeypatch, caplog):
    monkeypatch.setattr("giftrl.service.follow.MAX_LINE", 3 << 20)
    lines = rows(20)
    folder, held = piped(b"".join(lines[:10]) + (9 << 20) * b"x" + b"\n" + b"".join(lines[10:]))
    assert folder.get("m").model.examples == 20 and max(held) < 2 << 20
    assert sum("longer than" in record.message for record in caplog.records) == 1


def test_standard_input_of_no_known_format_is_said(piped):
    folder, _ = piped(b"no known format\n")
    followed = folder.followed["m"]
    assert followed.errors == 1 and "format" in followed.problem
    assert "format" in folder.get("m").stats.rejected[-1]["problem"]


def test_a_file_that_is_cut_off_within_a_long_line_is_read_anew(followed):
    log, look = followed
    for seed, beginning in enumerate((b"x" * 50, b"x" * (3 << 20))):
        log.write_bytes(beginning)
        before = look()
        log.write_bytes(b"".join(rows(3, seed)) + b"{")
        assert look() == before + 3
        log.write_bytes(b"")
        look()


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


@pytest.mark.parametrize("name", STRANGE)
def test_a_file_whose_format_cannot_be_followed_is_refused_by_name_at_the_start(name, tmp_path):
    (tmp_path / name).write_bytes(STRANGE[name])
    with pytest.raises(InvalidInput, match=name):
        followable([f"m={tmp_path / name}"])


@pytest.mark.parametrize("name", ["rows.txt", "rows.csv"])
def test_a_file_that_shows_no_format_yet_may_be_followed(name, tmp_path):
    (tmp_path / name).write_bytes(b"# rows of today\n\n{")
    (tmp_path / "there.txt").write_bytes(b"".join(rows(2)))
    assert followable([f"m={tmp_path / name}", f"m={tmp_path / 'there.txt'}", f"m={tmp_path / 'later.txt'}"])


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("inbox", [False, True])
def test_what_cannot_be_followed_is_said_and_not_passed_over(name, inbox, tmp_path):
    source = tmp_path / "inbox" if inbox else tmp_path / name
    strange = source / name if inbox else source
    (tmp_path / "inbox").mkdir()
    with following(tmp_path / "models", source, QUICK) as folder:
        strange.write_bytes(STRANGE[name])
        followed = folder.followed["m"]
        until(lambda: followed.problem is not None)
        assert followed.errors > 0 and name in followed.problem
        if inbox:
            (source / "z.json").write_bytes(b"".join(rows(5)))
            until(lambda: folder.get("m").model.examples == 5)
        mended = b"".join(rows(7, seed=1))
        strange.unlink()
        (strange.parent / "mended.json" if inbox else strange).write_bytes(mended if name != "rows.parquet" else b"")
        until(lambda: followed.problem is None)


def test_rows_that_a_model_refuses_as_a_whole_are_learnt_once_it_takes_them(tmp_path):
    """Without settings, no loss can be chosen for so many labels; with them, it can."""
    log = tmp_path / "log.json"
    log.write_bytes(b"".join(b'{"label": "t%d", "a": 1}\n' % k for k in range(120)))
    with following(tmp_path / "models", log) as folder:
        until(lambda: folder.followed["m"].problem is not None)
        assert "labels" in folder.followed["m"].problem
        folder.delete("m")
        folder.create("m", {"labels": [f"t{k}" for k in range(120)], "bits": 4, "beta": 1.0})
        until(lambda: folder.get("m").model.examples == 120)
        until(lambda: folder.followed["m"].problem is None)


def test_comments_and_empty_lines_are_no_failure_and_show_no_format(followed):
    log, look = followed
    for more, examples in ((b"\n# rows\n", 0), (b"1 3:0.5\n", 1), (b"# more\n", 1), (b"0 3:0.25\n", 2)):
        with log.open("ab") as file:
            file.write(more)
        assert look() == examples and look.folder.followed["m"].errors == 0


def test_a_source_that_is_given_twice_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(b"".join(rows(2)))
    (tmp_path / "b.jsonl").hardlink_to(tmp_path / "a.jsonl")
    (tmp_path / "inbox").mkdir()
    for second in ("a.jsonl", "a=./a.jsonl", f"a={tmp_path}/inbox/../a.jsonl", "a=b.jsonl", f"a={tmp_path}"):
        with pytest.raises(InvalidInput, match=second):
            followable(["a.jsonl", second])
    for given in (["c.jsonl", "c=./c.jsonl"], ["m=inbox", "m=inbox/later.jsonl"]):
        with pytest.raises(InvalidInput, match="learned twice"):
            followable(given)
    with pytest.raises(InvalidInput, match="y=-"):
        followable(["x=-", "y=-"])
    assert followable(["a.jsonl", "other=a.jsonl", "a=inbox", "b=-"])[1] == ("other", "a.jsonl")


@pytest.mark.parametrize("given", ["x=", "=", "-", "../=a"])
def test_what_names_no_source_is_said_before_the_service_starts(given, tmp_path):
    command = [GIFTRL, "serve", tmp_path / "models", "--port", "0", "--end-after", "0.1", "--follow", given]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 1 and repr(given)[1:-1] in done.stderr and "ended" not in done.stderr, done.stderr
    assert not (tmp_path / "models").exists()
