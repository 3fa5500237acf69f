"""The files of one run: never mixed with those of another, and nothing learnt twice."""

import contextlib
import os
import shutil
import signal
import sys

import pytest

from giftrl import files
from giftrl.cli import terminal
from giftrl.files import Output, unfinished
from giftrl.training import Checkpoint, LinearModel, Settings, Trainer
from tests.commands import giftrl, write_rows
from tests.test_nothing_lost import contents, refused

pytestmark = pytest.mark.plain

QUICK = ("--bits", "6", "--quiet")


@pytest.fixture
def days(tmp_path):
    folder = tmp_path / "days"
    folder.mkdir()
    return [write_rows(folder / f"{day}.svm", n=40, seed=day, line="1 3:x") for day in (1, 2)]


def arguments(days, folder, *more):
    """A command that writes checkpoints, predictions and skipped rows."""
    return [
        "train", *days, *QUICK, "--on-error", "skip", "--rejects", folder / "r", "-p", folder / "p",
        "--checkpoint-every", "1", "--model", folder / "m", *more,
    ]  # fmt: skip


def interrupt(days, folder, settings=None, model=None):
    """Begin that command, and stop in the second file."""

    def watch(trainer, batch, *_):
        if batch.source == str(days[1]):
            raise KeyboardInterrupt

    trainer = Trainer(
        LinearModel(settings or Settings(bits=6)) if model is None else LinearModel.load(model)[0],
        [str(day) for day in days], checkpoint=Checkpoint(folder / "m.checkpoint", 1), on_error="skip",
        rejects=folder / "r", predictions=folder / "p",
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        trainer.run(watch)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_file())


@pytest.mark.parametrize("more", [("--checkpoint-every", "10"), ("-p", "P"), ()])
def test_a_new_run_does_not_start_over_the_checkpoint_of_another(days, tmp_path, more):
    interrupt(days, tmp_path)
    more = [tmp_path / "p" if each == "P" else each for each in more]
    said = refused(tmp_path, "train", days[0], *QUICK, "--model", tmp_path / "m", *more)
    assert "--resume" in said and "delete the checkpoint" in said
    with pytest.raises(ValueError, match="may be unfinished"):
        Trainer(LinearModel(Settings(bits=6)), days, checkpoint=Checkpoint(tmp_path / "m.checkpoint", 1)).run()
    giftrl(*arguments(days, tmp_path, "--resume"))
    assert names(tmp_path) == ["m", "p", "r"]


