"""``giftrl certify MODEL DATA``: the loss of a model, and the least one of its size."""

import gzip
import json
import re

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from tests.certified import certified, logistic, loss_of, noisy, numbers, refused, write_csv, write_svm, write_vw
from tests.commands import giftrl

pytestmark = pytest.mark.plain

FLAT = ("--beta", "1", "--bits", "6", "--quiet")
REAL = ("squared", "absolute", "huber", "quantile", "epsilon_insensitive")
SIGNS = ("logistic", "hinge", "squared_hinge")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certify")
    x, y = noisy()
    write_svm(folder / "rows.svm", x, y)
    write_csv(folder / "rows.csv", x, y)
    write_vw(folder / "rows.vw", x, 2 * y - 1)
    write_svm(folder / "real.svm", *numbers())
    giftrl("train", folder / "rows.svm", "--labels", "0,1", *FLAT, "--model", folder / "m")
    return folder


@pytest.mark.parametrize("suffix", ["svm", "csv"])
def test_the_bound_is_the_least_loss_and_never_above_it(folder, suffix):
    x, y = noisy()
    best = loss_of(logistic(x, y), x, y)
    options = ("--dictionary",) if suffix == "csv" else ()
    giftrl("train", folder / f"rows.{suffix}", "--labels", "0,1", *FLAT, *options, "--model", folder / f"m.{suffix}")
    found = certified(folder / f"m.{suffix}", folder / f"rows.{suffix}", "--scale", 100)
    assert best * (1.0 - 1e-4) <= found["lower_bound"] <= best * (1.0 + 1e-7)
    assert found["average_loss"] >= best
    assert found["gap"] == pytest.approx(found["average_loss"] / found["lower_bound"] - 1.0)
    assert found["rows"] == len(y) and found["features"] == 7 and found["passes"] == 0
    # At its own size there is no more to gain than among larger models.
    assert certified(folder / f"m.{suffix}", folder / f"rows.{suffix}")["lower_bound"] >= found["lower_bound"]


@pytest.mark.parametrize("loss", [*REAL, *SIGNS, "poisson"])
def test_every_loss_of_one_score(folder, loss):
    rows, labels = folder / "real.svm", ()
    if loss in SIGNS:
        rows, labels = folder / "rows.svm", ("--labels", "0,1")
    if loss == "poisson":
        rows = folder / "rows.svm"
    giftrl("train", rows, "--loss", loss, *labels, *FLAT, "--model", folder / loss)
    # The loss is that of predict, which is linear without --beta auto.
    said = giftrl("predict", folder / loss, rows).stderr.decode()
    found = certified(folder / loss, rows, "--time-limit", 20)
    assert found["average_loss"] == pytest.approx(float(re.search("average loss ([^ ]+)", said)[1]), rel=1e-4)
    assert found["least_possible"] <= found["lower_bound"] <= found["average_loss"] * (1 + 1e-12) + 1e-12
    again = certified(folder / loss, rows, "--witness-nonzeros", 200, "--time-limit", 20)
    assert again["passes"] > 0
    assert again["average_loss"] == pytest.approx(found["average_loss"], rel=1e-9)
    room = found["lower_bound"] - found["least_possible"]
    assert again["lower_bound"] >= found["lower_bound"] - 0.03 * room
    assert again["lower_bound"] <= found["lower_bound"] + 1e-4 * room


@pytest.mark.parametrize("loss", ["softmax", "multiclass_hinge"])
def test_several_classes(tmp_path, loss):
    x, y = noisy(200, 4, classes=3)
    rows = write_svm(tmp_path / "rows.svm", x, y + 1)
    giftrl("train", rows, "--loss", loss, "--labels", "1..3", *FLAT, "--model", tmp_path / "m")
    found = certified(tmp_path / "m", rows, "--scale", 100, "--time-limit", 20)
    assert 0.0 < found["lower_bound"] <= found["average_loss"]
    if loss == "softmax":
        best = loss_of(logistic(x, y), x, y)
        assert best * (1.0 - 1e-3) <= found["lower_bound"] <= best * (1.0 + 1e-7)
    again = certified(tmp_path / "m", rows, "--scale", 100, "--witness-nonzeros", 50, "--time-limit", 20)
    assert 0.9 * found["lower_bound"] <= again["lower_bound"] <= found["lower_bound"] * (1.0 + 1e-6)


