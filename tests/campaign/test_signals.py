"""Signals before every operation on a file, and at random times, for every command and every format."""

import random
import signal

import pytest

from giftrl.streams.source import FORMATS
from tests.campaign.conftest import SIGNALS
from tests.campaign.data import EXAMPLES, PACKERS, QUICK, TIMED, WRITERS, examples, write_all
from tests.campaign.harness import LENGTH, Commands, contents, counted, orderly, restore

pytestmark = pytest.mark.verify

#: How many of the moments of an example are tried with each signal. A command that draws takes seconds.
MOST = {"sweep": 4, "warmup": 2, "serve": 4, "inspect": 4, "demo": 4}
FILES = [f"rows{FORMATS[name][0]}" for name in WRITERS] + [f"rows.svm{ending}" for ending, _ in PACKERS.values()]
#: What the summary of a run and a figure say of the time, and what else differs from run to run.
VARIES = (*TIMED, "sweep/", "out/")


def same(now, whole, name):
    return now == whole or (name.startswith(VARIES) and now is not None and whole is not None)


def after_fault(commands, arguments, outputs, ready, whole, number, done):
    """Assert that nothing is lost, and that the same command again ends as if nothing had happened."""
    folder = commands.folder
    orderly(done, number)
    now = contents(folder)
    for name, data in ready.items():
        mine = name in outputs or name.startswith(tuple(f"{each}/" for each in outputs))
        assert now.get(name) == data or (mine and same(now.get(name), whole.get(name), name)), name
    going = [name for name in now if name.endswith(".checkpoint")]
    hidden = [name for name in now if "/.giftrl-" in f"/{name}"]
    if number != signal.SIGKILL:
        assert going or not hidden, hidden
    assert all(name in ready or name in whole or name in (*going, *hidden) for name in now), sorted(now)
    if going:
        refused = commands(arguments)
        assert refused.status == 1 and "--resume" in refused.err, refused
        assert contents(folder) == now
        arguments = [*arguments, "--resume"]
        counted("of these, runs that went on from a checkpoint")
    elif "--from" in arguments and now["m"] == whole["m"]:
        return
    done = commands(arguments)
    assert done.status == 0, done
    now = contents(folder)
    assert sorted(now) == sorted(whole), set(now) ^ set(whole)
    for name, data in whole.items():
        assert same(now[name], data, name), name


def campaign(commands, arguments, outputs, ready, most, seed):
    """Every fault of an example: before operations on files, and at random times."""
    folder, chosen = commands.folder, random.Random(seed)
    restore(folder, ready)
    done = commands(arguments)
    assert done.status == 0, done
    whole = contents(folder)
    faults = [{"moment": moment + 1} for moment in range(done.moments)]
    faults = chosen.sample(faults, min(len(faults), int(most * LENGTH)))
    faults += [{"after": chosen.random() * 0.15} for _ in range(int(max(1, most // 4) * LENGTH))]
    for number in SIGNALS:
        for fault in faults:
            restore(folder, ready)
            done = commands(arguments, signal=int(number), **fault)
            after_fault(commands, arguments, outputs, ready, whole, number, done)
        counted(f"{number.name} before an operation on a file", sum("moment" in fault for fault in faults))
        counted(f"{number.name} at a random time", sum("after" in fault for fault in faults))


@pytest.mark.parametrize(
    ("name", "arguments", "outputs"),
    [each for each in examples() if each[0] not in ("datasets", "reproduce")],
    ids=lambda each: str(each)[:20],
)
def test_a_signal_loses_nothing_in_any_command(commands, ready, name, arguments, outputs):
    arguments = ["rows.svm" if each == "DATA" else each for each in arguments]
    campaign(commands, arguments, outputs, ready, MOST.get(name, 12), name)


@pytest.mark.parametrize("data", FILES)
def test_an_interrupted_run_goes_on_to_the_same_bytes_in_every_format(commands, ready, data):
    arguments = [
        "train", "rows.vw" if data.endswith(".vw") else data, data, *QUICK, "--model", "new", "-p", "p",
        "--checkpoint-every", "1", "--on-error", "skip", "--rejects", "r", "--passes", "2",
    ]  # fmt: skip
    campaign(commands, arguments, ("new", "p", "r"), ready, 6, data)


def test_going_on_from_a_model_under_its_own_name_learns_nothing_twice(commands, ready):
    arguments = ["train", "rows.svm", "--from", "m", "--model", "m", "--quiet", "--checkpoint-every", "1"]
    campaign(commands, arguments, ("m",), ready, 20, "from")


def test_a_compiled_run_that_is_killed_goes_on_to_the_same_bytes(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    write_all(folder)
    commands, ready = Commands(folder, plain=False), contents(folder)
    arguments = ["train", "rows.svm", "rows.svm", "--bits", "5", "--quiet", "--model", "new", "-p", "p"]
    try:
        campaign(commands, [*arguments, "--checkpoint-every", "1"], ("new", "p"), ready, 3, "compiled")
    finally:
        commands.close()


def test_a_signal_ends_the_reproduction_of_the_paper_and_leaves_nothing_half_written(commands, ready):
    [(arguments, _)] = EXAMPLES["reproduce"]
    chosen = random.Random(0)
    for number in SIGNALS:
        for _ in range(int(2 * LENGTH)):
            restore(commands.folder, ready)
            orderly(commands(arguments, signal=int(number), after=chosen.random() * 2.0), number)
            now = contents(commands.folder)
            assert {name: now[name] for name in ready} == ready
            if number != signal.SIGKILL:
                assert not [name for name in now if "/.giftrl-" in f"/{name}"]
            counted(f"{number.name} at a random time")
