"""A cluster of two nodes, begun as docs/distributed.md says: with ``ray start``, and a token that both nodes know."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.commands import GIFTRL
from tests.distributed import write_rows

pytestmark = pytest.mark.verify
#: How long a node may take to begin, in seconds.
PATIENCE = 120.0


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def started(environment, log, *arguments):
    """A node, once it says that it runs."""
    ray = Path(sys.executable).with_name("ray")
    # "--block": the node ends with this process, so that no other cluster of this machine has to.
    command = [ray, "start", "--block", "--num-cpus=1", f"--object-store-memory={150 << 20}", *arguments]
    with log.open("wb") as file:
        node = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)
    limit = time.monotonic() + PATIENCE
    while "Ray runtime started" not in log.read_text(errors="replace"):
        assert node.poll() is None and time.monotonic() < limit, log.read_text(errors="replace")
        time.sleep(0.1)
    return node


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The environment of commands on the cluster, and its address from outside."""
    pytest.importorskip("ray", reason="Ray is not installed; make verify installs it")
    port, outside, logs = free_port(), free_port(), tmp_path_factory.mktemp("logs")
    environment = os.environ | {
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ADDRESS": f"127.0.0.1:{port}",
    }  # fmt: skip
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # the names of sockets must be short
    nodes = []
    try:
        head = f"--port={port}", f"--ray-client-server-port={outside}", f"--temp-dir={folder}"
        nodes.append(
            started(
                environment, logs / "1", "--head", "--node-ip-address=127.0.0.1", "--include-dashboard=false", *head
            )
        )
        nodes.append(started(environment, logs / "2", f"--address=127.0.0.1:{port}"))
        both = "import ray, time; ray.init('auto')\nwhile len(ray.nodes()) < 2: time.sleep(0.1)"
        subprocess.run([sys.executable, "-c", both], env=environment, check=True, timeout=PATIENCE)
        yield environment, f"ray://127.0.0.1:{outside}"
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def run(environment, *arguments):
    return subprocess.run([GIFTRL, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=300)


def test_two_nodes_give_the_model_of_the_simulation(cluster, tmp_path):
    environment, address = cluster
    data = write_rows(tmp_path / "rows.vw", rows=20_000)
    options = "train", data, "--bits", "10", "--workers", "2", "--quiet"
    models = {}
    for where in ("simulation", "auto", address):
        model = tmp_path / "model.giftrl"
        done = run(environment, *options, "--cluster", where, "--model", model)
        assert done.returncode == 0, done.stderr
        models[where] = model.read_bytes()
    assert len(set(models.values())) == 1


def test_a_sweep_from_outside_the_cluster(cluster, tmp_path):
    environment, address = cluster
    data = tmp_path / "rows.svm"
    data.write_text("1 1:1 2:0.5\n-1 1:-1\n" * 40)
    options = "sweep", data, "--betas", "0.1,1", "--updates", "proximal", "--repetitions", "2", "--quiet", "--out"
    kept = []
    for name, more in (("here", ()), ("there", ("--cluster", address))):
        done = run(environment, *options, tmp_path / name, *more)
        assert done.returncode == 0, done.stderr
        kept.append([path.read_bytes() for path in sorted((tmp_path / name / "repetitions").iterdir())])
    assert kept[0] == kept[1] and len(kept[0]) == 2


def test_without_the_token_nothing_is_learnt(cluster, tmp_path):
    environment, _ = cluster
    data = write_rows(tmp_path / "rows.vw", rows=10)
    wrong = environment | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    done = run(wrong, "train", data, "--bits", "8", "--cluster", "auto")
    assert done.returncode != 0 and "cannot be reached" in done.stderr and "Traceback" not in done.stderr
