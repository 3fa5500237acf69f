"""The help of every command begins with commands that work as they are."""

import re
import shlex

import pytest

from giftrl.cli.commands import COMMANDS, GROUPS
from tests.commands import giftrl

pytestmark = pytest.mark.plain

#: Commands that take long; ``make verify`` runs them.
SLOW = {"reproduce", "warmup"}
#: The lines of a data set that are left of it, since loops run as plain Python.
LINES = 41


def tried(command):
    """The commands that a help text begins with."""
    shown = giftrl(*command, "--help").stdout.decode()
    block = re.search(r"\n  Try it:\n((?:    .*\n)+)", shown)
    assert block is not None, shown
    return shown, [line.strip() for line in block[1].splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder, and the commands that were run in it."""
    return tmp_path_factory.mktemp("tried"), set()


def run(lines, folder, monkeypatch, short=True):
    place, done = folder
    monkeypatch.chdir(place)
    for line in lines:
        if line not in done:
            program, *arguments = shlex.split(line)
            assert program == "giftrl"
            giftrl(*arguments)
            done.add(line)
            if arguments[0] == "demo" and len(arguments) > 1 and short:
                for path in place.glob(f"{arguments[1]}.*"):
                    path.write_text("".join(path.read_text().splitlines(keepends=True)[:LINES]))


@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in SLOW])
def test_the_first_example_of_every_command_runs(command, folder, monkeypatch):
    shown, lines = tried([command])
    assert shown.index("Try it:") < 400, "before the explanation"
    assert any(line.startswith(f"giftrl {command}") for line in lines)
    run([line for line in lines if line != "giftrl demo"], folder, monkeypatch)  # tests/test_tour.py has that one


@pytest.mark.verify
@pytest.mark.parametrize("command", sorted(SLOW))
def test_the_first_example_of_slow_commands_runs(command, tmp_path, monkeypatch):
    run(tried([command])[1], (tmp_path, set()), monkeypatch, short=False)


def test_the_list_of_commands_is_in_groups_and_begins_with_an_example():
    shown, lines = tried([])
    assert lines[0] == "giftrl demo churn"
    places = [shown.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    for title, group in GROUPS.items():
        block = shown[shown.index(f"\n{title}:\n") :].split("\n\n")[0]
        assert all(re.search(rf"^  {name} ", block, re.MULTILINE) for name in group)
