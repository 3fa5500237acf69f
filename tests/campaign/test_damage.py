"""Flipped bits and lost ends in every file that giftrl writes and reads again."""

import random

import pytest

from giftrl.streams.source import FORMATS, TEXT_FORMATS
from tests.campaign.data import PACKERS, QUICK
from tests.campaign.harness import LENGTH, contents, counted, one_sentence, restore

pytestmark = pytest.mark.verify
#: In a text file, a flipped bit is another text.
FILES = [f"rows{endings[0]}" for name, endings in FORMATS.items() if name not in TEXT_FORMATS]
FILES += [f"rows.svm{ending}" for ending, _ in PACKERS.values()]


def damaged(data, chosen):
    """The bytes of a file with a bit flipped, or without its end."""
    if chosen.random() < 0.7:
        at = chosen.randrange(len(data) * 8)
        return "flipped bit", data[: at // 8] + bytes([data[at // 8] ^ (1 << at % 8)]) + data[at // 8 + 1 :]
    return "lost end", data[: chosen.randrange(len(data))]


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "m", "rows.svm", "-o", "p", "--quiet"),
        ("inspect", "m", "--json"),
        ("train", "rows.svm", "--from", "m", "--model", "new", "--quiet"),
    ],
    ids=lambda each: each[0],
)
def test_a_damaged_model_is_refused(commands, ready, arguments):
    chosen = random.Random(arguments[0])
    for _ in range(int(60 * LENGTH)):
        kind, data = damaged(ready["m"], chosen)
        restore(commands.folder, ready | {"m": data})
        done = commands(arguments)
        assert done.status == 1, (kind, done)
        one_sentence(done)
        assert contents(commands.folder) == ready | {"m": data}
        counted(f"{kind} in a model")


def test_a_damaged_checkpoint_is_refused(commands, ready):
    arguments = ["train", "rows.csv", "rows.csv", *QUICK, "--model", "new", "-p", "p", "--checkpoint-every", "1"]
    chosen = random.Random(0)
    restore(commands.folder, ready)
    moment = 1
    while not (commands.folder / "new.checkpoint").exists():  # a run that is killed once it has written one
        restore(commands.folder, ready)
        moment += 1
        commands(arguments, signal=9, moment=moment)
    begun = contents(commands.folder)
    for _ in range(int(60 * LENGTH)):
        kind, data = damaged(begun["new.checkpoint"], chosen)
        restore(commands.folder, begun | {"new.checkpoint": data})
        done = commands([*arguments, "--resume"])
        assert done.status == 1, (kind, done)
        one_sentence(done)
        assert contents(commands.folder) == begun | {"new.checkpoint": data}
        counted(f"{kind} in a checkpoint")
    for name in begun:
        if "partial" in name and begun[name]:
            kind, data = damaged(begun[name], chosen)
            restore(commands.folder, begun | {name: data})
            done = commands([*arguments, "--resume"])
            assert done.status == 1 or kind == "lost end", done
            counted(f"{kind} in an unfinished file")


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_a_damaged_converted_file_is_refused_or_read_and_never_a_crash(commands, ready, compression):
    """Arrow files have no checksum: a bit in a number is another number. Everything else is noticed."""
    restore(commands.folder, ready)
    assert (
        commands(["convert", "rows.vw", "c.arrow", "--bits", "5", "--quiet", "--compression", compression]).status == 0
    )
    begun = contents(commands.folder)
    chosen = random.Random(compression)
    for _ in range(int(80 * LENGTH)):
        kind, data = damaged(begun["c.arrow"], chosen)
        restore(commands.folder, begun | {"c.arrow": data})
        done = commands(["train", "c.arrow", *QUICK, "--model", "new"])
        assert done.status in (0, 1), (kind, done)
        now = contents(commands.folder)
        if done.status == 1:
            one_sentence(done)
            assert now == begun | {"c.arrow": data}
        else:
            assert commands(["inspect", "new", "--json"]).status == 0
        counted(f"{kind} in a converted file")


@pytest.mark.parametrize("name", FILES)
def test_damaged_data_are_refused_or_read_and_never_a_crash(commands, ready, name):
    chosen = random.Random(name)
    for _ in range(int(30 * LENGTH)):
        kind, data = damaged(ready[name], chosen)
        restore(commands.folder, ready | {name: data})
        done = commands(["train", name, *QUICK, "--model", "new"])
        assert done.status in (0, 1), (kind, done)
        if done.status == 1:
            one_sentence(done)
            assert contents(commands.folder) == ready | {name: data}
        counted(f"{kind} in data")
