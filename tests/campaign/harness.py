"""What the campaign of faults is made of: commands in folders, and what must be true after a fault."""

import collections
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

#: How many times as many faults as usual; a long campaign is GIFTRL_CAMPAIGN=20.
LENGTH = float(os.environ.get("GIFTRL_CAMPAIGN", "1"))
ROOT = Path(__file__).parents[2]


class Done(NamedTuple):
    """What became of a command."""

    status: int
    out: bytes
    err: str
    moments: int


class Commands:
    """Commands that are forked from one process.

    Args:
        folder: where the commands run, and where what they print is kept.
        plain: whether loops run as plain Python.
        prefix: words of a shell script that the process is started after, in a namespace of its own; None for none.
    """

    def __init__(self, folder, plain=True, prefix=None):
        self.folder = Path(folder)
        zygote = [sys.executable, "-m", "tests.campaign.zygote"]
        if prefix is not None:
            zygote = ["unshare", "--mount", "sh", "-c", f'{prefix} && exec "$@"', "sh", *zygote]
        more = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "160", "TERM": "dumb"}
        environment = os.environ | more | {"GIFTRL_PLAIN": "1" if plain else "0", "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            zygote, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment, text=True
        )

    @property
    def view(self):
        """The folder as the commands see it, which may be a disk of their own."""
        return Path(f"/proc/{self._process.pid}/root{self.folder}")

    def __call__(self, arguments, **fault):
        """Run a command with a fault: see the zygote."""
        said = [self.folder.parent / f"{self.folder.name}.{name}" for name in ("out", "err")]
        request = {"arguments": [str(each) for each in arguments], "cwd": str(self.folder)} | fault
        request |= {"stdout": str(said[0]), "stderr": str(said[1])}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        out, err = (path.read_bytes() for path in said)
        return Done(answer["status"], out, err.decode(errors="replace"), answer["moments"])

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def contents(folder):
    """Every file below a folder, hidden ones too, with its bytes."""
    folder = Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def restore(folder, files):
    """Make a folder hold these files and nothing else."""
    folder = Path(folder)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def one_sentence(done):
    """Assert that a command that failed said why in one line."""
    assert "Traceback" not in done.err, done.err
    assert done.err.startswith("giftrl: ") and done.err.strip().count("\n") == 0, done.err


def orderly(done, number):
    """Assert that a command ended as it must after a signal that came too late, in time, or too early to be caught."""
    assert "Traceback" not in done.err, done.err
    caught = {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number)
    assert done.status in (0, -number, caught), done


def counted(kind, number=1):
    """Note how many faults of a kind there were, for the file that GIFTRL_CAMPAIGN_LOG names."""
    path = os.environ.get("GIFTRL_CAMPAIGN_LOG")
    if path:
        with Path(path).open("a") as file:
            file.write(f"{kind}\t{number}\n")


def totals(path):
    """The sums of what was noted."""
    sums = collections.Counter()
    for line in Path(path).read_text().splitlines():
        kind, number = line.split("\t")
        sums[kind] += int(number)
    return dict(sums)
