"""Data sets: downloaded from a server on this machine, checked, kept; a bad one leaves nothing behind."""

import bz2
import gzip
import http.server
import os
import threading
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from giftrl.cli.commands import command_of
from giftrl.datasets import REGISTRY, Dataset, DownloadFailed, default_folder, get
from giftrl.errors import UnknownName
from giftrl.sweeps import fingerprint, read_all

command = command_of("datasets")

pytestmark = pytest.mark.plain

TEXT = b"1 1:0.5 3:2\n-1 2:1\n"


@pytest.fixture
def site(tmp_path):
    """A server; the folder that it serves, its address, and what it was asked for."""
    root, asked = tmp_path / "site", []
    (root / "binary").mkdir(parents=True)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, directory=str(root), **more)

        def log_message(self, *arguments):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield root, f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def mark(tmp_path):
    (tmp_path / "text").write_bytes(TEXT)
    return fingerprint(*read_all(tmp_path / "text"))


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".bz2", bz2.compress), (".gz", partial(gzip.compress, mtime=0))]
)
def test_a_data_set_is_fetched_once(site, tmp_path, mark, ending, pack):
    root, address, asked = site
    (root / "binary" / f"few{ending}").write_bytes(pack(TEXT))
    few = Dataset("few", f"binary/few{ending}", "classification", 2, 3, mark)
    path = get(few, tmp_path / "data", site=address)
    assert path == tmp_path / "data" / f"few{ending}" and path.read_bytes() == pack(TEXT)
    assert get(few, tmp_path / "data", site=address + "/") == path
    assert asked == [f"/binary/few{ending}"]


def test_a_wrong_file_is_refused_and_leaves_nothing(site, tmp_path, mark):
    root, address, _ = site
    few = Dataset("few", "binary/few", "classification", 2, 3, mark)
    for content, problem in ((TEXT.replace(b"0.5", b"0.6"), "has the fingerprint"), (b"<html>", "is not LIBSVM text")):
        (root / "binary/few").write_bytes(content)
        with pytest.raises(DownloadFailed, match=problem):
            get(few, tmp_path / "data", site=address)
        assert list((tmp_path / "data").iterdir()) == []
        kept = get(few, tmp_path / "unchecked", site=address, check=False)
        assert kept.read_bytes() == content
        kept.unlink()


def test_a_damaged_file_is_fetched_again(site, tmp_path, mark):
    root, address, asked = site
    (root / "binary/few").write_bytes(TEXT)
    few = Dataset("few", "binary/few", "classification", 2, 3, mark)
    path = get(few, tmp_path, site=address)
    path.write_bytes(TEXT[:-5])
    assert get(few, tmp_path, site=address).read_bytes() == TEXT and len(asked) == 2


def test_a_missing_file_and_a_silent_server_are_explained(site, tmp_path):
    _, address, _ = site
    with pytest.raises(DownloadFailed, match=r"a9a: http://127.0.0.1:\d+/binary/a9a could not be fetched .*404"):
        get("a9a", tmp_path, site=address)
    with pytest.raises(DownloadFailed, match="check the connection"):
        get("a9a", tmp_path, site="http://127.0.0.1:1")
    assert not (tmp_path / "a9a").exists()


def test_an_unknown_name_suggests_the_nearest(tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'phishing'"):
        get("phising", tmp_path)


def test_the_folder_is_the_one_that_the_environment_names(monkeypatch, tmp_path):
    monkeypatch.setenv("GIFTRL_DATA", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.delenv("GIFTRL_DATA")
    assert default_folder().name == "giftrl"


def test_the_command_lists_and_refuses(monkeypatch, tmp_path, site):
    monkeypatch.setenv("GIFTRL_DATA", str(tmp_path))
    (tmp_path / "a9a").write_bytes(TEXT)
    shown = CliRunner().invoke(command, ["list"]).output.splitlines()
    assert len(shown) == len(REGISTRY) and str(tmp_path) in shown[0] and "not here yet" in shown[1]
    ran = CliRunner().invoke(command, ["get", "all", "--to", str(tmp_path / "to"), "--from", site[1]])
    assert isinstance(ran.exception, DownloadFailed)


@pytest.mark.verify
@pytest.mark.skipif("GIFTRL_DATA" not in os.environ, reason="GIFTRL_DATA does not name a folder with the data sets")
def test_the_registry_knows_the_real_files_and_the_command_fetches_them(site, tmp_path):
    root, address, _ = site
    (root / "regression").mkdir()
    for dataset in REGISTRY.values():
        text = gzip.decompress((Path(os.environ["GIFTRL_DATA"]) / f"{dataset.name}.gz").read_bytes())
        (root / dataset.path).write_bytes(bz2.compress(text) if dataset.path.endswith(".bz2") else text)
    arguments = ["get", "all", "--to", str(tmp_path / "to"), "--from", address]
    ran = CliRunner().invoke(command, arguments, catch_exceptions=False)
    paths = [Path(line) for line in ran.output.splitlines()]
    assert [path.name for path in paths] == [dataset.file for dataset in REGISTRY.values()]
    for path, dataset in zip(paths, REGISTRY.values(), strict=True):
        assert read_all(path)[0].shape == (dataset.rows, dataset.features)
