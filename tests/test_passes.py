"""Several passes, as users see them: rows held out, an early stop, the best model kept."""

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from giftrl.config.early_stopping import held_out, settled
from giftrl.errors import InvalidInput
from giftrl.linear import FTRLClassifier, FTRLRegressor
from giftrl.linear.estimator import FTRL
from giftrl.mixtures import MixtureLearner
from giftrl.training import Checkpoint, LinearModel, Settings, Trainer
from tests.commands import giftrl, write_rows
from tests.test_nothing_lost import refused

plain = pytest.mark.plain

CANCER, WINE, DIABETES = (
    (x[::6], y[::6]) for x, y in (load(return_X_y=True) for load in (load_breast_cancer, load_wine, load_diabetes))
)


def clicks(n=600, seed=0):
    """Rows of four names, most of them rare, and what they say about clicks."""
    rng = np.random.default_rng(seed)
    names = rng.zipf(1.3, size=(n, 4)) % 3000
    x = np.zeros((n, 3000))
    np.put_along_axis(x, names, 1.0, axis=1)
    truth = np.random.default_rng(1).normal(size=3000)
    return sparse.csr_array(x), np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-x @ truth)), 1, -1)


def write_clicks(path, n=300, **options):
    x, y = clicks(n, **options)
    x = x.toarray()
    path.write_text("".join(f"{label} " + " ".join(f"{j + 1}:1" for j in np.flatnonzero(row)) + "\n"
                            for row, label in zip(x, y, strict=True)))  # fmt: skip
    return path


# ------------------------------------------------------------------------------------------------------- estimators


@plain
@pytest.mark.parametrize(
    ("model", "data"),
    [
        (FTRLClassifier(passes=4), CANCER),
        (FTRLClassifier(passes=4, beta=1.0, normalize="unit"), CANCER),
        (FTRLClassifier("hinge", passes=4), CANCER),
        (FTRLClassifier(passes=4), WINE),
        (FTRLClassifier("multiclass_hinge", passes=4), WINE),
        (FTRLClassifier("logistic", passes=4), WINE),
        (FTRLClassifier("logistic", passes=4, beta=1.0, normalize="unit"), WINE),
        (FTRLRegressor(passes=4), DIABETES),
        (FTRLRegressor("absolute", passes=4, beta=10.0), DIABETES),
        (FTRLRegressor(passes=4), (DIABETES[0], np.column_stack([DIABETES[1], -DIABETES[1]]))),
    ],
    ids=lambda each: repr(each) if isinstance(each, FTRL) else "",
)
def test_passes_stop_when_the_held_out_loss_rises_and_the_best_is_kept(model, data):
    x, y = data
    model.fit(x, y)
    losses = model.validation_losses_
    assert 1 <= len(losses) <= 4
    assert all(later <= earlier for earlier, later in pairwise(losses[:-1]))
    # The kept model is that of as many passes as had the least loss, with the rows held out learnt in the end.
    kept = int(np.argmin(losses)) + 1
    if kept == len(losses) or losses[-1] > losses[-2]:
        same = type(model)(**model.get_params() | {"passes": max(2, kept)}).fit(x, y)
        if len(same.validation_losses_) == kept:
            assert_array_equal(model.coef_, same.coef_)
    assert np.isfinite(model.average_loss_)
    first = type(model)(**model.get_params() | {"passes": 2}).fit(x, y)
    assert model.average_loss_ == first.average_loss_  # of the first pass


@plain
def test_every_row_is_learnt_in_the_end_and_learning_goes_on():
    x, y = CANCER
    weights = np.where(np.arange(len(y)) % 3 > 0, 1.0, 0.0)
    assert FTRLClassifier(passes=3).fit(x, y, sample_weight=weights).t_ == weights.sum() + 1
    model = FTRLClassifier(passes=3).fit(x[:70], y[:70])
    before, losses = model.coef_.copy(), model.validation_losses_
    assert model.t_ == 71 and losses and model.partial_fit(x[70:], y[70:]).validation_losses_ == losses
    assert model.t_ == len(y) + 1 and not np.array_equal(model.coef_, before)


