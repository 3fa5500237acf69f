"""Sources in an object store: a server on this machine that speaks the language of S3."""

import gzip
import os
import subprocess

import pytest

from giftrl import distributed
from giftrl.distributed import shards
from giftrl.distributed.files import find_files
from giftrl.errors import BadSource
from giftrl.training import LinearModel
from tests.commands import GIFTRL
from tests.distributed import SETTINGS, bytes_of, few_rows, write_rows

pytestmark = [pytest.mark.verify, pytest.mark.filterwarnings("ignore")]  # those of the server

OPTIONS = {"workers": 3, "cluster": "simulation"}


@pytest.fixture(scope="module")
def store():
    """Opens files of a bucket; the environment says where the store is."""
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
    with pytest.MonkeyPatch.context() as patch:
        for name, value in known.items():
            patch.setenv(name, value)
        files = s3fs.S3FileSystem()
        files.mkdir("rows")
        yield files
    server.stop()


@pytest.fixture
def rows(store, tmp_path, monkeypatch):
    """The same rows on disk and, in two parts, in the store."""
    few_rows(monkeypatch)
    monkeypatch.setattr(shards, "SMALLEST", 256)
    lines = write_rows(tmp_path / "rows.vw").read_bytes().splitlines(keepends=True)
    for k, part in enumerate((lines[:300], lines[300:])):
        (tmp_path / f"part{k}.vw").write_bytes(b"".join(part))
        store.pipe(f"rows/day/part{k}.vw", b"".join(part))
    return tmp_path


@pytest.mark.parametrize(
    "url", ["s3://rows/day", "s3://rows/day/*.vw", ["s3://rows/day/part0.vw", "s3://rows/day/part1.vw"]]
)
def test_a_model_from_a_store_is_that_from_files(rows, url):
    expected = distributed.train(SETTINGS, str(rows / "part*.vw"), **OPTIONS)
    assert expected.learner.merges > 2
    assert bytes_of(distributed.train(SETTINGS, url, **OPTIONS), rows) == bytes_of(expected, rows)


def test_the_command_reads_from_a_store(rows):
    command = [GIFTRL, "train", "--cluster", "simulation", "--workers", "2", "--bits", "8", "--quiet", "--model"]
    models = rows / "a.giftrl", rows / "b.giftrl"
    for model, source in zip(models, ("s3://rows/day/*.vw", str(rows / "part*.vw")), strict=True):
        subprocess.run([*command, str(model), source], check=True, timeout=300, env=os.environ)
    assert models[0].read_bytes() == models[1].read_bytes()
    assert LinearModel.load(models[0])[0].examples == 700


def test_compressed_files_and_tables_in_a_store(rows, store):
    import pyarrow as pa
    import pyarrow.parquet as pq

    store.pipe("rows/zipped/a.vw.gz", gzip.compress((rows / "rows.vw").read_bytes()))
    assert distributed.train(SETTINGS, "s3://rows/zipped/a.vw.gz", **OPTIONS).examples == 700
    table = pa.table({"age": [1.0, 2.0, 3.0] * 20, "label": [1, -1, 1] * 20})
    with store.open("rows/tables/a.parquet", "wb") as file:
        pq.write_table(table, file)
    assert distributed.train(SETTINGS, "s3://rows/tables/a.parquet", **OPTIONS).examples == 60


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://rows/nothing.vw", "there is no such file"),
        ("s3://rows/day/*.svm", "matches no file"),
        ("s3://no-such-bucket/a.vw", "there is no such file"),
    ],
)
def test_what_a_store_has_not_is_named(rows, url, said):
    with pytest.raises(BadSource, match=said):
        find_files(url)


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "Could not connect"), ({"AWS_ACCESS_KEY_ID": None}, "credentials")],
)
def test_a_store_that_cannot_be_reached_is_named(rows, changed, said):
    environment = {name: value for name, value in (os.environ | changed).items() if value is not None}
    command = [GIFTRL, "train", "s3://rows/day/*.vw", "--cluster", "simulation", "--bits", "8"]
    run = subprocess.run(command, timeout=60, env=environment, capture_output=True, text=True)
    assert run.returncode == 1 and said in run.stderr and "Traceback" not in run.stderr
