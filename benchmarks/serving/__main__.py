"""Requests a second and latencies of ``giftrl serve``, and of River and VW behind the same kind of application.

    python -m benchmarks.serving --out docs/service.md

Each service is a process; the clients are another one, on the same machine. Rows have 20 features. The services take
turns in every case. Only giftrl keeps what it learns: with "no sync" it does not wait for the disk.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.serving.load import Measured, load, request
from benchmarks.table import Grid, parse, publish, replaced, wide_console

FEATURES, ROWS = 20, 2_000
LEARN, PREDICT = "/models/m/learn", "/models/m/predict"
PORT = 8765
#: Bytes of a page of the log.
PAGE = 4_120


class Case(NamedTuple):
    """Clients who learn, clients who predict, and the rows of a request."""

    name: str
    learners: int
    askers: int
    rows: int


#: What is measured, besides predictions while the service learns.
CASES = [
    Case(f"{what}, {clients} client{'s' * (clients > 1)}, {rows} row{'s' * (rows > 1)}", *split, rows)
    for rows in (1, 100)
    for clients in (1, 32)
    for what, split in (
        ("predict", (0, clients)), ("learn", (clients, 0)), ("both", ((clients + 1) // 2, (clients + 1) // 2))
    )
]  # fmt: skip


def bodies() -> tuple[list[bytes], list[bytes]]:
    """Rows as JSON lines, with labels and without."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=FEATURES)
    x = rng.normal(size=(ROWS, FEATURES)).round(4)
    bare = [dict(zip((f"f{j}" for j in range(FEATURES)), row, strict=True)) for row in x.tolist()]
    labels = (x @ truth > 0.0).astype(int).tolist()
    told = [json.dumps({"label": y} | row).encode() + b"\n" for y, row in zip(labels, bare, strict=True)]
    return told, [json.dumps(row).encode() + b"\n" for row in bare]


def requests(path: str, lines: list[bytes], rows: int) -> list[bytes]:
    """Requests of so many rows."""
    return [request(path, b"".join(lines[k : k + rows])) for k in range(0, len(lines) - rows + 1, rows)]


@contextlib.contextmanager
def started(name: str, port: int) -> Iterator[int]:
    """A service in a process of its own, that has learnt some rows; its port."""
    told, _ = bodies()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.serving.rivals", name, str(port)]
        if name.startswith("giftrl"):
            sync = "--no-sync" if "no sync" in name else "--sync"
            run = "from giftrl.cli import main; main()"
            command = [sys.executable, "-c", run, "serve", folder, "--port", str(port), sync]
            command += ["--end-after", "3600", "-q"]
        with subprocess.Popen(command) as process:
            try:
                for _ in range(300):
                    with contextlib.suppress(urllib.error.URLError, ConnectionError):
                        if name.startswith("giftrl"):
                            _post(port, "/models/m", b'{"loss": "logistic", "labels": [0, 1]}', "PUT")
                            _wait_until_ready(port)
                        _post(port, LEARN, b"".join(told))
                        break
                    time.sleep(0.1)
                yield port
            finally:
                process.terminate()
                process.wait(60)


def _post(port: int, path: str, body: bytes, method: str = "POST") -> None:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, method=method)
    urllib.request.urlopen(asked, timeout=120).read()


def _wait_until_ready(port: int) -> None:
    """Wait for the compiler."""
    for _ in range(1_200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60).read()
        except urllib.error.HTTPError:
            time.sleep(0.1)
        else:
            return


def syncs(count: int = 300) -> Measured:
    """How long the disk takes to sync a page that is written over another one, as the log of a busy model is."""
    seconds = []
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(bytes(PAGE * count))
        os.fsync(file.fileno())
        for k in range(count):
            os.pwrite(file.fileno(), b"1" * PAGE, PAGE * k)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - begun)
    return Measured(seconds, sum(seconds), 0)


def cases(names: Sequence[str], seconds: float, turns: int) -> dict[str, dict[str, list[Measured]]]:
    """What every service came to in every case; in a case of both, the predictions first."""
    told, bare = bodies()
    found: dict[str, dict[str, list[Measured]]] = {}
    with contextlib.ExitStack() as opened:
        ports = {name: opened.enter_context(started(name, PORT + k)) for k, name in enumerate(names)}
        for case in CASES:
            asking, teaching = requests(PREDICT, bare, case.rows), requests(LEARN, told, case.rows)
            groups = [(asking, case.askers, 0.0), (teaching, case.learners, 0.0)]
            groups = [group for group in groups if group[1]]
            for port in ports.values():
                load(port, groups, 0.3)
            for _ in range(turns):
                if case.learners and not case.askers:
                    found.setdefault(f"a sync of the disk, beside: {case.name}", {}).setdefault("-", []).append(syncs())
                for name, port in ports.items():
                    found.setdefault(case.name, {}).setdefault(name, []).extend(load(port, groups, seconds))
        name = "predict, 1 client, 1 row, while 4 clients learn at half load"
        teaching = requests(LEARN, told, 1)
        for service, port in ports.items():
            full = load(port, [(teaching, 4, 0.0)], seconds)[0]
            pause = 4.0 / full.rate  # as long again as a request takes
            both = load(port, [(requests(PREDICT, bare, 1), 1, 0.002), (teaching, 4, pause)], 2.0 * seconds)
            found.setdefault(name, {})[service] = both
    return found


def grid(found: dict[str, dict[str, list[Measured]]]) -> Grid:
    """A table of all cases."""
    rows = []
    for case, services in found.items():
        for service, every in services.items():
            parts = 2 if case.startswith("both") else 1
            for part in range(parts):
                mine = every[part::parts] if "while" not in case else every[:1]
                size = 100 if case.endswith("100 rows") and "sync of" not in case else 1
                rate = statistics.median_high(each.rate for each in mine)
                joined = Measured([s for each in mine for s in each.seconds], 1.0, 0)
                what = case if parts == 1 else f"{case}: {('predict', 'learn')[part]}"
                rows.append([
                    what, service, f"{rate:,.0f}", f"{rate * size:,.0f}",
                    *(f"{1e3 * joined.slowest(share):.2f}" for share in (0.5, 0.99, 0.999)),
                    f"{sum(each.refused for each in mine)}",
                ])  # fmt: skip
    columns = ["case", "service", "requests a second", "rows a second", "p50, ms", "p99, ms", "p99.9, ms", "refused"]
    return Grid("Services over HTTP", columns, rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    options = parse(
        argv, "benchmarks.serving", __doc__, out=replaced("service"),
        seconds=(2.0, "for how long each case runs at a time"), turns=(3, "how often"),
        services=("giftrl,giftrl no sync,river,vw", "separated by commas"),
    )  # fmt: skip
    console = wide_console()
    with console.status("services"):
        table = grid(cases(options.services.split(","), options.seconds, options.turns))
    publish(console, [table], options.out, "service")


if __name__ == "__main__":
    main()