@plain
def test_nothing_is_held_out_in_one_pass_or_on_request():
    x, y = CANCER
    one, all_rows = FTRLClassifier().fit(x, y), FTRLClassifier(passes=3, validation_fraction=0.0).fit(x, y)
    assert one.validation_losses_ == all_rows.validation_losses_ == []
    assert one.average_loss_ == all_rows.average_loss_ and not np.array_equal(one.coef_, all_rows.coef_)
    for fraction in (-0.1, 0.7, float("nan")):
        with pytest.raises(InvalidInput, match="validation_fraction"):
            FTRLClassifier(passes=2, validation_fraction=fraction).fit(x, y)


# ----------------------------------------------------------------------------------------------------- command line


@given(st.integers(0, 300_000), st.lists(st.integers(0, 999), max_size=5), st.integers(2, 50))
def test_rows_are_held_out_by_their_number_whatever_the_batches(first, sizes, every):
    whole = held_out(first, sum(sizes), 1 / every)
    begins = first + np.cumsum([0, *sizes])[: len(sizes)]
    parts = [held_out(int(begin), size, 1 / every) for begin, size in zip(begins, sizes, strict=True)]
    assert_array_equal(np.concatenate([np.zeros(0, bool), *parts]), whole)
    for number in (first + np.flatnonzero(whole)).tolist():
        assert (number + 1) % (every << (number >> 16).bit_length()) == 0
    assert not held_out(first, sum(sizes), 0.0).any()


@plain
def test_train_reports_the_first_pass_and_the_held_out_loss_by_name(tmp_path):
    rows = write_clicks(tmp_path / "rows.svm")
    one = json.loads(giftrl("train", rows, "--json").stdout)
    done = giftrl("train", rows, "--passes", 5, "--model", tmp_path / "m", "--summary", tmp_path / "s")
    said, summary = done.stderr.decode(), json.loads((tmp_path / "s").read_text())
    losses = summary["passes"]["held_out_losses"]
    assert len(losses) == summary["passes"]["done"] and summary["passes"]["kept"] == np.argmin(losses) + 1
    for k, loss in enumerate(losses):
        assert f"pass {k + 1}: held-out loss {loss:.6f} on 30 rows" in said
    assert f"held-out loss {min(losses):.6f} after pass {summary['passes']['kept']} of {len(losses)}" in said
    assert "in the first pass" in said
    assert summary["examples"] == one["examples"] == 300 and summary["nonzeros"] == one["nonzeros"]
    assert summary["average_loss"] == pytest.approx(one["average_loss"], rel=0.05)
    assert said.count("\n       128 ") == 1  # the table is that of the first pass
    model, _ = LinearModel.load(tmp_path / "m")
    assert model.learner.rounds == model.examples == 300
    said = refused(tmp_path, "train", rows, "--passes", 2, "--holdout", 1)
    assert "--holdout 1: must be 0, or a whole number of at least 2" in said


@pytest.mark.parametrize(
    "settings",
    [Settings(bits=10), Settings(bits=None, beta=1.0), Settings(loss="softmax", label_values=(-1.0, 1.0), bits=10)],
    ids=lambda each: f"{each.loss} {each.beta}",
)
@plain
@pytest.mark.parametrize("holdout", [10, 0])
def test_interrupted_in_any_pass_the_model_is_the_same(tmp_path, settings, holdout):
    files = [write_rows(tmp_path / "rows.svm", n=33, d=9), write_rows(tmp_path / "more.svm", n=27, d=9, seed=1)]
    options = {"passes": 3, "holdout": holdout}
    whole = Trainer(LinearModel(settings), files, **options)
    whole.run().save(tmp_path / "whole")
    total = whole.passes_done * 2
    for stop in {1, total - 2, total - 1}:
        checkpoint = Checkpoint(tmp_path / f"{stop}.checkpoint", 1)
        seen = []

        class Stop(Exception):
            pass

        def watch(trainer, batch, first, last, predictions, seen=seen, stop=stop):
            if (trainer.passes_done, batch.source) not in seen:
                seen.append((trainer.passes_done, batch.source))
            if len(seen) > stop:
                raise Stop

        with pytest.raises(Stop):
            Trainer(LinearModel(settings), files, **options, checkpoint=checkpoint).run(watch)
        second = Trainer(LinearModel(settings), files, **options, checkpoint=checkpoint)
        second.resume()
        second.run().save(tmp_path / "broken")
        assert second.held_out_losses == whole.held_out_losses
        assert (tmp_path / "broken").read_bytes() == (tmp_path / "whole").read_bytes(), stop


