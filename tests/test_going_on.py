"""Going on: from a checkpoint only with the same data and settings, from a model with new data."""

import numpy as np
import pytest

from giftrl.kernels import LinearLearner
from giftrl.streams.batch import Position
from giftrl.streams.columns import Columns
from giftrl.streams.source import find_sources
from giftrl.training import Checkpoint, LinearModel, Settings, Trainer
from giftrl.training.model import pack, unpack
from giftrl.training.trainer import InputDigests
from tests.commands import giftrl, write_rows
from tests.test_nothing_lost import refused

pytestmark = pytest.mark.plain

QUICK = ("--bits", "8", "--quiet")


@pytest.fixture
def days(tmp_path):
    return [write_rows(tmp_path / f"day{day}.svm", n=80, seed=day) for day in (1, 2)]


@pytest.mark.parametrize(
    "options",
    [
        (), ("--beta", "1"), ("--dictionary",), ("--preset", "light", "--normalize", "unit"),
        ("--beta", "1", "-q", "::"), ("--beta", "1", "--dictionary", "-q", "::"),
    ],
)  # fmt: skip
def test_two_runs_are_one_run_over_both_files(days, tmp_path, options):
    bits = () if "--dictionary" in options else ("--bits", "8")
    both, d = tmp_path / "both", tmp_path / "d"
    giftrl("train", *days, *options, *bits, "--quiet", "--model", both)
    giftrl("train", days[0], *options, *bits, "--quiet", "--model", d)
    giftrl("train", days[1], "--from", d, "--quiet", "--model", d)
    assert d.read_bytes() == both.read_bytes()


def test_two_tables_are_one(tmp_path):
    for day, text in enumerate(("city,age,label\nRome,3,1\nOslo,4,-1\n", "age,label,city\n7,1,Rome\n5,-1,Bern\n")):
        (tmp_path / f"{day}.csv").write_text(text)
    giftrl("train", tmp_path / "0.csv", tmp_path / "1.csv", *QUICK, "--model", tmp_path / "both")
    giftrl("train", tmp_path / "0.csv", *QUICK, "--model", tmp_path / "d")
    giftrl("train", tmp_path / "1.csv", "-i", tmp_path / "d", "--quiet", "--model", tmp_path / "d")
    assert (tmp_path / "d").read_bytes() == (tmp_path / "both").read_bytes()


def test_going_on_with_other_settings_is_refused(days, tmp_path):
    giftrl("train", days[0], *QUICK, "--model", tmp_path / "d")
    for option, named in [
        (("--loss", "hinge"), "--loss logistic, now hinge"),
        (("--bits", "9"), "--bits 8, now 9"),
        (("--dictionary",), "--bits 8, now --dictionary"),
        (("--labels", "0,1"), "--labels none, now 0,1"),
        (("--no-constant",), "--constant, now --no-constant"),
    ]:
        said = refused(tmp_path, "train", days[1], "--from", tmp_path / "d", *option, "--model", tmp_path / "e")
        assert named in said
    giftrl("train", days[1], "--from", tmp_path / "d", "--bits", "8", "--loss", "logistic", "--quiet")


def test_resuming_without_a_checkpoint_keeps_the_model_and_names_the_remedy(days, tmp_path):
    giftrl("train", days[0], *QUICK, "--model", tmp_path / "d")
    said = refused(tmp_path, "train", days[1], *QUICK, "--resume", "--model", tmp_path / "d")
    assert "there is no checkpoint to resume from" in said and "--from MODEL" in said


def table(columns, n=50):
    """CSV with labels in the columns y and z, which differ, and numbers in the others."""
    lines = [
        ",".join(
            str(1 - 2 * ((i // (j + 1)) % 2) if c in "yz" else (i * (j + 3)) % 7 - 3) for j, c in enumerate(columns)
        )
        for i in range(n)
    ]
    return "\n".join([",".join(columns), *lines]) + "\n"


@pytest.fixture
def interrupted(tmp_path):
    """A run over two tables, interrupted in the second: its files and its command."""
    data = [tmp_path / "1.csv", tmp_path / "2.csv"]
    for path in data:
        path.write_text(table("xyzw"))

    def watch(trainer, batch, *_):
        if batch.source == str(data[1]):
            raise KeyboardInterrupt

    columns = Columns(label="y", ignore=("z",))
    trainer = Trainer(
        LinearModel(Settings(bits=8)), [str(path) for path in data], columns=columns,
        checkpoint=Checkpoint(tmp_path / "m.checkpoint", 1),
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        trainer.run(watch)
    return data, ["train", *data, *QUICK, "--label", "y", "--ignore", "z", "--model", tmp_path / "m", "--resume"]


def test_an_interrupted_run_goes_on(interrupted, tmp_path):
    data, command = interrupted
    giftrl(*command)
    giftrl("train", *data, *QUICK, "--label", "y", "--ignore", "z", "--model", tmp_path / "whole")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "m.checkpoint").exists()


def test_changed_data_are_not_taken_for_those_that_were_read(interrupted, tmp_path):
    [first, _], command = interrupted
    text = first.read_text()
    assert first.write_text(text.replace("-1,", "+1,")) == len(text)  # the same length, labels flipped
    assert "is not the file that was read" in refused(tmp_path, *command)
    first.write_text(text[:-20])
    assert "is not the file that was read" in refused(tmp_path, *command)
    first.write_text(text)
    giftrl(*command)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("y", "z", "--label y, now z"),
        ("--ignore", "--categorical", "--categorical none, now z"),
        ("8", "9", "--bits 8, now 9"),
        ("--resume", ("--resume", "--passes", "2"), "--passes 1, now 2"),
        ("--resume", ("--resume", "--on-error", "skip"), "--on-error stop, now skip"),
        ("--resume", ("--resume", "--format", "csv"), "--format none, now csv"),
    ],
)
def test_changed_options_are_named(interrupted, tmp_path, old, new, named):
    _, command = interrupted
    changed = []
    for each in command:
        changed += (new if isinstance(new, tuple) else (new,)) if each == old else (each,)
    said = refused(tmp_path, *changed)
    assert "was written with other settings" in said and named in said


def test_the_end_of_a_file_may_still_grow(tmp_path):
    """What comes after the position was not read before: it may have changed."""
    path = tmp_path / "log.svm"
    path.write_text("1 1:1\n-1 2:1\n")
    sources = find_sources([path])
    consumed = InputDigests(sources, None)
    known = consumed.until(Position(0, 6, 2))
    path.write_text("1 1:1\n1 7:1\n-1 3:4\n")
    InputDigests(sources, None).require(known, Position(0, 6, 2))
    assert consumed.until(Position(0, 13, 3))[0][0] == 13


def test_a_checkpoint_is_not_a_model_to_go_on_from(interrupted, tmp_path):
    data, _ = interrupted
    said = refused(tmp_path, "train", data[1], "--from", tmp_path / "m.checkpoint")
    assert "is the checkpoint of an unfinished run" in said


def test_a_learner_comes_back_with_as_many_rows_as_it_had():
    """The norm of theta is counted anew after as many entries as there are rows: other rows, other last digits."""
    learner = LinearLearner(7, "squared", compiled=False)
    learner.learn(np.eye(3, 7), [1.0, 2.0, 3.0])
    for dimension, rows in ((9, 7), (7, 7), (5, 5)):
        state = unpack(learner, dimension, pack(learner, dimension))
        assert state["coordinates"].shape == (rows, 1)
        np.testing.assert_array_equal(state["coordinates"], learner.coordinates[:rows])
