"""Folders in which every format, model and example is ready, and commands that run there."""

import signal

import pytest

from tests.campaign.data import libsvm, write_all
from tests.campaign.harness import Commands, contents

#: The signals of the campaign.
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """Commands in a folder with data, a model, and yesterday's outputs."""
    folder = tmp_path_factory.mktemp("campaign") / "work"
    folder.mkdir()
    write_all(folder)
    (folder / "paper").mkdir()
    libsvm(folder / "paper" / "a9a")
    commands = Commands(folder)
    done = commands(["train", "rows.svm", "--beta", "1", "--bits", "5", "--quiet", "--model", "m"])
    assert done.status == 0, done
    for name in ("new", "s", "p", "r", "plot.svg", "c.arrow"):
        (folder / name).write_bytes(b"yesterday\n")
    yield commands
    commands.close()


@pytest.fixture(scope="module")
def ready(commands):
    """The files of that folder."""
    return contents(commands.folder)