@plain
def test_predictions_of_the_first_pass_have_a_line_for_each_row(tmp_path):
    rows = write_clicks(tmp_path / "rows.svm")
    giftrl("train", rows, "--passes", 2, "-p", tmp_path / "p", "--quiet")
    giftrl("train", rows, "-p", tmp_path / "one", "--quiet")
    several, one = (np.loadtxt(tmp_path / name) for name in ("p", "one"))
    assert len(several) == len(one) == 300
    assert_array_equal(several[:9], one[:9])
    assert np.corrcoef(several, one)[0, 1] > 0.8


@plain
def test_going_on_from_a_model_of_several_passes_certifies_what_is_true(tmp_path):
    """A single learner takes rows of later passes for new ones, and its certificate counts them."""
    rng = np.random.default_rng(0)
    rows = [(rng.normal(size=3).round(3), round(rng.normal(), 3)) for _ in range(21)]
    lines = [f"{y} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) + "\n" for x, y in rows]
    for name, part in (("many.svm", lines[:20]), ("one.svm", lines[20:])):
        (tmp_path / name).write_text("".join(part))
    settings = ("--loss", "squared", "--beta", "1", "--dtype", "float64", "--quiet")
    giftrl("train", tmp_path / "many.svm", *settings, "--passes", 5, "--holdout", 0, "--model", tmp_path / "m")
    giftrl("train", tmp_path / "one.svm", "--from", tmp_path / "m", "--model", tmp_path / "n", "--quiet")
    (before, _), (after, _) = LinearModel.load(tmp_path / "m"), LinearModel.load(tmp_path / "n")
    assert before.repeated.examples == after.repeated.examples == 80 and after.certified_weight == 101.0
    bound = after.certificate.best_loss_lower_bound(0.01) / after.certified_weight
    nothing = np.mean([y * y / 2 for _, y in rows[:20]] * 5 + [rows[20][1] ** 2 / 2])
    assert bound <= nothing
    single = giftrl("train", tmp_path / "many.svm", *settings[:-1], "--json", "--model", tmp_path / "o")
    assert before.average_loss == pytest.approx(json.loads(single.stdout)["average_loss"])


def test_a_pipe_cannot_be_read_twice(tmp_path):
    rows, pipe = write_rows(tmp_path / "rows.svm", n=20), tmp_path / "pipe"
    os.mkfifo(pipe)
    done = giftrl("train", rows, pipe, "--format", "libsvm", "--passes", 2, "--quiet", check=False)
    assert done.returncode == 1 and b"pipe" in done.stderr and b"cannot be read twice" in done.stderr
    with pytest.raises(InvalidInput, match="cannot be read twice"):
        Trainer(LinearModel(Settings(bits=4)), "-", format="libsvm", passes=2).run()


@plain
def test_rows_without_weight_are_not_held_out(tmp_path):
    path = tmp_path / "rows.vw"
    rows = (f"{1 if k % 3 else -1} {0 if k % 10 == 9 else 1} |a x:{k % 7} y:{k % 5}\n" for k in range(60))
    path.write_text("".join(rows))
    trainer = Trainer(LinearModel(Settings(bits=6)), path, passes=4)
    trainer.run()
    assert trainer.multi_pass.rows == 0 and trainer.held_out_losses == [] and trainer.multi_pass.passes.kept == 4


@plain
def test_memory_of_later_passes_is_that_of_the_features_seen():
    x, y = sparse.csr_array(np.eye(3, 1 << 20)), np.array([1.0, -1.0, 1.0])
    learner = MixtureLearner(1 << 20, "logistic", compiled=False)
    learner.learn(x, y)
    learner.repeat()
    learner.learn(x, y)
    before = resident()
    copies = [settled(learner) for _ in range(4)]
    assert resident() - before < 100_000_000 < 4 * learner.features.x.nbytes
    assert all(np.array_equal(each.weights_of([0, 1, 2]), copies[0].weights_of([0, 1, 2])) for each in copies)


def resident():
    """The memory that this process has in use, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
