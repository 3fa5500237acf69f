"""Every command that takes long has a bar on a terminal, and nothing of it in a pipe."""

import io
import re

import pytest
from rich.console import Console

from giftrl.cli.terminal import Bar
from tests.commands import GIFTRL, giftrl, write_rows
from tests.test_datasets import TEXT, mark, site  # noqa: F401 (fixtures)
from tests.test_progress import Clock, in_a_terminal, lines_of

pytestmark = pytest.mark.plain


def terminal():
    screen = io.StringIO()
    return screen, Console(file=screen, force_terminal=True, color_system=None, width=80, soft_wrap=True)


def test_steps_before_the_one_that_is_named_are_done():
    screen, console = terminal()
    with Bar(console, steps=4) as bar:
        for word in ("one", "two", "three", "[four]"):
            bar.step(word)
    assert re.search(r" 75% \[four\] +[\d:-]+$", lines_of(screen.getvalue())[-1])


def test_a_bar_with_a_time_limit_moves_with_the_clock():
    screen, console, clock = *terminal(), Clock()
    with Bar(console, "thinking", seconds=10.0, clock=clock):
        clock.now += 5.0
    last = lines_of(screen.getvalue())[-1]
    assert last.count("━") == 12 and "thinking" in last


def test_what_takes_no_time_has_no_bar():
    assert not Bar(terminal()[1], seconds=0.1).shown


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bars")
    rows = write_rows(folder / "rows.svm", n=60)
    giftrl("train", rows, "--beta", "1", "--bits", "6", "--model", folder / "model", "--quiet")
    return folder


COMMANDS = {
    "train": ("train", "rows.svm", "--beta", "1", "--bits", "6", "--certificate-seconds", "1"),
    "predict": ("predict", "model", "rows.svm", "-o", "answers.txt"),
    "inspect": ("inspect", "model", "--certificate-seconds", "1"),
    "certify": ("certify", "model", "rows.svm", "--time-limit", "1"),
    "convert": ("convert", "rows.svm", "rows.arrow"),
    "sweep": ("sweep", "rows.svm", "--betas", "1,10", "--updates", "linear", "--repetitions", "2", "--out", "sweep"),
    "warmup": ("warmup", "--loss", "hinge", "--regularizer", "squared_norm"),
}
WORDS = {
    "train": "looking for a proof, 1 s at most", "predict": "60 rows", "inspect": "looking for a proof",
    "certify": "looking for a proof", "convert": "60 rows", "sweep": "2 of 2 repetitions",
    "warmup": "hinge, squared_norm, vw",
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_gets_no_bar(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = giftrl(*COMMANDS[name])
    assert b"\x1b" not in done.stdout + done.stderr and "━" not in done.stderr.decode()


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in ("train", "warmup") else pytest.mark.verify) for each in COMMANDS]
)
def test_a_terminal_gets_a_bar_that_fits(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    lines = lines_of(in_a_terminal(GIFTRL, *COMMANDS[name], columns=80))
    bars = [line for line in lines if "━━━" in line]
    assert any(WORDS[name] in line for line in bars), lines
    assert max(map(len, bars)) <= 79


@pytest.mark.verify
def test_predictions_on_a_terminal_have_no_bar_among_them(folder, monkeypatch):
    monkeypatch.chdir(folder)
    lines = lines_of(in_a_terminal(GIFTRL, "predict", "model", "rows.svm", columns=80))
    assert len(lines) == 61 and not any("━" in line for line in lines)


def test_a_download_tells_how_much_has_arrived(site, tmp_path, mark):  # noqa: F811
    from giftrl.datasets import Dataset, get

    root, address, _ = site
    (root / "binary/few").write_bytes(TEXT)
    parts = []
    get(Dataset("few", "binary/few", "classification", 2, 3, mark), tmp_path / "to", site=address, watch=parts.append)
    assert parts[-1] == 1.0 and all(0.0 < part <= 1.0 for part in parts)
