"""Runs on Ray: the bits of the simulation, with workers and drivers that are killed on the way."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from giftrl import distributed, regularizers, schedules, sweeps
from giftrl.distributed.driver import Driver, LocalCrew
from giftrl.distributed.ray_crew import RayCrew
from giftrl.errors import BadRow, InvalidInput
from giftrl.training import LinearModel
from tests.commands import GIFTRL
from tests.distributed import SETTINGS, bytes_of, plan_of_few_rows, write_rows
from tests.sweep_rows import examples

pytestmark = [pytest.mark.verify, pytest.mark.filterwarnings("ignore")]  # Ray's own

WORKERS = 2
PARTS = schedules.TemporalVariability(), regularizers.SquaredNorm()


@pytest.fixture(scope="session")
def ray():
    ray = pytest.importorskip("ray", reason="Ray is not installed; make verify installs it")
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=300 << 20, logging_level="ERROR",
             log_to_driver=False)  # fmt: skip
    yield ray
    ray.shutdown()


def environment_of(ray):
    """For commands: another test process may have a cluster of its own."""
    return os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}


@pytest.fixture
def reading(tmp_path, monkeypatch):
    return plan_of_few_rows(tmp_path, monkeypatch, workers=WORKERS)


@pytest.fixture
def expected(reading, tmp_path):
    return bytes_of(Driver(LinearModel(reading.settings), reading, LocalCrew(reading, WORKERS)).run(), tmp_path)


def process_of(ray, actor):
    return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))


def test_ray_gives_the_bits_of_the_simulation(ray, reading, expected, tmp_path):
    costs = []
    model = distributed.train(
        SETTINGS, tmp_path / "rows.vw", workers=WORKERS, after=lambda driver: costs.append(driver.costs)
    )
    assert bytes_of(model, tmp_path) == expected
    assert costs[-1].bytes_moved > 0 and costs[-1].repeated == 0


def test_what_the_driver_learns_needs_no_loop_of_its_own(ray, reading):
    """Arrays from Ray cannot be written to, and for those every loop would be compiled once more."""
    crew, windows = RayCrew(reading, WORKERS), []

    class Looking:
        repeated = 0

        def round(self, *order):
            replies = crew.round(*order)
            windows.extend(batch for reply in replies for batch in reply.window)
            return replies

    Driver(LinearModel(reading.settings), reading, Looking()).run()
    crew.close()
    assert len(windows) > 4
    for batch in windows:
        arrays = batch.data, batch.indices, batch.indptr, batch.labels, batch.weights
        assert all(array.flags.writeable for array in arrays)


def test_a_killed_worker_is_replaced_and_its_round_repeated(ray, reading, expected, tmp_path):
    crew = RayCrew(reading, WORKERS, least=600.0)  # a machine at work can slow a worker down

    def kill(driver):
        if driver.costs.rounds in (2, 4):
            os.kill(process_of(ray, crew.actors[driver.costs.rounds // 2 - 1]), signal.SIGKILL)

    model = Driver(LinearModel(reading.settings), reading, crew).run(kill)
    assert crew.repeated == 2
    assert bytes_of(model, tmp_path) == expected
    crew.close()


def test_the_slice_of_a_slow_worker_is_given_to_another(ray, reading, expected, tmp_path):
    crew = RayCrew(reading, WORKERS, slow=1.0, least=0.5)
    pid = process_of(ray, crew.actors[1])

    def stop(driver):
        if driver.costs.rounds == 2:
            os.kill(pid, signal.SIGSTOP)
        if driver.costs.rounds == 3:
            os.kill(pid, signal.SIGCONT)

    model = Driver(LinearModel(reading.settings), reading, crew).run(stop)
    assert crew.repeated >= 1
    assert bytes_of(model, tmp_path) == expected
    crew.close()


def test_an_error_of_a_worker_is_that_of_the_run(ray, reading, tmp_path):
    with (tmp_path / "rows.vw").open("a") as file:
        file.write("x |a b\n")
    with pytest.raises(BadRow, match="rows.vw from byte"):
        distributed.train(SETTINGS, tmp_path / "rows.vw", workers=WORKERS)


def test_workers_that_cannot_import_giftrl_are_named_in_one_line(tmp_path):
    """In a process of its own: its cluster stands for machines on which nobody has installed giftrl."""
    pytest.importorskip("ray", reason="Ray is not installed; make verify installs it")
    write_rows(tmp_path / "rows.vw", 50)
    script = f"""
