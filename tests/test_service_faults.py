"""Disks that fail, and requests that mean harm."""

import os
import shutil
import subprocess
import sys

import httpx
import pytest

from giftrl.service import store
from tests.serving import QUICK, break_store, process, quick_settings, rows, serving, trained

pytestmark = pytest.mark.plain


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT INTO entries", "INSERT INTO answers", "COMMIT"])
def test_a_disk_that_fails_is_503_and_the_model_stays_readable(statement, tmp_path):
    lines = rows(60)
    with serving(tmp_path / "models") as (client, folder):
        client.put("/models/m", json=QUICK)
        for line in lines[:20]:
            client.post("/models/m/learn", content=line).raise_for_status()
        mend = break_store(folder.get("m"), statement)
        for k, line in enumerate(lines[20:30]):
            said = client.post("/models/m/learn", content=line, headers={"Idempotency-Key": f"k{k}"})
            assert said.status_code == 503 and said.headers["retry-after"] == "5"
            assert "Traceback" not in said.text and "sqlite" not in said.text.lower()
            assert client.post("/models/m/predict", content=line).json()["examples"] == 20
            assert client.get("/models/m").json()["examples"] == 20
        mend()
        for k, line in enumerate(lines[20:]):
            client.post("/models/m/learn", content=line, headers={"Idempotency-Key": f"k{k}"}).raise_for_status()
        assert client.get("/models/m/file").content == trained(tmp_path, lines, quick_settings())


def test_a_model_file_that_cannot_be_written_loses_nothing(tmp_path, monkeypatch):
    from giftrl.training import LinearModel

    lines = rows(60)
    with serving(tmp_path / "models", log=500) as (client, _):
        client.put("/models/m", json=QUICK)
        save = LinearModel.save
        for k, line in enumerate(lines):
            if k == 20:
                monkeypatch.setattr(LinearModel, "save", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
            if k == 40:
                monkeypatch.setattr(LinearModel, "save", save)
            client.post("/models/m/learn", content=line).raise_for_status()
    with serving(tmp_path / "models") as (client, _):
        assert client.get("/models/m/file").content == trained(tmp_path, lines, quick_settings())


#: Makes every sync fail while a file is there.
NO_SYNC = """
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int failing(void) { const char *flag = getenv("FAIL_SYNC"); return flag && access(flag, F_OK) == 0; }
int fsync(int fd) { if (failing()) { errno = EIO; return -1; } return 0; }
int fdatasync(int fd) { return fsync(fd); }
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs gcc on Linux")
def test_a_sync_that_fails_is_503_in_the_real_command(tmp_path):
    (tmp_path / "sync.c").write_text(NO_SYNC)
    library = tmp_path / "sync.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "sync.c"], check=True)
    flag, lines = tmp_path / "flag", rows(30)
    faults = {"LD_PRELOAD": str(library), "FAIL_SYNC": str(flag)}
    with process(tmp_path / "models", **faults) as (running, address), httpx.Client(base_url=address) as client:
        client.put("/models/m", json=QUICK).raise_for_status()
        for k, line in enumerate(lines):
            key = {"Idempotency-Key": str(k)}
            if k % 10 == 5:
                flag.touch()
                assert client.post("/models/m/learn", content=line, headers=key, timeout=60).status_code == 503
                assert client.post("/models/m/predict", content=line, timeout=60).json()["examples"] == k
                flag.unlink()
            client.post("/models/m/learn", content=line, headers=key, timeout=60).raise_for_status()
        running.kill()
    with process(tmp_path / "models") as (_, address), httpx.Client(base_url=address, timeout=60) as client:
        assert client.get("/models/m/file").content == trained(tmp_path, lines, quick_settings())


def test_the_log_of_another_crash_is_read_as_far_as_it_is_whole(tmp_path):
    """A write-ahead log that is cut short, as by a power failure, has the commits before the cut."""
    lines = rows(30)
    with process(tmp_path / "models") as (running, address), httpx.Client(base_url=address, timeout=60) as client:
        client.put("/models/m", json=QUICK).raise_for_status()
        for line in lines:
            client.post("/models/m/learn", content=line).raise_for_status()
        running.kill()
    log = tmp_path / "models" / "m" / "log.db-wal"
    whole = log.read_bytes()
    for size in range(len(whole) - 5000, len(whole), 1500):
        log.write_bytes(whole[:size])
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path / "models", tmp_path / "copy")
        with serving(tmp_path / "copy") as (client, _):
            count = client.get("/models/m").json()["examples"]
            assert 20 <= count < 30
            assert client.get("/models/m/file").content == trained(tmp_path, lines[:count], quick_settings())


def test_errors_of_the_disk_are_all_of_one_kind():
    with pytest.raises(Exception, match="nothing was learned"), store.disk_errors():
        raise OSError(28, "No space left on device", "/secret/path")


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
