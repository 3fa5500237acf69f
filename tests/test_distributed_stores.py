"""Sources in an object store: servers on this machine that speak as S3 and as Google Cloud Storage do."""

import contextlib
import gzip
import os
import socket
import subprocess

import pytest

from giftrl import distributed
from giftrl.distributed import shards
from giftrl.distributed.shards import find_files
from giftrl.errors import BadSource
from giftrl.training import LinearModel
from tests.commands import GIFTRL
from tests.distributed import SETTINGS, bytes_of, few_rows, write_rows

pytestmark = [pytest.mark.verify, pytest.mark.filterwarnings("ignore")]  # those of the server

PLAIN_GS = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"
OPTIONS = {"workers": 3, "cluster": "simulation"}


@contextlib.contextmanager
def s3():
    """A server of S3."""
    why = "s3fs and moto are not installed; make verify installs them"
    s3fs = pytest.importorskip("s3fs", reason=why)
    servers = pytest.importorskip("moto.server", reason=why)
    server = servers.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    known = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    yield known, s3fs.S3FileSystem
    server.stop()


@contextlib.contextmanager
def gs():
    """A server of Google Cloud Storage. It speaks JSON alone; for some kinds of buckets gcsfs also uses gRPC."""
    why = "gcsfs and gcp-storage-emulator are not installed; make verify installs them"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PLAIN_GS, "false")  # read when gcsfs is imported
        gcsfs = pytest.importorskip("gcsfs", reason=why)
    servers = pytest.importorskip("gcp_storage_emulator.server", reason=why)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = servers.create_server("127.0.0.1", port, in_memory=True)
    server.start()
    known = {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}", "NO_GCE_CHECK": "true", PLAIN_GS: "false"}
    yield known, gcsfs.GCSFileSystem
    server.stop()


@pytest.fixture(scope="module", params=[s3, gs], ids=["s3", "gs"])
def store(request):
    """Opens files of a bucket; the environment says where the store is."""
    with request.param() as (known, make), pytest.MonkeyPatch.context() as patch:
        for name, value in known.items():
            patch.setenv(name, value)
        make.clear_instance_cache()  # one of an earlier server, if this fixture has been torn down before
        files = make()
        files.mkdir("rows")
        yield files


@pytest.fixture
def scheme(store):
    """What a URL of the store begins with."""
    return "s3" if "s3" in store.protocol else "gs"


@pytest.fixture
def rows(store, tmp_path, monkeypatch):
    """The same rows on disk and, in two parts, in the store."""
    few_rows(monkeypatch)
    monkeypatch.setattr(shards, "MIN_BLOCK_BYTES", 256)
    lines = write_rows(tmp_path / "rows.vw").read_bytes().splitlines(keepends=True)
    for k, part in enumerate((lines[:300], lines[300:])):
        (tmp_path / f"part{k}.vw").write_bytes(b"".join(part))
        store.pipe(f"rows/day/part{k}.vw", b"".join(part))
    return tmp_path


@pytest.mark.parametrize("paths", [["rows/day"], ["rows/day/*.vw"], ["rows/day/part0.vw", "rows/day/part1.vw"]])
def test_a_model_from_a_store_is_that_from_files(rows, scheme, paths):
    expected = distributed.train(SETTINGS, str(rows / "part*.vw"), **OPTIONS)
    assert expected.learner.merges > 2
    model = distributed.train(SETTINGS, [f"{scheme}://{path}" for path in paths], **OPTIONS)
    assert bytes_of(model, rows) == bytes_of(expected, rows)


def test_the_command_reads_from_a_store(rows, scheme):
    command = [GIFTRL, "train", "--cluster", "simulation", "--workers", "2", "--bits", "8", "--quiet", "--model"]
    models = rows / "a.giftrl", rows / "b.giftrl"
    for model, source in zip(models, (f"{scheme}://rows/day/*.vw", str(rows / "part*.vw")), strict=True):
        subprocess.run([*command, str(model), source], check=True, timeout=300, env=os.environ)
    assert models[0].read_bytes() == models[1].read_bytes()
    assert LinearModel.load(models[0])[0].examples == 700


def test_compressed_files_and_tables_in_a_store(rows, store, scheme):
    import pyarrow as pa
    import pyarrow.parquet as pq

    store.pipe("rows/zipped/a.vw.gz", gzip.compress((rows / "rows.vw").read_bytes()))
    assert distributed.train(SETTINGS, f"{scheme}://rows/zipped/a.vw.gz", **OPTIONS).examples == 700
    table = pa.table({"age": [1.0, 2.0, 3.0] * 20, "label": [1, -1, 1] * 20})
    with store.open("rows/tables/a.parquet", "wb") as file:
        pq.write_table(table, file)
    assert distributed.train(SETTINGS, f"{scheme}://rows/tables/a.parquet", **OPTIONS).examples == 60


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("rows/nothing.vw", "there is no such file"),
        ("rows/day/*.svm", "matches no file"),
        ("no-such-bucket/a.vw", "there is no such file"),
    ],
)
def test_what_a_store_has_not_is_named(rows, scheme, path, said):
    with pytest.raises(BadSource, match=said):
        find_files(f"{scheme}://{path}")


UNREACHABLE = {
    "s3": [
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "Could not connect"),
        ({"AWS_ACCESS_KEY_ID": None}, "credentials"),
    ],
    "gs": [({"STORAGE_EMULATOR_HOST": "http://127.0.0.1:1"}, "Cannot connect")],
}


def test_a_store_that_cannot_be_reached_is_named(rows, scheme):
    for changed, said in UNREACHABLE[scheme]:
        environment = {name: value for name, value in (os.environ | changed).items() if value is not None}
        command = [GIFTRL, "train", f"{scheme}://rows/day/*.vw", "--cluster", "simulation", "--bits", "8"]
        run = subprocess.run(command, timeout=200, env=environment, capture_output=True, text=True)
        assert run.returncode == 1 and said in run.stderr and "Traceback" not in run.stderr, run.stderr