import ray
from giftrl import distributed
from giftrl.errors import InvalidInput
from giftrl.training import Settings

def uninstall():
    import sys
    sys.modules["giftrl"] = None

ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=300 << 20, logging_level="ERROR",
         log_to_driver=False, runtime_env={{"worker_process_setup_hook": uninstall}})
try:
    distributed.train(Settings(loss="logistic", bits=8), {str(tmp_path / "rows.vw")!r}, workers=2)
except InvalidInput as problem:
    print("SAID", problem)
ray.shutdown()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    said = re.findall("^SAID (.*)$", done.stdout, re.MULTILINE)
    assert len(said) == 1, done.stderr
    assert "cannot begin (ModuleNotFoundError: No module named 'giftrl" in said[0]
    assert f"install giftrl {version('giftrl')} on each machine" in said[0]


def test_a_killed_driver_goes_on_from_its_checkpoint(ray, tmp_path):
    data = write_rows(tmp_path / "rows.vw", rows=60_000)
    model, alone = tmp_path / "a.giftrl", tmp_path / "b.giftrl"
    command = [GIFTRL, "train", str(data), "--workers", "2", "--bits", "10", "--quiet"]
    on_ray = [*command, "--model", str(model), "--cluster", "auto", "--checkpoint-every", "1"]
    checkpoint = Path(f"{model}.checkpoint")
    environment = environment_of(ray)
    running = subprocess.Popen(on_ray, env=environment)
    limit = threading.Timer(300, running.kill)
    limit.start()
    while running.poll() is None and not checkpoint.exists():
        time.sleep(0.02)
    running.kill()
    running.wait()
    limit.cancel()
    assert checkpoint.exists() and not model.exists()
    subprocess.run([*on_ray, "--resume"], timeout=300, check=True, env=environment)
    assert not checkpoint.exists()
    subprocess.run([*command, "--model", str(alone), "--cluster", "simulation"], timeout=300, check=True)
    assert model.read_bytes() == alone.read_bytes()


def test_repetitions_of_a_sweep_have_the_same_bits(ray):
    data = sweeps.Data("small", *examples(300), "0" * 64, "raw")
    grid = sweeps.Grid("logistic", sweeps.parse_updates("linear,proximal", *PARTS), (0.1, 1.0, 10.0))
    told = []
    here = sweeps.repeat(data, grid, 5, seed=3)
    there = sweeps.repeat(data, grid, 5, seed=3, cluster="auto", done=told.append)
    assert there.runs.tobytes() == here.runs.tobytes()
    assert told == [False] * 5
    with pytest.raises(InvalidInput, match="workers=99: must be at most 2, the cores of the cluster"):
        sweeps.repeat(data, grid, 1, workers=99, cluster="auto")


def test_the_command_sweeps_on_a_cluster_and_keeps_repetitions(ray, tmp_path):
    data = tmp_path / "rows.svm"
    data.write_text("1 1:1 2:0.5\n-1 1:-1\n" * 40)
    command = [GIFTRL, "sweep", str(data), "--betas", "0.1,1", "--updates", "proximal", "--repetitions", "3"]
    on_ray = [*command, "--cluster", "auto", "--out"]
    for out, run in (("here", [*command, "--out"]), ("there", on_ray), ("there", on_ray)):
        options = {"timeout": 300, "check": True, "env": environment_of(ray), "capture_output": True, "text": True}
        done = subprocess.run([*run, str(tmp_path / out)], **options)
    assert "3 of 3 repetitions were read from an earlier run" in done.stdout
    kept = [sorted((tmp_path / out / "repetitions").iterdir()) for out in ("here", "there")]
    assert [path.read_bytes() for path in kept[0]] == [path.read_bytes() for path in kept[1]]
    assert len(kept[0]) == 3
