"""A base, the third number of VW text: predictions start from it, in training and later."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl import losses
from giftrl.compiled.rows import CSR
from giftrl.errors import BadRow
from giftrl.losses.based import Based
from giftrl.ops.loss import accepts, conjugate, curvature, flow, prox, residual, slope, value
from giftrl.streams.names.features import Hashing
from giftrl.streams.reader import Reader
from giftrl.training import LinearModel, Settings, train
from giftrl.training.model import learn_with_bases
from tests.commands import giftrl
from tests.test_audit import blocks

LOSSES = [losses.get(name) for name in losses.BY_NAME]
numbers = st.floats(-3.0, 3.0)


def label_for(loss, y):
    return next(each for each in (y, abs(y), 1.0) if accepts(loss, each))


@pytest.mark.plain
@given(st.sampled_from(LOSSES), numbers, numbers, numbers, st.floats(0.01, 3.0))
def test_a_loss_with_a_base_is_the_loss_of_shifted_predictions(loss, p, y, base, c):
    y = label_for(loss, y)
    based = Based(loss, np.array([1.0, y]), np.array([9.0, base]))
    assert value(based, p, 1.0) == value(loss, p + base, y)
    assert slope(based, p, 1.0) == slope(loss, p + base, y)
    assert curvature(based, p, 1.0) == curvature(loss, p + base, y)
    a = prox(based, p, 1.0, c)
    assert a == prox(loss, p + base, y, c) and flow(based, p, 1.0, c) == flow(loss, p + base, y, c)
    q = p - a * c
    # Fenchel and Young: equality at a slope, and the proximal a is a slope at the point to which it leads.
    assert value(based, q, 1.0) + conjugate(based, a, 1.0) == pytest.approx(a * q, abs=1e-6)
    # Losses that say so depend on the residual alone.
    if residual(loss):
        assert value(loss, p + base, y) == pytest.approx(value(loss, p, y - base))


def rows_of(x):
    n, d = x.shape
    return CSR(x.ravel().copy(), np.tile(np.arange(d, dtype=np.int32), n), np.arange(n + 1) * d, d)


def made(seed, n=60):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    bases = np.where(rng.random(n) < 0.3, 0.0, rng.normal(size=n).round(1))
    return x, bases, rng


@pytest.mark.plain
@pytest.mark.parametrize(
    ("loss", "update", "regularizer"),
    [
        ("squared", "proximal", "squared_norm"), ("huber", "linear", "curvature"), ("huber", "twostep", "adagrad"),
        ("squared", "truncated", "elastic_net"), ("huber", "iwa", "squared_norm"),
    ],
)  # fmt: skip
def test_with_real_labels_a_base_is_a_shift_of_the_label(loss, update, regularizer):
    x, bases, rng = made(1)
    y = x @ [1.0, -2.0, 0.5] + 3.0 * bases + 0.1 * rng.normal(size=len(x))
    settings = Settings(loss=loss, beta=1.0, update=update, regularizer=regularizer, dtype="float64", bits=2)
    one, two = settings.make_learner(3, 2), settings.make_learner(3, 2)
    predicted = learn_with_bases(one, rows_of(x), y, np.ones(len(y)), bases)
    two.loss = Based(two.loss, y, bases)  # the way of all other losses
    expected = two.learn_rows(rows_of(x), np.arange(float(len(y))), np.ones(len(y))) + bases
    np.testing.assert_allclose(predicted, expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(one.x, two.x, rtol=1e-6, atol=1e-8)
    assert one.certificate.loss_sum == pytest.approx(two.certificate.loss_sum)


@pytest.mark.plain
@pytest.mark.parametrize("beta", ["auto", 1.0])
@pytest.mark.parametrize("bases", ["none", "one", "several"])
def test_the_loss_of_a_run_is_that_of_its_predictions_and_the_certificate_holds(beta, bases):
    x, some, rng = made(2)
    shift = {"none": 0.0 * some, "one": np.full(len(x), 0.7), "several": some}[bases]
    truth = np.array([1.0, -2.0, 0.5])
    y = np.where(rng.random(len(x)) < 1.0 / (1.0 + np.exp(-(x @ truth + shift))), 1.0, -1.0)
    learner = Settings(beta=beta, dtype="float64", bits=2).make_learner(3, 2)
    predicted = learn_with_bases(learner, rows_of(x), y, np.ones(len(y)), shift)
    assert learner.loss == losses.get("logistic")
    phi = np.logaddexp(0.0, -y * predicted).sum()
    assert learner.certificate.loss_sum == pytest.approx(phi)
    for u in (truth, np.zeros(3), -truth):
        regret = phi - np.logaddexp(0.0, -y * (x @ u + shift)).sum()
        assert learner.certificate.regret_bound(u) >= regret - 1e-9


@pytest.mark.plain
@pytest.mark.parametrize("beta", ["auto", "1"])
def test_predictions_start_from_the_base(tmp_path, beta):
    rows, model = tmp_path / "x.vw", tmp_path / "m"
    rng = np.random.default_rng(0)
    lines = []
    for k in range(80):
        base = round(3.0 * rng.normal(), 2)
        lines.append(f"{1 if base + 2 * (k % 2) - 1 > 0 else -1} 1 {base} 'r{k}|f c{k % 2}\n")
    rows.write_text("".join(lines))
    giftrl("train", rows, "--beta", beta, "--model", model, "--quiet", "-p", tmp_path / "p")
    first = float((tmp_path / "p").read_text().split()[0])
    assert first == pytest.approx(float(lines[0].split()[2]))  # nothing is learnt yet
    (tmp_path / "one.vw").write_text("|f c0\n1 1 2.5 |f c0\n1 1 -2.5 |f c0\n")
    plain, more, less = map(float, giftrl("predict", model, tmp_path / "one.vw", "--scores").stdout.split())
    assert (more - plain, plain - less) == pytest.approx((2.5, 2.5))
    _, block, _ = blocks(
        giftrl("predict", model, tmp_path / "one.vw", "--audit").stdout.decode().replace("\t\t", "\t0\t")
    )
    assert float(block["score"]) == pytest.approx(more) and block["features"]["(base)"] == (0.0, 2.5, 1.0, 2.5)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "softmax", "label_values": (1.0, 2.0)}, "models of several classes have none"),
        ({"loss": "hinge"}, "hinge has none with beta auto; give a number for beta"),
        ({"loss": "poisson"}, "poisson has none with beta auto; give a number for beta"),
    ],
)
def test_models_that_cannot_start_from_a_base_say_so(tmp_path, options, words):
    rows = tmp_path / "x.vw"
    rows.write_text("1 1 0 |f a\n1 1 0.5 |f a\n")
    with pytest.raises(BadRow, match=rf"x.vw:2:1: the base 0.5, expected 0: {words}"):
        train(Settings(**options, bits=4), rows)
    for loss in ("hinge", "poisson", "squared_hinge"):
        assert train(Settings(loss=loss, beta=1.0, bits=4), rows).examples == 2


@pytest.mark.plain
def test_bases_stay_with_their_rows(tmp_path):
    rows = tmp_path / "x.vw"
    rows.write_text("1 1 1 |a x |b y\nbad\n1 1 |a x\n7 1 3 |a x\n1 1 4 |a x |b z\n")
    signs = {"accepts": lambda labels: labels == 1.0, "on_error": "skip"}
    for more in ({}, {"interactions": ["ab"]}, {"ngrams": [(":", 2)]}):
        [batch] = Reader(rows, Hashing(6), **signs, **more)
        assert batch.lines.tolist() == [1, 3, 5] and batch.bases.tolist() == [1.0, 0.0, 4.0]
    refused = giftrl("convert", rows, tmp_path / "x.arrow", "--on-error", "skip")
    assert b"1 rows written" in refused.stderr  # converted files have no bases


@pytest.mark.verify
def test_a_compiled_run_is_the_plain_one(tmp_path):
    rows = tmp_path / "x.vw"
    rows.write_text("".join(f"{1 if k % 3 else -1} 1 {k % 4 - 1.5} |f c{k % 5}\n" for k in range(60)))
    weights = []
    for compiled in (True, False):
        model = LinearModel(Settings(beta=1.0, bits=6, dtype="float64"))
        model.learner.compiled = compiled
        for batch in Reader(rows, model.features):
            for _ in model.learn(batch):
                pass
        weights.append(model.learner.x)
    np.testing.assert_allclose(*weights, rtol=1e-9, atol=1e-12)


def test_vowpal_wabbit_starts_from_the_base_too():
    package = pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    workspace = package.Workspace("--quiet --noconstant --loss_function logistic")
    plain, based = (workspace.predict(f"1 1 {base} |f a") for base in (0, 0.5))
    workspace.finish()
    assert based - plain == pytest.approx(0.5)