def test_weights_and_bases_of_rows(tmp_path):
    x, y = numbers()
    h = np.arange(len(y)) % 4
    base = np.round(x[:, 5], 2)
    lines = [
        f"{label} {weight} {b} | a:{row[0]} b:{row[1]}" for row, label, weight, b in zip(x, y, h, base, strict=True)
    ]
    rows = tmp_path / "rows.vw"
    rows.write_text("\n".join(lines) + "\n")
    giftrl("train", rows, "--loss", "squared", *FLAT, "--model", tmp_path / "m")
    fit = LinearRegression().fit(x[:, :2], y - base, sample_weight=h)
    best = 0.5 * np.average((fit.predict(x[:, :2]) - y + base) ** 2, weights=h)
    found = certified(tmp_path / "m", rows, "--scale", 1000)
    assert found["lower_bound"] == pytest.approx(best, rel=1e-6) and found["lower_bound"] <= best * (1 + 1e-9)
    assert found["weight"] == h.sum()
    plain = "\n".join(f"{1 if label > 0 else -1} 1 0.5 | a:{row[0]}" for row, label in zip(x, y, strict=True))
    (tmp_path / "signs.vw").write_text(plain + "\n")
    giftrl("train", tmp_path / "signs.vw", "--loss", "logistic", *FLAT, "--model", tmp_path / "signs")
    assert "the base 0.5, expected 0: with the logistic loss" in refused(tmp_path / "signs", tmp_path / "signs.vw")


def test_the_words(folder, tmp_path):
    done = giftrl("certify", folder / "m", folder / "rows.svm")
    found = certified(folder / "m", folder / "rows.svm")
    first, last = done.stdout.decode().splitlines()
    assert first.startswith(
        f"average loss {found['average_loss']:.4g}. Lower bound: no linear model with a weight norm up to this one's"
    )
    assert f"below {found['lower_bound']:.4g} on these examples. All examples were stored." in first
    assert last == f"This model is at most {100 * found['gap']:.2g}% from the best."
    assert "300 rows, 7 features, kept in memory" in done.stderr.decode()
    quiet = giftrl("certify", folder / "m", folder / "rows.svm", "--quiet")
    assert (quiet.stdout, quiet.stderr) == (done.stdout, b"")
    passes = giftrl("certify", folder / "m", folder / "rows.svm", "--witness-nonzeros", 10)
    assert re.search("All examples were read [0-9]+ times", passes.stdout.decode())
    assert "pass 1: no model of that size below" in passes.stderr.decode()
    larger = giftrl("certify", folder / "m", folder / "rows.svm", "--scale", 10).stdout.decode()
    assert "up to 10 times this one's" in larger and larger.endswith("from the best of these.\n")


def test_a_loss_of_0_and_a_bound_of_0(tmp_path):
    rows = tmp_path / "easy.svm"
    rows.write_text("2 1:1\n4 1:2\n" * 5)
    (tmp_path / "best").write_text("1 2\n")
    weights = ("--loss", "squared", "--no-constant", rows)
    said = giftrl("certify", "--weights", tmp_path / "best", *weights).stdout.decode()
    assert said == "average loss 0. No model can have a smaller one.\n"
    assert certified("--weights", tmp_path / "best", *weights)["gap"] is None
    (tmp_path / "large").write_text("1 3\n")
    said = giftrl("certify", "--weights", tmp_path / "large", *weights).stdout.decode()
    assert "may have the least possible loss" in said
    assert "at most 1.25 above the best, which may be as low as 0." in said


