"""Full disks, files that may not grow, and closed descriptors, for every command."""

import itertools
import random
import shutil
import subprocess

import pytest

from tests.campaign.data import QUICK, TIMED, examples
from tests.campaign.harness import LENGTH, Commands, contents, counted, one_sentence, restore
from tests.commands import GIFTRL, environment

pytestmark = [pytest.mark.verify]
#: Commands that draw take seconds.
DRAWING = ("sweep", "inspect")
# serve writes when it is asked to over HTTP: tests/test_service_faults.py fills its disk.
WRITING = [each for each in examples() if each[0] not in ("certify", "datasets", "reproduce", "serve", "warmup")]


def unharmed(now, ready, whole, outputs):
    """Assert that every file is as it was, or complete, and that there are no others."""
    for name, data in now.items():
        parts = name.startswith(tuple(f"{each}/" for each in outputs))
        assert data == ready.get(name) or (name in outputs and data == whole[name]) or parts, name
    assert not set(ready) - set(now)


@pytest.mark.parametrize(("name", "arguments", "outputs"), WRITING, ids=lambda each: str(each)[:20])
def test_files_that_may_not_grow(commands, ready, name, arguments, outputs):
    arguments = ["rows.svm" if each == "DATA" else each for each in arguments]
    restore(commands.folder, ready)
    assert commands(arguments).status == 0
    whole = contents(commands.folder)
    largest = max(len(data) for file, data in whole.items() if file not in ready or data != ready[file])
    chosen = random.Random(name)
    for _ in range(int((3 if name in DRAWING else 10) * LENGTH)):
        restore(commands.folder, ready)
        done = commands(arguments, largest_file=chosen.randrange(1, largest))
        now = contents(commands.folder)
        if done.status != 0:
            assert done.status == 1, done
            one_sentence(done)
        unharmed(now, ready, whole if done.status else now, outputs)
        counted("file that may not grow")


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory):
    """Commands on a disk of 512 kB of their own."""
    folder = tmp_path_factory.mktemp("disk") / "work"
    folder.mkdir()
    mount = f"mount -t tmpfs -o size=512k tmpfs {folder}"
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "--mount", "sh", "-c", mount], check=False).returncode
    ):
        pytest.skip("no disk can be mounted here")
    disk = Commands(folder, prefix=mount)
    assert disk(["--version"]).status == 0
    yield disk
    disk.close()


@pytest.mark.parametrize(
    ("name", "arguments", "outputs"),
    [
        *(each for each in WRITING if each[0] != "sweep"),
        ("checkpoints", ("train", "DATA", "DATA", *QUICK, "--model", "new", "-p", "p", "--checkpoint-every", "1"),
         ("new", "p")),
    ],
    ids=lambda each: str(each)[:20],
)  # fmt: skip
def test_a_full_disk(small_disk, ready, name, arguments, outputs):
    arguments = ["rows.svm" if each == "DATA" else each for each in arguments]
    ready = {
        file: data for file, data in ready.items() if file in ("m", "rows.svm", "new", "s", "p", "plot.svg", "c.arrow")
    }
    view = small_disk.view
    restore(view, ready)
    assert small_disk(arguments).status == 0
    whole = contents(view)
    chosen = random.Random(name)
    failed = 0
    for _ in range(int((4 if name in DRAWING else 12) * LENGTH)):
        restore(view, ready)
        free = shutil.disk_usage(view).free - 4096 * chosen.randrange(0, 8)
        (view / "filler").write_bytes(bytes(max(0, free)))
        done = small_disk(arguments)
        now = contents(view)
        now.pop("filler")
        if done.status != 0:
            assert done.status == 1, done
            one_sentence(done)
            failed += 1
        going = "new.checkpoint" in now
        mine = {
            file: data for file, data in now.items() if not going or not file.startswith((".giftrl-", "new.checkpoint"))
        }
        varies = set(TIMED) & set(mine)
        unharmed(mine, ready, whole | ({each: mine[each] for each in varies} if done.status == 0 else {}), outputs)
        (view / "filler").unlink()
        if done.status != 0:
            done = small_disk([*arguments, "--resume"] if going else arguments)
            assert done.status == 0, done
            now = contents(view)
            assert sorted(now) == sorted(whole)
            assert all(now[each] == whole[each] for each in whole if each not in TIMED)
        counted("full disk")
    assert failed > 0


@pytest.mark.parametrize("closed", [each for n in (1, 2, 3) for each in itertools.combinations((0, 1, 2), n)], ids=str)
def test_closed_descriptors(commands, ready, closed):
    """A command with what is left writes the same files, or says that standard output is closed."""
    shut = " ".join(f"{each}{'<' if each == 0 else '>'}&-" for each in closed)
    for name, arguments, outputs in WRITING:
        if name not in ("train", "predict", "convert", "inspect"):
            continue
        arguments = ["rows.svm" if each == "DATA" else each for each in arguments]
        restore(commands.folder, ready)
        assert commands(arguments).status == 0
        whole = contents(commands.folder)
        restore(commands.folder, ready)
        done = subprocess.run(
            ["bash", "-c", f'"$@" {shut}', "bash", GIFTRL, *arguments], cwd=commands.folder, capture_output=True,
            env=environment(GIFTRL_PLAIN="1"), check=False,
        )  # fmt: skip
        now = contents(commands.folder)
        assert b"Traceback" not in done.stderr and done.returncode in (0, 1), done
        assert sorted(now) == sorted(whole) or done.returncode == 1
        if done.returncode == 0:
            for each in outputs:
                assert now[each] == whole[each] or each in TIMED, each
        else:
            assert 1 in closed and now == ready, done
        counted("closed descriptors")