def test_two_runs_with_the_same_predictions_do_not_mix(days, tmp_path):
    """A run is interrupted; another writes the same files; the first goes on."""
    whole = tmp_path / "whole"
    whole.mkdir()
    giftrl(*arguments(days, whole))
    interrupt(days, tmp_path)
    other = [str(tmp_path / "other") if each == tmp_path / "m" else each for each in arguments(days[:1], tmp_path)]
    giftrl(*other)
    giftrl(*arguments(days, tmp_path, "--resume"))
    for name in ("m", "p", "r"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()
    assert names(tmp_path) == ["m", "other", "p", "r"]


@pytest.mark.parametrize("name", ["p", "r"])
def test_an_unfinished_file_of_another_run_is_not_gone_on_with(days, tmp_path, name):
    interrupt(days, tmp_path)
    path = unfinished(tmp_path / name, tmp_path / "m.checkpoint")
    text = path.read_bytes()
    path.write_bytes(text.replace(b"1", b"2"))
    assert "has lost" in refused(tmp_path, *arguments(days, tmp_path, "--resume"))
    path.unlink()
    (tmp_path / name).write_bytes(b"yesterday\n" * 1000)
    assert "has lost" in refused(tmp_path, *arguments(days, tmp_path, "--resume"))
    path.write_bytes(text)
    giftrl(*arguments(days, tmp_path, "--resume"))


def test_a_file_called_partial_is_a_file_like_any_other(days, tmp_path):
    for name in ("p.partial", "r.partial"):
        (tmp_path / name).write_text("mine")
    interrupt(days, tmp_path)
    giftrl(*arguments(days, tmp_path, "--resume"))
    assert [(tmp_path / name).read_text() for name in ("p.partial", "r.partial")] == ["mine"] * 2
    assert names(tmp_path) == ["m", "p", "p.partial", "r", "r.partial"]


def test_a_deleted_checkpoint_leaves_nothing_that_is_gone_on_with(days, tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    giftrl(*arguments(days, whole))
    interrupt(days, tmp_path)
    (tmp_path / "m.checkpoint").unlink()
    giftrl(*arguments(days, tmp_path))
    assert names(tmp_path) == ["m", "p", "r"]
    for name in ("m", "p", "r"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


def test_a_folder_can_be_moved_between_an_interruption_and_its_end(days, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    interrupt(days, here)
    here.rename(tmp_path / "there")
    giftrl(*arguments(days, tmp_path / "there", "--resume"))
    assert names(tmp_path / "there") == ["m", "p", "r"]


def test_two_processes_do_not_write_one_unfinished_file(days, tmp_path):
    from giftrl.errors import InvalidInput

    one = Output(tmp_path / "p", "predictions", checkpoint=tmp_path / "m.checkpoint").open()
    one.write(b"one")
    with pytest.raises(InvalidInput, match="is being written by another run"):
        Output(tmp_path / "p", "predictions", checkpoint=tmp_path / "m.checkpoint").open()
    one.commit()
    assert (tmp_path / "p").read_bytes() == b"one" and names(tmp_path) == ["p"]


@pytest.mark.parametrize("where", ["before the model", "after the model"])
def test_a_run_that_was_killed_at_its_end_is_finished_and_nothing_is_learnt_twice(days, tmp_path, where, monkeypatch):
    whole, m = tmp_path / "whole", tmp_path / "m"
    whole.mkdir()
    giftrl("train", days[0], *QUICK, "--on-error", "skip", "--model", m)
    shutil.copy(m, whole / "m")
    both = ("--from", "M", "--summary", "S")
    giftrl(*arguments(days[1:], whole, *(whole / each.lower() if each in "MS" else each for each in both)))
    command = arguments(days[1:], tmp_path, *(tmp_path / each.lower() if each in "MS" else each for each in both))
    save = LinearModel.save

    def killed(model, path, *more):
        if os.fspath(path) != str(m) or where == "after the model":
            save(model, path, *more)
        if os.fspath(path) == str(m):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LinearModel, "save", killed)
        assert giftrl(*command, check=False).returncode == 130
    assert (m.read_bytes() == (whole / "m").read_bytes()) == (where == "after the model")
    refused(tmp_path, *command)
    giftrl(*command, "--resume")
    assert m.read_bytes() == (whole / "m").read_bytes() and (tmp_path / "p").read_bytes() == (whole / "p").read_bytes()
    assert names(tmp_path) == ["m", "p", "r", "s"]


def test_a_run_that_fails_before_its_first_checkpoint_leaves_nothing(days, tmp_path):
    before = contents(tmp_path)
    days[0].write_text("1 1:1\n" * 3 + "1 x\n")
    before[days[0]] = days[0].read_bytes()
    command = [each for each in arguments(days, tmp_path) if each not in ("--on-error", "skip", "--rejects")]
    command.remove(tmp_path / "r")
    command[command.index("--checkpoint-every") + 1] = "1000"
    assert giftrl(*command, check=False).returncode == 1
    assert contents(tmp_path) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("checkpoint", ["m.checkpoint", None])
def test_a_signal_while_a_file_is_made_leaves_nothing_behind(tmp_path, monkeypatch, number, checkpoint):
    monkeypatch.setattr(files, "EXIT_REQUESTS", [])
    monkeypatch.setattr(terminal, "EXIT_REQUESTS", files.EXIT_REQUESTS)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    lock = files.system.lock
    output = Output(tmp_path / "p", "predictions", checkpoint=checkpoint and tmp_path / checkpoint)
    monkeypatch.setattr(files.system, "lock", lambda file: (os.kill(os.getpid(), number), lock(file))[1])
    earlier = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        terminal.take_signals()
        with pytest.raises(SystemExit) as end, contextlib.ExitStack() as stack:
            output.open_in(stack)
    finally:
        for each, handler in earlier.items():
            signal.signal(each, handler)
    assert end.value.code == 128 + number and not files.UNINTERRUPTED_BLOCKS
    assert list(tmp_path.iterdir()) == []
