"""Files and functions of giftrl that one use visits; imports do not count.

``python -m tests.walk`` prints the numbers, and ``python -m tests.walk train`` (or ``fit``, ``learn``) the functions,
in the order of their first visits.
"""

import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).parents[1] / "src" / "giftrl")


class Walk:
    """The functions that all threads visit while :meth:`watched` is open.

    A thread must have begun after :meth:`install`, or be the one that called it.
    """

    def __init__(self) -> None:
        self.visited: dict[tuple[str, str], None] = {}
        self._watching = False
        self._importing = threading.local()

    def install(self) -> None:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        self._watching = True
        try:
            yield
        finally:
            self._watching = False

    def _profile(self, frame: Any, event: str, argument: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_name == "<module>":
            depth = getattr(self._importing, "depth", 0)
            self._importing.depth = depth + (1 if event == "call" else -1)
            return
        ours = code.co_filename.startswith(ROOT) and not code.co_name.startswith("<")
        if ours and event == "call" and self._watching and not getattr(self._importing, "depth", 0):
            self.visited.setdefault((code.co_filename[len(ROOT) + 1 :], code.co_qualname))

    @property
    def files(self) -> int:
        return len({file for file, _ in self.visited})

    @property
    def functions(self) -> int:
        return len(self.visited)


def train() -> Walk:
    """``giftrl train rows.svm --model m`` with four rows."""
    from giftrl.cli import main

    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.svm")
        rows.write_text("1 1:1 2:0.5\n-1 2:1\n1 1:0.5 3:1\n-1 3:2\n")
        sys.argv = ["giftrl", "train", str(rows), "--model", f"{folder}/m"]
        walk.install()
        with walk.watched(), contextlib.suppress(SystemExit):
            main()
    return walk


def fit() -> Walk:
    """``FTRLClassifier().fit`` on a small array."""
    import numpy as np

    from giftrl.linear import FTRLClassifier

    x, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    walk = Walk()
    walk.install()
    with walk.watched():
        FTRLClassifier().fit(x, y)
    return walk


def learn() -> Walk:
    """One row that the service learns, after others."""
    from tests.serving import serving

    walk = Walk()
    walk.install()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder, "models")) as (client, _):
        client.put("/models/x", json={"loss": "logistic", "labels": [0, 1]}).raise_for_status()
        for label in (0, 1) * 8:
            client.post("/models/x/learn", json={"label": label, "age": 33}).raise_for_status()
        with walk.watched():
            client.post("/models/x/learn", json={"label": 1, "age": 8}).raise_for_status()
    return walk


WALKS = {"train": train, "fit": fit, "learn": learn}

if __name__ == "__main__":
    if len(sys.argv) > 1:
        name, shown = sys.argv[1], sys.argv[2:] != ["--count"]
        walk = WALKS[name]()
        for file, function in walk.visited if shown else ():
            print(file, function)
        print(f"{walk.files} files, {walk.functions} functions", flush=True)
    else:
        import subprocess

        for name in WALKS:
            for _ in range(2):  # the first may have to compile loops
                run = [sys.executable, "-m", "tests.walk", name, "--count"]
                done = subprocess.run(run, capture_output=True, text=True, check=True)
            print(name, done.stdout.splitlines()[-1])
