"""The folder of models: files that are no models, and threads that come at the same time."""

import logging
import sqlite3

import pytest

from giftrl import system
from giftrl.errors import Refused
from giftrl.service.folder import Folder
from giftrl.service.online_model import OnlineModel
from giftrl.service.request_limits import Limits
from tests.serving import QUICK, following, rows, serving, until

pytestmark = pytest.mark.plain


def junk(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database, and never was one" * 100)


def no_file(path):
    path.mkdir(parents=True)


@pytest.mark.parametrize("make", [junk, no_file])
def test_files_that_are_no_database_are_503_and_in_the_log(make, tmp_path, caplog):
    make(tmp_path / "models" / "m" / "log.db")
    with serving(tmp_path / "models") as (client, _), caplog.at_level(logging.ERROR, "giftrl.service"):
        asked = [("GET", ""), ("POST", "/learn"), ("POST", "/predict"), ("PUT", ""), ("GET", "/file")]
        for count, (method, what) in enumerate(asked, 1):
            said = client.request(method, f"/models/m{what}", content=b"{}")
            assert said.status_code == 503 and "log" in said.json()["error"]["remedy"]
            assert caplog.text.count("model 'm' cannot be read") == count
        client.put("/models/n", json=QUICK).raise_for_status()
        client.delete("/models/m?confirm=m").raise_for_status()
        assert client.put("/models/m", json=QUICK).status_code == 201


@pytest.mark.parametrize("broken", ["log.db", "model.giftrl"])
def test_what_cannot_be_opened_is_closed(tmp_path, monkeypatch, broken):
    """Windows does not delete a file that is open, and every one that stays open is one less for clients."""
    made, connect = [], sqlite3.connect

    def recorded(*arguments, **more):
        made.append(connect(*arguments, **more))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    folder = Folder(tmp_path, Limits())
    folder.create("m", QUICK)
    (tmp_path / "m" / broken).write_bytes(b"this is no database, and never was one" * 100)
    with pytest.raises(Refused, match="cannot be read"):
        folder.get("m")
    folder.close()
    assert len(made) == 2
    for each in made:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            each.execute("SELECT 1")


def test_a_follower_goes_on_once_its_model_can_be_opened(tmp_path):
    junk(tmp_path / "models" / "m" / "log.db")
    (tmp_path / "rows.json").write_bytes(b"".join(rows(20)))
    with following(tmp_path / "models", tmp_path / "rows.json") as folder:
        until(lambda: folder.followed["m"].problem is not None)
        folder.delete("m")
        folder.create("m", QUICK)
        until(lambda: folder.get("m").model.examples == 20)


def test_the_models_that_were_not_used_for_longest_are_closed(tmp_path, monkeypatch):
    folder = Folder(tmp_path, Limits())
    for name in "abca":
        if not folder.has(name):
            folder.create(name, QUICK)
        folder.get(name)
    monkeypatch.setattr(OnlineModel, "nbytes", folder.limits.memory / 2)
    folder._make_room("c")
    assert set(folder.writers) == {"a", "c"}
    folder.close()


def test_names_that_were_asked_for_leave_nothing_behind(tmp_path):
    folder = Folder(tmp_path, Limits())
    for k in range(50):
        with pytest.raises(Refused, match="no model"):
            folder.get(f"x{k}")
    assert not folder._exclusive_locks
    folder.close()


def test_the_names_of_new_folders_are_synced(tmp_path, monkeypatch):
    flushed, flush = [], system.sync_folder
    monkeypatch.setattr(system, "sync_folder", lambda path: (flushed.append(path), flush(path)))
    Folder(tmp_path / "a" / "b" / "models", Limits()).close()
    assert flushed == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    Folder(tmp_path / "a" / "b" / "models", Limits()).close()
    assert len(flushed) == 3
