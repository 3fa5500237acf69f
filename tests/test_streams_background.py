"""The thread that reads ahead: it leaves the features alone, ends with the loop, and hands over what is raised."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from giftrl.errors import InvalidInput
from giftrl.streams.names.features import Dictionary, Hashing
from giftrl.streams.reader import Prefetch, Reader

KINDS = pytest.mark.parametrize("make", [Dictionary, lambda: Hashing(16)], ids=["dictionary", "hashing"])


@KINDS
@pytest.mark.parametrize("name", ["x.vw", "x.svm"])
def test_names_enter_when_a_batch_is_consumed(tmp_path, make, name):
    """The thread works ahead, and the features know what the batches so far have, no more and no less."""
    path = tmp_path / name
    lines = [f"1 |a f{i} g{i % 10}:2\n" if name == "x.vw" else f"1 {i + 1}:1 {i + 70_000}:2\n" for i in range(3000)]
    path.write_text("".join(lines))
    features, twin = make(), make()
    batches = zip(Reader(path, features, block=4000), Reader(path, twin, block=4000, background=False), strict=True)
    for ahead, now in batches:
        time.sleep(0.001)
        assert ahead.indices.tolist() == now.indices.tolist() and ahead.data.tolist() == now.data.tolist()
        state, expected = features.state(), twin.state()
        assert state[0] == expected[0]
        assert all(state[1][key].tolist() == array.tolist() for key, array in expected[1].items())
        assert features.report() == twin.report()


@KINDS
def test_names_of_batches_that_are_not_consumed_are_not_learnt(tmp_path, make):
    path = tmp_path / "x.vw"
    path.write_text("".join(f"1 |a f{i}\n" for i in range(3000)))
    features, twin = make(), make()
    for reader in (Reader(path, features, block=4000), Reader(path, twin, block=4000, background=False)):
        for _ in reader:
            time.sleep(0.05)
            break
    assert features.report() == twin.report()
    assert 0 < features.report().used < 3000
    # Frozen features count the names that they drop when a batch is consumed.
    features.freeze()
    used = features.report().used
    for _ in Reader(path, features, block=4000):
        pass
    assert features.report().used == used
    assert features.report().dropped == (3000 - used if isinstance(features, Dictionary) else 0)


def test_two_readers_cannot_number_one_dictionary_at_once(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.vw").write_text("".join(f"1 | {name}{i}\n" for i in range(3000)))
    features = Dictionary()
    pair = zip(*(Reader(tmp_path / f"{name}.vw", features, block=4000) for name in "ab"), strict=False)
    with pytest.raises(InvalidInput, match="one reader at a time"):
        list(pair)


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
        seen.extend(Prefetch(items()))
    closed = []

    def endless():
        try:
            while True:
                yield 0
        finally:
            closed.append(True)

    for _ in Prefetch(endless()):
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


@pytest.mark.parametrize("begun", [False, True])
def test_a_signal_while_the_thread_is_started_ends_it_all_the_same(monkeypatch, begun):
    start, ended = threading.Thread.start, threading.Event()

    def interrupted(thread):
        if begun:
            start(thread)
        raise SystemExit(130)

    def items():
        try:
            yield from range(100)
        finally:
            ended.set()

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    ahead = Prefetch(items())
    with pytest.raises(SystemExit):
        list(ahead)
    ahead.close()
    assert ended.wait(10.0) or not begun