def test_weights_beyond_all_measure(tmp_path):
    rows = tmp_path / "rows.svm"
    rows.write_text("2 1:1e5\n4 1:2e5\n")
    (tmp_path / "w").write_text("1 1e308\n")
    for more in ((), ("--witness-nonzeros", 0)):
        found = certified("--weights", tmp_path / "w", "--loss", "squared", rows, *more)
        assert (found["average_loss"], found["lower_bound"], found["gap"]) == (None, 0.0, None)
        giftrl("certify", "--weights", tmp_path / "w", "--loss", "squared", rows, *more)


def test_gap_and_time_limit_stop_early(folder):
    tight = certified(folder / "m", folder / "rows.svm")
    for more in ((), ("--witness-nonzeros", 10)):
        loose = certified(folder / "m", folder / "rows.svm", "--gap", 10.0, *more)
        assert loose["gap"] <= 10.0 and loose["lower_bound"] < tight["lower_bound"]
        late = certified(folder / "m", folder / "rows.svm", "--time-limit", 0, *more)
        assert 0.0 <= late["lower_bound"] <= tight["lower_bound"] and late["passes"] <= 1
        assert late["notes"] == ["stopped at --time-limit 0; more time may prove more"]


def test_rows_that_the_model_has_not_seen(folder, tmp_path):
    x, y = noisy(seed=5)
    rows = write_svm(tmp_path / "other.svm.gz", np.hstack([x, x[:, :1] ** 2]), y)
    rows.write_bytes(gzip.compress(rows.read_bytes()))
    found = certified(folder / "m", rows)
    assert found["features"] == 8 and 0.0 < found["lower_bound"] <= found["average_loss"]


def test_standard_input_and_skipped_rows(folder, tmp_path):
    data = (folder / "rows.svm").read_bytes()
    done = giftrl("certify", folder / "m", "-", "--format", "libsvm", "--json", stdin=data)
    assert json.loads(done.stdout)["rows"] == 300
    said = refused(folder / "m", "-", "--format", "libsvm", "--witness-nonzeros", 10, stdin=data)
    assert "cannot be read twice; give a file, or store more with --witness-nonzeros" in said
    bad = tmp_path / "bad.svm"
    bad.write_bytes(data + b"1 2:x\n7 1:1\n")
    for more in ((), ("--witness-nonzeros", 10)):
        found = certified(folder / "m", bad, "--on-error", "skip", "--rejects", tmp_path / "rejects", *more)
        assert (found["rows"], found["rejected"]) == (300, 2)
        assert len((tmp_path / "rejects").read_text().splitlines()) == 2


def test_hostile_calls(folder, tmp_path):
    rows = folder / "rows.svm"
    assert "none: does not exist" in refused(tmp_path / "none", rows)
    assert "none.svm" in refused(folder / "m", tmp_path / "none.svm")
    assert "DATA is missing" in refused(folder / "m")
    assert "--loss needs --weights" in refused(folder / "m", rows, "--loss", "hinge")
    (tmp_path / "empty.svm").write_text("")
    assert "the file is empty" in refused(folder / "m", tmp_path / "empty.svm")
    (tmp_path / "bare.svm").write_text("x 1:1\n")
    skipped = refused(folder / "m", tmp_path / "bare.svm", "--on-error", "skip", "--format", "libsvm")
    assert "bare.svm: has no rows with labels; give rows to certify the model on" in skipped
    assert "expected 0 or 1" in refused(folder / "m", folder / "real.svm")
    vw = tmp_path / "zero.vw"
    vw.write_text("1 0 | a\n-1 0 | b\n")
    giftrl("train", folder / "rows.vw", *FLAT, "--model", tmp_path / "v")
    assert "has no row of positive weight" in refused(tmp_path / "v", vw)
    (tmp_path / "bare.vw").write_text("1 | a\n| b\n")
    assert "no label" in refused(tmp_path / "v", tmp_path / "bare.vw")
    assert "is not in the range" in refused(folder / "m", rows, "--gap", "-1")
