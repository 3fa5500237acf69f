"""The thread that reads ahead: it pauses, it ends with the loop, and it hands over what is raised."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from giftrl.streams.names.features import Dictionary, Hashing, restore
from giftrl.streams.reader import Reader
from giftrl.streams.sources.ahead import Ahead
from tests.stream_rows import named_rows


def test_a_dictionary_can_be_saved_between_batches(tmp_path):
    path = tmp_path / "x.vw"
    path.write_text("".join(f"1 |a f{i} g{i % 10}:2\n" for i in range(5000)))
    features = Dictionary()
    reader = Reader(path, features, block=4000)
    rows, saved = [], None
    for k, batch in enumerate(reader):
        rows += named_rows([batch], features)
        if k == 3:
            with reader.paused():
                saved = restore(*features.state()), batch.end, len(rows)
    again, start, count = saved
    more = []
    for batch in Reader(path, again, block=4000, start=start):
        more += named_rows([batch], again)
    assert more == rows[count:]
    assert again.dimension == features.dimension
    assert [again.name(i) for i in range(again.dimension)] == [features.name(i) for i in range(features.dimension)]


def test_leaving_early_ends_the_thread(tmp_path):
    path = tmp_path / "x.svm"
    path.write_bytes(b"1 1:1 2:2\n" * 200_000)

    def threads():
        return [each for each in threading.enumerate() if each.name == "giftrl-reader"]

    for batch in Reader(path, Hashing(4), block=1 << 12):
        assert len(threads()) == 1 and len(batch)
        break
    batches = iter(Reader(path, Hashing(4), block=1 << 12))
    next(batches)
    batches.close()
    assert threads() == []

    def fail() -> None:
        for _ in Reader(path, Hashing(4), block=1 << 12):
            raise RuntimeError("the learner's own")

    with pytest.raises(RuntimeError, match="the learner's own"):
        fail()
    assert sum(len(batch) for batch in Reader(path, Hashing(4))) == 200_000
    assert threads() == []


def test_work_ahead_hands_over_what_is_raised():
    def items():
        yield 1
        raise KeyError("inside")

    seen = []
    with pytest.raises(KeyError, match="inside"):
        seen.extend(Ahead(items()))
    closed = []

    def endless():
        try:
            while True:
                yield 0
        finally:
            closed.append(True)

    for _ in Ahead(endless()):
        break
    deadline = time.monotonic() + 30
    while not closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert closed == [True]


def test_interrupting_a_wait_for_standard_input():
    code = (
        "from giftrl.streams.reader import Reader\n"
        "from giftrl.streams.names.features import Hashing\n"
        "print('ready', flush=True)\n"
        "for batch in Reader('-', Hashing(4), format='libsvm'): pass\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors and b"Fatal" not in errors
    assert process.returncode != 0
