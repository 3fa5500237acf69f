"""Killed at any moment, a run goes on and ends in the same model, byte by byte."""

import random
import resource
import signal
import subprocess
import time

import pytest

from tests.commands import GIFTRL, environment, giftrl, write_rows


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Enough for a run of a few seconds."""
    folder = tmp_path_factory.mktemp("rows")
    base = write_rows(folder / "base.svm", n=4000, d=300).read_text()
    bad = "1 3:x\n"
    path = folder / "rows.svm"
    path.write_text("".join(base + bad for _ in range(200)))
    return path


def command(rows, model, extra):
    return [
        "train", rows, "--model", model, "--on-error", "skip", "--rejects", f"{model}.rejects", "--quiet",
        "--checkpoint-every", "20000", *extra,
    ]  # fmt: skip


def written(path):
    """Which version of a file this is."""
    return path.stat().st_mtime_ns if path.exists() else None


@pytest.mark.parametrize(
    ("extra", "kills"),
    [
        pytest.param(["--beta", "1", "--regularizer", "curvature"], 6, id="curvature", marks=pytest.mark.verify),
        pytest.param(["--beta", "1", "--dictionary"], 3, id="dictionary", marks=pytest.mark.verify),
        pytest.param([], 3, id="auto"),
        pytest.param(["--dictionary", "--preset", "light"], 2, id="auto, dictionary", marks=pytest.mark.verify),
    ],
)
def test_killed_at_random_moments_the_model_is_the_same(rows, tmp_path, extra, kills):
    whole, broken = tmp_path / "whole.giftrl", tmp_path / "broken.giftrl"
    checkpoint = tmp_path / "broken.giftrl.checkpoint"
    giftrl(*command(rows, whole, extra))  # compiles, if nothing has yet
    begun = time.perf_counter()
    giftrl(*command(rows, whole, extra))
    seconds = time.perf_counter() - begun
    moments = random.Random(0)
    killed = went_on = 0
    deadline = time.monotonic() + 600.0
    while killed < kills and time.monotonic() < deadline:
        went_on += checkpoint.exists()
        before = written(checkpoint)
        resume = ["--resume"] if checkpoint.exists() else []
        process = subprocess.Popen(
            [GIFTRL, *map(str, command(rows, broken, [*extra, *resume]))], env=environment(), stderr=subprocess.PIPE
        )
        if killed > 0:  # the first at any moment, the others after a checkpoint of their own
            while process.poll() is None and written(checkpoint) == before:
                time.sleep(0.01)
        try:
            process.wait(timeout=moments.random() * (seconds if killed == 0 else 0.2 * seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
        if process.returncode == 0:  # it came to the end: the same again, from the beginning
            assert broken.read_bytes() == whole.read_bytes()
            broken.unlink()
    went_on += checkpoint.exists()
    giftrl(*command(rows, broken, [*extra, *(["--resume"] if checkpoint.exists() else [])]))
    assert killed == kills and went_on >= 1
    assert broken.read_bytes() == whole.read_bytes()
    assert (tmp_path / "broken.giftrl.rejects").read_bytes() == (tmp_path / "whole.giftrl.rejects").read_bytes()
    assert not checkpoint.exists()


@pytest.mark.verify
def test_a_killed_run_on_csv_goes_on_to_the_same_model(tmp_path):
    rng = random.Random(1)
    rows, whole, broken = tmp_path / "rows.csv", tmp_path / "whole.giftrl", tmp_path / "broken.giftrl"
    checkpoint = tmp_path / "broken.giftrl.checkpoint"
    lines = [f'{rng.choice("01")},{rng.random():.4f},"v{rng.randrange(50)}\nw"\n' for _ in range(5_000)]
    rows.write_text("label,n,c\n" + ("".join(lines) + "1,x,a\n") * 80)
    extra = ["--beta", "1", "--dictionary"]
    giftrl(*command(rows, whole, extra))
    process = subprocess.Popen([GIFTRL, *map(str, command(rows, broken, extra))])
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and checkpoint.exists()
    giftrl(*command(rows, broken, [*extra, "--resume"]))
    assert broken.read_bytes() == whole.read_bytes()
    assert (tmp_path / "broken.giftrl.rejects").read_bytes() == (tmp_path / "whole.giftrl.rejects").read_bytes()


@pytest.mark.plain
def test_a_full_disk_leaves_the_last_checkpoint(tmp_path):
    rows = write_rows(tmp_path / "rows.svm")
    model = tmp_path / "m.giftrl"
    giftrl("train", rows, "--model", model, "--quiet", "--bits", 8)
    before = model.read_bytes()

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    done = giftrl("train", rows, "--model", model, "--quiet", "--bits", 12, check=False, preexec_fn=small_files)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr.decode() and "m.giftrl" in done.stderr.decode()
    assert model.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.giftrl", "rows.svm"]
