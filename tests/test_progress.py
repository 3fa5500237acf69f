"""What a terminal of 80 columns shows while a model learns."""

import io
import os
import pty
import re
import struct
import subprocess
import termios
from fcntl import ioctl
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from giftrl.cli.terminal import TABLE_HEADS, Progression, in_columns
from giftrl.streams.reader import Progress
from giftrl.training.model import LaterPassCounts
from tests.commands import GIFTRL, write_rows

pytestmark = pytest.mark.plain

COLOUR, MOVE = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|[\r\n])+")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def lines_of(text):
    """What is written between one movement of the cursor and the next, blanks at the end not counted."""
    return [line.rstrip() for line in MOVE.sub("\n", COLOUR.sub("", text)).splitlines() if line.strip()]


def shown(watched, total=400):
    """What is on the screen at the end: for each piece, the seconds before it, the examples and bytes after it."""
    screen, clock = io.StringIO(), Clock()
    console = Console(file=screen, force_terminal=True, color_system=None, width=80, soft_wrap=True)
    with Progression(console, False, clock=clock) as progression:
        for seconds, examples, consumed in watched:
            clock.now += seconds
            model = SimpleNamespace(examples=examples, repeated=LaterPassCounts())
            reader = SimpleNamespace(progress=Progress(consumed, total))
            trainer = SimpleNamespace(model=model, reader=reader, passes=2, passes_done=0)
            progression.watch(trainer, None, 0, 1, None)
    return lines_of(screen.getvalue())[-1]


def test_the_clock_starts_at_the_first_piece():
    # 30 s until the first piece, of which none count; then 600 examples and an eighth of two passes in 2 s.
    bar = shown([(30.0, 3, 0), (1.0, 201, 50), (1.0, 603, 100)])
    assert bar.split()[-3:] == ["12%", "300/s", "0:00:14"]


def test_examples_before_a_resume_do_not_count():
    bar = shown([(30.0, 5_000_003, 200), (4.0, 5_000_403, 300)])
    assert bar.split()[-3:-1] == ["38%", "100/s"]


def test_the_wait_for_the_first_piece_is_explained():
    waiting = shown([])
    assert "compiling, if this is the first run" in waiting and len(waiting) <= 79
    begun = shown([(30.0, 3, 0)])
    assert "compiling" not in begun and "/s" not in begun  # the rate needs a second piece


@pytest.mark.parametrize("rate", [1, 1000, 99_999_999])
def test_the_time_left_is_never_cut_off(rate):
    bar = shown([(1.0, 5, 0), (1.0, 5 + rate, 1), (1.0, 5 + 2 * rate, 2)], total=10_000_000)
    assert len(bar) <= 79 and re.search(rf" {rate:,}/s \d+:\d\d:\d\d$", bar)


def test_without_a_size_there_is_a_rate_but_no_share():
    bar = shown([(1.0, 3, 10), (2.0, 103, 20)], total=None)
    assert bar.split()[-1] == "50/s" and "%" not in bar


def test_lines_of_the_table_keep_their_columns():
    screen = io.StringIO()
    console = Console(file=screen, width=80, soft_wrap=True)
    batch = SimpleNamespace(labels=np.array([452_600.0]), indptr=np.array([0, 1234]))
    with Progression(console, False) as progression:
        for examples, loss in ((1, 0.5), (1 << 24, 0.75), (1 << 30, 123_456.0)):
            model = SimpleNamespace(
                examples=examples, weight=float(examples), average_loss=loss,
                learner=SimpleNamespace(x=np.ones(3), lam=12_345.678), settings=SimpleNamespace(label_values=None),
            )  # fmt: skip
            progression.line(model, batch, 0, np.array([-123.45678]))
    head, lines = in_columns(TABLE_HEADS), screen.getvalue().splitlines()
    assert [len(line) for line in (head, *lines)] == [79] * 4
    assert lines[1].split() == ["16,777,216", "0.750000", "0.750000", "452600", "-123.4568", "1234", "1.235e+04"]
    assert lines[2].split()[:3] == ["1,073,741,824", "125416", "123456"]


def in_a_terminal(*command, columns):
    """What a command writes to a terminal of that many columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment["TERM"] = "xterm"
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        found = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            found += part
    os.close(ours)
    assert process.returncode == 0, found
    return found.decode()


def test_a_terminal_of_80_columns_is_wide_enough(tmp_path):
    rows = write_rows(tmp_path / "rows.svm", n=300)
    text = in_a_terminal(GIFTRL, "train", str(rows), "--passes", "3", "--holdout", "0", columns=80)
    lines = lines_of(text)
    table = [line for line in lines if re.match(r" *[\d,]+ +\d\.\d{6} ", line) or "since last" in line]
    bars = [line for line in lines if "━" in line]
    assert len(table) == 10 and {len(line) for line in table} == {79}
    assert max(map(len, bars)) <= 79
    assert re.search(r" 100% [\d,]+/s \d:\d\d:\d\d$", bars[-1])
