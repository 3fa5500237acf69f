"""What a run on a cluster says before and at its start: in options, in one line, and true."""

import gzip
import sys
import types

import pytest

from giftrl import distributed
from giftrl.distributed.driver import Driver, LocalCrew
from giftrl.distributed.launch import read_checkpoint, write_checkpoint
from giftrl.distributed.ray_crew import RayCrew, _Round
from giftrl.distributed.shards import find_files, look_at_files
from giftrl.errors import InvalidInput
from giftrl.training import Checkpoint, LinearModel, Trainer
from tests.commands import giftrl, write_rows
from tests.distributed import SETTINGS

pytestmark = pytest.mark.plain
WORKERS = 3
SMALL = "--bits", "6", "--cluster", "simulation"


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.svm", n=300)


def compressed(rows, name):
    path = rows.with_name(name)
    path.write_bytes(gzip.compress(rows.read_bytes()))
    return path


def said(*arguments):
    done = giftrl("train", *arguments, check=False)
    return done.stderr.decode()


@pytest.mark.parametrize("names", [("rows.svm", "b.svm.gz"), ("b.svm.gz", "rows.svm")])
def test_rows_are_estimated_by_the_kind_of_each_file(rows, names):
    zipped = compressed(rows, "b.svm.gz")
    files = find_files([rows.with_name(name) for name in names])
    about = look_at_files(files).about
    assert about is not None
    assert about.most and about.rows == pytest.approx(300 * (1 + 10 * zipped.stat().st_size / rows.stat().st_size), 0.1)
    assert f"and there are at most about {about.rows:,} here" in said(*[file.name for file in files], *SMALL)
    assert "and there are about 300 here" in said(rows, *SMALL)


def test_idle_workers_are_named(rows):
    zipped = [compressed(rows, f"{k}.svm.gz") for k in range(2)]
    note = "note: 1 of 3 workers has nothing to read: there are 2 files, and files of this kind are read as a whole"
    assert note in said(*zipped, *SMALL, "--workers", "3")
    assert "nothing to read" not in said(*zipped, *SMALL, "--workers", "2")
    assert "workers have nothing to read: there is 1 file, and the data is too small" in said(rows, *SMALL)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-",), "giftrl: -: cannot be split among workers"),
        (("rows.svm", "rows.vw"), "rows.svm {0}/rows.vw: must have one format, and the first is libsvm and the second"),
        (("rows.svm", "--dictionary"), "--dictionary: a dictionary would differ from worker to worker; try --bits 18"),
    ],
)
def test_what_a_cluster_refuses_is_said_in_options(rows, monkeypatch, options, words):
    rows.with_name("rows.vw").write_text("1 |a b\n-1 |a c\n")
    monkeypatch.chdir(rows.parent)
    assert words.format(rows.parent) in said(*options, *SMALL, "--loss", "logistic")


class FakeDeath(Exception):
    """Stands in for an exception of Ray whose text holds a traceback."""

    def __str__(self):
        return "The actor died\n\nTraceback (most recent call last):\n  File x\nModuleNotFoundError: No module 'giftrl'"


@pytest.mark.parametrize("where", ["cluster_resources", "get"])
def test_trouble_with_workers_at_the_start_is_one_line(monkeypatch, where):
    def fail(*given):
        raise FakeDeath

    class Handle:
        version_of_giftrl = types.SimpleNamespace(remote=lambda: None)

    ray = types.ModuleType("ray")
    ray.exceptions = types.SimpleNamespace(RayError=FakeDeath)
    ray.cluster_resources = lambda: {"CPU": 2.0}
    ray.put = ray.get = lambda given: given
    ray.remote = lambda **_: lambda _: types.SimpleNamespace(remote=lambda *_, **__: Handle())
    setattr(ray, where, fail)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.exceptions", ray.exceptions)
    with pytest.raises(InvalidInput, match="^.*cannot begin .ModuleNotFoundError: .* install giftrl .* each machine"):
        RayCrew(None, 2)


def test_a_later_worker_that_cannot_import_giftrl_is_told_at_once():
    """The first may be on a machine that has giftrl."""
    crew_round = object.__new__(_Round)
    with pytest.raises(InvalidInput, match="cannot begin .ModuleNotFoundError: .* install giftrl .* each machine"):
        crew_round._replace(0, 1, FakeDeath())


def test_a_checkpoint_says_whether_its_run_had_a_cluster(rows, tmp_path):
    data, path, paths = rows, tmp_path / "m.checkpoint", (tmp_path / "one", tmp_path / "two")
    reading = distributed.plan(SETTINGS, data, WORKERS)
    checkpoint = Checkpoint(path, 1)
    Trainer(LinearModel(SETTINGS), data, workers=WORKERS, checkpoint=checkpoint).write_checkpoint()
    with pytest.raises(InvalidInput, match="settings or data: a run without --cluster, now with it;"):
        distributed.train(SETTINGS, data, workers=WORKERS, cluster="simulation", checkpoint=checkpoint, resume=True)
    write_checkpoint(path, Driver(LinearModel(SETTINGS), reading, LocalCrew(reading, WORKERS)))
    with pytest.raises(InvalidInput, match="settings: a run with --cluster, now without;"):
        Trainer(LinearModel(SETTINGS), data, workers=WORKERS, checkpoint=checkpoint).resume()
    for each in paths:
        each.write_bytes(data.read_bytes())
    with pytest.raises(InvalidInput) as raised:
        read_checkpoint(path, distributed.plan(SETTINGS, paths, WORKERS))
    assert f"sources=['{data}'], now ['{paths[0]}', '{paths[1]}'];" in str(raised.value)
    size = data.stat().st_size
    with data.open("a") as file:
        file.write("1 1:1\n")
    with pytest.raises(InvalidInput, match=f"rows.svm of {size:,} bytes, now of {size + 6:,};"):
        read_checkpoint(path, distributed.plan(SETTINGS, data, WORKERS))


@pytest.mark.parametrize("cluster", ["foo", "", "Simulation", "http://x:1", "ray://", "ray://x", "ray://x:notaport"])
def test_a_wrong_cluster_is_named_before_the_data_is_looked_at(tmp_path, cluster):
    run = giftrl("train", tmp_path / "none.svm", "--cluster", cluster, check=False)
    assert run.returncode == 1
    assert (
        f'--cluster {cluster or repr("")}: must be "auto", "simulation" or an address; write ray://'
        in run.stderr.decode()
    )
    with pytest.raises(InvalidInput, match='must be "auto", "simulation" or an address'):
        distributed.train(SETTINGS, tmp_path / "none.svm", cluster=cluster)


def test_resuming_without_a_checkpoint_is_refused_before_the_data_is_looked_at(tmp_path):
    options = "--cluster", "simulation", "--model", str(tmp_path / "m"), "--resume"
    run = giftrl("train", tmp_path / "none.svm", *options, check=False)
    assert run.returncode == 1
    said = f"giftrl: {tmp_path / 'm.checkpoint'}: there is no checkpoint to resume from; "
    said += "leave out --resume to start anew"
    assert run.stderr.decode().startswith(said)
