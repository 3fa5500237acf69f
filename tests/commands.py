"""Running the real command."""

import os
import subprocess
import sys
import traceback
from pathlib import Path

from click.testing import CliRunner

from giftrl.cli.commands import main

GIFTRL = str(Path(sys.executable).parent / "giftrl")


def environment(**more):
    """The environment of a command: that of the test, a wide terminal, and more variables."""
    return {**os.environ, "COLUMNS": "160", "TERM": "dumb", **more}


def giftrl(*arguments, stdin=None, redirect=None, check=True, timeout=300, real=False, **options):
    """What ``giftrl`` prints and its exit status; ``stdin`` is what it reads, or ``redirect`` a file that it reads.

    A process of its own where one is asked for (``real``), or something of it matters; starting one takes seconds, so
    other calls run the same command in this process.
    """
    command = [GIFTRL, *map(str, arguments)]
    if real or options or stdin is not None or redirect is not None:
        done = subprocess.run(
            command,
            **({"input": stdin} if redirect is None else {"stdin": redirect}),
            capture_output=True,
            timeout=timeout,
            env=environment(),
            check=False,
            **options,
        )
    else:
        found = CliRunner().invoke(main, command[1:], prog_name="giftrl", env={"COLUMNS": "160", "TERM": "dumb"})
        crash = found.exc_info[2] is not None and not isinstance(found.exception, (SystemExit, type(None)))
        said = "".join(traceback.format_exception(found.exception)).encode() if crash else b""
        done = subprocess.CompletedProcess(command, found.exit_code, found.stdout_bytes, found.stderr_bytes + said)
    if check:
        assert done.returncode == 0, done.stderr.decode()
    return done


def write_rows(path, n=400, d=30, seed=0, line=None):
    """A LIBSVM file with a learnable label; ``line`` replaces the fifth row."""
    import numpy as np

    rng = np.random.default_rng(seed)
    truth = rng.normal(size=d)
    lines = []
    for _ in range(n):
        where = np.sort(rng.choice(d, 6, replace=False))
        values = rng.normal(size=6).round(4)
        label = 1 if values @ truth[where] > 0 else -1
        lines.append(f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in zip(where, values, strict=True)))
    if line is not None:
        lines[4] = line
    path.write_text("\n".join(lines) + "\n")
    return path
