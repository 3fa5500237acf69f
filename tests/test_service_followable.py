"""What can be followed: everything else is refused when the service starts, or said for as long as it fails."""

import subprocess
import time

import httpx
import pytest

from giftrl.errors import InvalidInput
from giftrl.service.folder import Folder
from giftrl.service.follow import Follower, followable
from giftrl.service.limits import Limits
from tests.commands import GIFTRL, environment
from tests.serving import QUICK, process, rows

pytestmark = pytest.mark.plain

#: Files that cannot be followed.
STRANGE = {
    "rows.csv": b"label,age\n1,33\n0,8\n",
    "rows.json": '{"label": 1}\n'.encode("utf-16"),
    "rows.txt": b"no known format\n",
    "rows.parquet": b"PAR1\n\0\0\n",
}


def until(holds, seconds=60.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


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
@pytest.mark.parametrize("folder", [False, True])
def test_what_cannot_be_followed_is_said_and_not_passed_over(name, folder, tmp_path):
    source = tmp_path / "inbox" if folder else tmp_path / name
    strange = source / name if folder else source
    (tmp_path / "inbox").mkdir()
    served = process(tmp_path / "models", "--follow", f"m={source}")
    with served as (_, address), httpx.Client(base_url=address, timeout=60) as client:
        client.delete("/models/m?confirm=m")
        client.put("/models/m", json=QUICK).raise_for_status()
        strange.write_bytes(STRANGE[name])
        until(lambda: 'giftrl_follow_failing{model="m"} 1' in client.get("/metrics").text)
        followed = client.get("/models/m").json()["followed"]
        assert followed["errors"] > 0 and name in followed["problem"]
        if folder:
            (source / "z.json").write_bytes(b"".join(rows(5)))
            until(lambda: client.get("/models/m").json()["examples"] == 5)
        mended = b"".join(rows(7, seed=1))
        strange.unlink()
        (strange.parent / "mended.json" if folder else strange).write_bytes(mended if name != "rows.parquet" else b"")
        until(lambda: client.get("/models/m").json()["followed"]["problem"] is None)


def test_rows_that_a_model_refuses_as_a_whole_are_learnt_once_it_takes_them(tmp_path):
    """Without settings, no loss can be chosen for so many labels; with them, it can."""
    lines = b"".join(b'{"label": "t%d", "a": 1}\n' % k for k in range(120))
    log, folder = tmp_path / "log.json", Folder(tmp_path / "models", Limits())
    log.write_bytes(lines)
    follower = Follower(folder, "m", str(log))
    follower.start()
    try:
        until(lambda: folder.followed["m"].problem is not None)
        assert "labels" in folder.followed["m"].problem
        folder.delete("m")
        folder.create("m", {"labels": [f"t{k}" for k in range(120)], "bits": 4, "beta": 1.0})
        until(lambda: folder.get("m").model.examples == 120)
        until(lambda: folder.followed["m"].problem is None)
    finally:
        follower.end()
        follower.join()
        folder.close()


def test_comments_and_empty_lines_are_no_failure_and_show_no_format(tmp_path):
    log, folder = tmp_path / "log", Folder(tmp_path / "models", Limits())
    folder.create("m", QUICK)
    follower = Follower(folder, "m", str(log))
    for more, examples in ((b"\n# rows\n", 0), (b"1 3:0.5\n", 1), (b"# more\n", 1), (b"0 3:0.25\n", 2)):
        with log.open("ab") as file:
            file.write(more)
        while any(follower._read(path) for path in follower._files()):
            pass
        assert folder.get("m").model.examples == examples and folder.followed["m"].errors == 0
    follower._release()
    folder.close()


def test_standard_input_of_no_known_format_is_said(tmp_path, monkeypatch):
    folder = Folder(tmp_path / "models", Limits())
    folder.create("m", QUICK)
    (tmp_path / "input").write_bytes(b"no known format\n")
    with (tmp_path / "input").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        follower = Follower(folder, "m", "-")
        follower.run()
    followed = folder.followed["m"]
    assert followed.errors == 1 and "format" in followed.problem
    assert "format" in folder.get("m").stats.rejected[-1]["problem"]
    folder.close()


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
