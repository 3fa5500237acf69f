"""Running the real command."""

import os
import subprocess
import sys
from pathlib import Path

GIFTRL = str(Path(sys.executable).parent / "giftrl")
WIDE = {**os.environ, "COLUMNS": "160", "TERM": "dumb"}


def giftrl(*arguments, stdin=None, redirect=None, check=True, timeout=300, **options):
    """What ``giftrl`` prints and its exit status; ``stdin`` is what it reads, or ``redirect`` a file that it reads."""
    done = subprocess.run(
        [GIFTRL, *map(str, arguments)],
        **({"input": stdin} if redirect is None else {"stdin": redirect}),
        capture_output=True,
        timeout=timeout,
        env=WIDE,
        check=False,
        **options,
    )
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
