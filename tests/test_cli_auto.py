"""``giftrl train`` without a choice of parameters, as users run it: what is trained, shown, kept, and gone on with."""

import json
import re
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from giftrl import losses
from giftrl.errors import InvalidInput, UnknownName
from giftrl.mixtures import MixtureLearner
from giftrl.models import load
from giftrl.training import Checkpoint, LinearModel, Settings, Trainer, train
from giftrl.training.model import summary_of
from tests.commands import GIFTRL, environment, giftrl, write_rows
from tests.test_progress import in_a_terminal, lines_of

pytestmark = pytest.mark.plain

#: A loss, its settings on the command line, and labels from a score.
LOSSES = {
    "logistic": ([], lambda score, rng: np.where(score > 0.0, 1.0, -1.0)),
    "quantile": (
        ["--set", "tau=0.9"],
        lambda score, rng: (1000.0 + 50.0 * score + rng.normal(size=len(score))).round(3),
    ),
    "poisson": ([], lambda score, rng: rng.poisson(np.exp(0.5 * score)).astype(float)),
}


def regression(path, loss, rows=300, features=8, seed=0):
    """Rows of a loss as LIBSVM text."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).round(3) * 10.0 ** rng.integers(-3, 4, features)
    y = LOSSES[loss][1](x / np.abs(x).max(axis=0) @ rng.normal(size=features), rng)
    lines = [f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for row, label in zip(x, y, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("loss", LOSSES)
def test_train_is_the_mixture_and_predict_its_weights(loss, tmp_path):
    rows, model = regression(tmp_path / "rows.svm", loss), tmp_path / "m.giftrl"
    options = ["--loss", loss, *LOSSES[loss][0]]
    found = json.loads(giftrl("train", rows, *options, "--model", model, "--radius", 2, "--json").stdout)
    x, y = load_svmlight_file(str(rows))
    x = np.column_stack([x.toarray(), np.ones(len(y))])
    learner = MixtureLearner(
        x.shape[1], losses.BY_NAME.make(loss, **({"tau": 0.9} if loss == "quantile" else {})), constant=8
    )
    learner.learn(x, y)
    assert found["average_loss"] == pytest.approx(learner.loss_sums[0] / len(y), rel=1e-6)
    assert found["theta_norm"] == pytest.approx(learner.theta_norm, rel=1e-6)
    bounds = found["certificate"]["radius"]["2"]
    assert bounds["regret_bound"] == pytest.approx(learner.certificate.regret_bound_ball(2.0), rel=1e-6)
    assert [each["name"] for each in found["experts"]] == [name for name, _, _ in learner.experts]
    for each, (_, share, total) in zip(found["experts"], learner.experts, strict=True):
        assert each["share"] == pytest.approx(share, rel=1e-4, abs=1e-6)
        assert each["average_loss"] == pytest.approx(total / len(y), rel=1e-4)
    assert "lambda" not in found
    kept = found["settings"]
    assert (kept["beta"], kept["preset"], kept["update"]) == ("auto", "default", None)

    shown = json.loads(giftrl("inspect", model, "--top", 100, "--json").stdout)
    assert shown["experts"] == found["experts"]
    weights = {each["feature"]: each["weight"] for each in shown["weights"]}
    np.testing.assert_allclose([weights[str(j + 1)] for j in range(8)], learner.x[:8], rtol=1e-4)
    # Rows far from all that were seen: clipped predictions of real labels stay in the range of these.
    far = tmp_path / "far.svm"
    far.write_text(rows.read_text() + "0 1:1e7\n0 1:-1e7\n")
    predictions = np.array(giftrl("predict", model, far, "--clip", "--scores").stdout.split(), float)
    there = np.vstack([x, np.eye(1, 9) * 1e7 + np.eye(1, 9, 8), np.eye(1, 9) * -1e7 + np.eye(1, 9, 8)])
    by_hand = there @ [*(weights[str(j + 1)] for j in range(8)), weights["(constant)"]]
    if loss != "logistic":
        low, high = learner.range
        assert np.exp(high) == pytest.approx(y.max()) if loss == "poisson" else (low, high) == (y.min(), y.max())
        by_hand = by_hand.clip(low, high)
        assert set(predictions[-2:].round(6)) == {round(low, 6), round(high, 6)}
    np.testing.assert_allclose(predictions, by_hand, rtol=1e-6, atol=1e-7)


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    rng = np.random.default_rng(0)
    size, rooms, city = rng.uniform(30, 200, 500).round(1), rng.integers(1, 7, 500), rng.choice(["Rome", "Oslo"], 500)
    price = 5000 * size + 20_000 * rooms + 50_000 * (city == "Oslo") + 5000 * rng.normal(size=500)
    path = tmp_path_factory.mktemp("houses") / "houses.csv"
    lines = [f"{p:.0f},{s},{r},{c}" for p, s, r, c in zip(price, size, rooms, city, strict=True)]
    path.write_text("\n".join(["price,size,rooms,city", *lines]) + "\n")
    return path, price


def test_a_table_needs_no_scaling(houses, tmp_path):
    """Prices of a million, sizes, and cities by name, in one pass: nine tenths of the deviation are explained."""
    path, price = houses
    shown = giftrl("train", path, "--label", "price", "--loss", "squared", "--model", tmp_path / "m.giftrl")
    head, first = shown.stderr.decode().partition("\n\n")[2].splitlines()[:2]
    assert head.split()[-1] == "expert" and first.split()[-1] == "c1/4"
    predictions = np.array(giftrl("predict", tmp_path / "m.giftrl", path, "--scores").stdout.split(), float)
    assert np.abs(predictions - price).mean() < 0.1 * np.abs(price - price.mean()).mean()
    assert price.round().min() <= predictions.min() and predictions.max() <= price.round().max()
    exact = json.loads(giftrl("train", path, "--label", "price", "--loss", "squared", "--dictionary", "--json").stdout)
    hashed = json.loads(giftrl("inspect", tmp_path / "m.giftrl", "--json").stdout)
    assert exact["average_loss"] == pytest.approx(hashed["average_loss"], rel=1e-3)
    assert exact["features"] == hashed["features"] == 4
    light = giftrl("train", path, "--label", "price", "--loss", "squared", "--preset", "light", "--json")
    assert len(json.loads(light.stdout)["experts"]) == 4


def test_inspect_shows_experts_in_80_columns(houses, tmp_path):
    giftrl("train", houses[0], "--label", "price", "--loss", "squared", "--model", tmp_path / "m.giftrl", "--quiet")
    lines = lines_of(in_a_terminal(GIFTRL, "inspect", str(tmp_path / "m.giftrl"), columns=80))
    assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
    assert not any(line.startswith("│ lambda ") for line in lines)
    table = lines[lines.index("experts") + 4 :][:10]
    bars = [re.fullmatch(r"│ (\S.*?) +│ (-?\d+\.\d{3}) +│ (█*) *│ (\S+) +│", line).groups() for line in table]
    assert [name for name, _, _, _ in bars][-2:] == ["coin betting", "full matrix"]
    shares = np.array([float(share) for _, share, _, _ in bars])
    assert [len(bar) for _, _, bar, _ in bars][np.abs(shares).argmax()] == 16
    model, _ = LinearModel.load(tmp_path / "m.giftrl")
    alone = [each["average_loss"] for each in summary_of(model)["experts"]]
    assert [loss for _, _, _, loss in bars] == [f"{each:.6g}" for each in alone]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--update", "linear"], "--update linear: must be left out with --beta auto"),
        (["--regularizer", "curvature"], "--regularizer curvature: must be left out with --beta auto"),
        (["--schedule", "sqrt"], "--schedule sqrt: must be left out with --beta auto"),
        (["--no-lookahead"], "--no-lookahead: must be left out with --beta auto"),
        (["--set", "gradient_bound=2"], "give a beta, such as --beta 1.0, to choose the parts yourself"),
        (["--set", "tua=0.9", "--loss", "quantile"], "did you mean 'tau'?"),
        (["--preset", "lite"], "did you mean 'light'?"),
        (["--preset", "light", "--beta", "1"], "--preset light: is of --beta auto, and beta is 1.0"),
    ],
)
def test_what_auto_chooses_is_not_chosen_twice(arguments, words, tmp_path):
    done = giftrl("train", write_rows(tmp_path / "rows.svm", n=3), *arguments, check=False)
    assert done.returncode == 1 and words in done.stderr.decode() and "Traceback" not in done.stderr.decode()


def test_settings_name_their_parts_with_a_number_and_none_without():
    assert (Settings().update, Settings().regularizer, Settings().schedule) == (None, None, None)
    given = Settings(beta=1, schedule="sqrt")
    assert (given.update, given.regularizer, given.schedule) == ("proximal", "squared_norm", "sqrt")
    for each in (Settings(preset="light", dtype="float64"), given):
        assert Settings.restore(json.loads(json.dumps(each.state()))) == each
    assert "preset" not in given.state()
    for beta in ("Auto", "", None, True, [1.0], float("nan"), 0.0):
        with pytest.raises(InvalidInput, match="beta="):
            Settings(beta=beta)
    with pytest.raises(UnknownName, match="logistic"):
        Settings(loss="logistics")
    with pytest.raises(InvalidInput, match="l1=0.1: must be left out"):
        Settings(parameters={"l1": 0.1})


def rows_of(widths, seed):
    """LIBSVM text: rows of these widths, of features that are dense for a while and then no longer."""
    rng = np.random.default_rng(seed)
    lines = []
    for i, width in enumerate(widths):
        first = 1 if i % 3 else 1 + 5 * (i // 20)
        features = " ".join(f"{first + j}:{rng.normal():.3f}" for j in range(width))
        lines.append(f"{rng.choice([-1, 1])} {features}\n")
    return lines


@settings(max_examples=12, deadline=None)
@given(
    widths=st.lists(st.integers(0, 30), min_size=2, max_size=90), bits=st.sampled_from([None, 6, 12]),
    cut=st.floats(0.0, 1.0), preset=st.sampled_from(["default", "light"]), constant=st.booleans(),
    seed=st.integers(0, 9),
)  # fmt: skip
def test_a_model_goes_on_from_its_file_as_if_nothing_had_happened(
    tmp_path_factory, widths, bits, cut, preset, constant, seed
):
    folder = tmp_path_factory.mktemp("cut")
    lines = rows_of(widths, seed)
    at = min(len(lines) - 1, max(1, round(cut * len(lines))))
    parts = [folder / "a.svm", folder / "b.svm"]
    parts[0].write_text("".join(lines[:at]))
    parts[1].write_text("".join(lines[at:]))
    (folder / "whole.svm").write_text("".join(lines))
    made = Settings(bits=bits, preset=preset, constant=constant)
    reading = {"format": "libsvm"}
    train(made, [folder / "whole.svm"], **reading).save(folder / "whole.giftrl")
    train(made, parts, **reading).save(folder / "parts.giftrl")
    train(made, [parts[0]], **reading).save(folder / "half.giftrl")
    model, _ = LinearModel.load(folder / "half.giftrl")
    Trainer(model, [parts[1]], **reading).run().save(folder / "again.giftrl")
    model, _ = LinearModel.load(folder / "whole.giftrl")
    model.save(folder / "copy.giftrl")
    whole = (folder / "whole.giftrl").read_bytes()
    for name in ("parts", "again", "copy"):
        assert (folder / f"{name}.giftrl").read_bytes() == whole


def test_a_file_keeps_only_features_that_were_seen(tmp_path):
    rows = write_rows(tmp_path / "rows.svm")
    train(Settings(), [rows]).save(tmp_path / "m.giftrl")
    arrays, _ = load(tmp_path / "m.giftrl")
    assert arrays["learner.features.seen"].tolist() == [*range(1, 31), 1 << 18]
    assert [arrays[f"learner.features.{name}"].nbytes // 31 for name in ("record", "x", "theta")] == [48, 64, 8]
    assert (tmp_path / "m.giftrl").stat().st_size < 200_000


def test_examples_a_second_are_those_of_this_run(tmp_path):
    rows = [write_rows(tmp_path / f"{name}.svm", n=n) for name, n in (("a", 60), ("b", 40))]
    sources = list(map(str, rows))

    class Stopped(Exception):
        pass

    def watch(trainer, batch, first, last, predictions):
        if trainer.model.examples > 60:
            raise Stopped

    trainer = Trainer(LinearModel(Settings()), sources, checkpoint=Checkpoint(tmp_path / "m.giftrl.checkpoint", 1))
    with pytest.raises(Stopped):
        trainer.run(watch)
    shown = giftrl("train", *sources, "--model", tmp_path / "m.giftrl", "--resume").stderr.decode()
    assert "continuing after 60 examples" in shown and "100 examples, 30 features" in shown
    assert re.search(r"^40 examples learned since going on in \d", shown, re.MULTILINE)
    giftrl("train", *sources, "--model", tmp_path / "whole.giftrl", "--quiet")
    assert (tmp_path / "m.giftrl").read_bytes() == (tmp_path / "whole.giftrl").read_bytes()


@pytest.mark.verify
@pytest.mark.plain(False)
def test_after_a_warm_up_nothing_is_compiled(tmp_path):
    """Training, predicting and inspecting find every loop on disk: the cache does not change."""
    rows, cache = write_rows(tmp_path / "rows.svm"), tmp_path / "cache"

    def run(*arguments):
        command = [GIFTRL, *map(str, arguments)]
        return subprocess.run(
            command, env=environment(GIFTRL_CACHE_DIR=str(cache)), capture_output=True, check=True, timeout=300
        )

    many = tmp_path / "many.svm"
    many.write_text(rows.read_text() * (12_000 // len(rows.read_text().splitlines())))
    warm = run("warmup", "--loss", "hinge", "--regularizer", "auto", "--regularizer", "squared_norm", "--workers")
    for step in ("hinge, auto, libsvm", "hinge, auto, vw", "hinge, squared_norm, libsvm", "auto, workers", "ready in"):
        assert step in warm.stdout.decode()
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*.loop")}
    assert before
    run("train", rows, "--loss", "hinge", "--model", tmp_path / "m.giftrl")
    run("predict", tmp_path / "m.giftrl", rows)
    run("inspect", tmp_path / "m.giftrl")
    run("train", rows, "--loss", "hinge", "--beta", "1", "--update", "truncated", "--schedule", "sqrt")
    two = run("train", many, "--loss", "hinge", "--workers", "2", "--certificate-seconds", "0")
    assert b"s in 1 merge" in two.stderr or b" merges" in two.stderr
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.loop")} == before
