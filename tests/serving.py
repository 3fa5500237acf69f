"""A service in this process or in one of its own, and what ``giftrl train`` makes of the same rows."""

import contextlib
import json
import re
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pyarrow as pa

from giftrl.service.folder import Folder
from giftrl.service.follow import Follower
from giftrl.service.request_limits import Limits
from giftrl.service.server import listening, running
from giftrl.streams.columns import Columns
from giftrl.training import LinearModel, Settings, Trainer
from tests.commands import GIFTRL, environment

#: Settings with which plain Python learns a row in a millisecond.
QUICK = {"loss": "logistic", "labels": [0, 1], "beta": 1.0, "bits": 6}


@contextlib.contextmanager
def serving(path, clock=None, tokens=None, warm_up=None, **limits):
    """A client of a service in a thread of this process, and the service's folder."""
    folder = Folder(path, Limits(**limits), clock)
    with listening("127.0.0.1", 0) as at, running(folder, at, tokens, warm_up=warm_up):
        address = f"http://127.0.0.1:{at.getsockname()[1]}"
        with httpx.Client(base_url=address, timeout=60.0) as client:
            client.get("/healthz").raise_for_status()
            yield client, folder


def break_store(writer, statement):
    """Have a statement of a model's store fail; returns what mends it."""
    run = writer.store._run

    def failing(given, *more):
        if given.startswith(statement):
            raise sqlite3.OperationalError("disk I/O error")
        return run(given, *more)

    writer.store._run = failing
    return lambda: setattr(writer.store, "_run", run)


@contextlib.contextmanager
def following(path, source, settings=None):
    """A folder of which the model "m" follows a source."""
    folder = Folder(path, Limits())
    if settings is not None:
        folder.create("m", settings)
    follower = Follower(folder, "m", str(source))
    follower.start()
    try:
        yield folder
    finally:
        follower.end()
        follower.join(60)
        folder.close()


@contextlib.contextmanager
def process(path, *options, **more):
    """The real command in a process of its own: the process and its address."""
    command = [GIFTRL, "serve", str(path), "--port", "0", "--end-after", "300", *map(str, options)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(**more)) as running:
        try:
            line = running.stderr.readline()
            found = re.search(r"http://\S+?:\d+", line)
            assert found, line + running.stderr.read()
            yield running, found[0]
        finally:
            running.kill()
            running.wait()


def rows(n, seed=0, d=6):
    """Rows with labels 0 and 1 that can be learnt, as JSON lines."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).round(3)
    y = (x @ np.arange(1.0, d + 1) > 0.0).astype(int)
    city = rng.choice(["Rome", "Oslo", "Graz"], n)
    return [
        json.dumps({"label": int(a), "city": c} | dict(zip("abcdef", v.tolist(), strict=True))).encode() + b"\n"
        for a, c, v in zip(y, city, x, strict=True)
    ]


def trained(path, lines, settings, **options):
    """The bytes of the model file that ``giftrl train`` makes of lines of JSON."""
    data = path / f"sequential-{time.monotonic_ns()}.json"
    data.write_bytes(b"".join(lines))
    model = LinearModel(settings)
    Trainer(model, [data], columns=Columns(label="label"), **options).run()
    model.save(data.with_suffix(".giftrl"))
    return data.with_suffix(".giftrl").read_bytes()


def quick_settings(**more):
    """The settings of :data:`QUICK`."""
    return Settings(loss="logistic", label_values=(0.0, 1.0), beta=1.0, bits=6, **more)


def at_once(call, given):
    """The results of a function for several arguments, each in a thread of its own."""
    with ThreadPoolExecutor(len(given)) as pool:
        return list(pool.map(call, given))


def arrow(columns, **options):
    """A table as an Arrow stream; columns by name, or rows."""
    table, sink = (pa.Table.from_pylist if isinstance(columns, list) else pa.table)(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def until(holds, seconds=60.0):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
