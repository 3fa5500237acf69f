"""Models written by earlier versions: they load for ever, and predict what they predicted."""

import gzip
import pickle
from typing import Any

import numpy as np
import pytest

from giftrl.models import load
from giftrl.streams.reader import Reader
from giftrl.training import LinearModel
from tests.commands import giftrl
from tests.fixtures.models.make import V1

pytestmark = pytest.mark.plain

ROWS = "1 |user age:0.5 city_rome |ad id_7\n-1 |user age:-1 city_oslo |ad id_8\n1 |user age:0.2 |ad id_7\n"


@pytest.mark.parametrize(("name", "expected"), [("v1-linear.giftrl", [0.762635294, -0.243880549, 0.72190455])])
def test_an_old_model_predicts_and_goes_on_learning(name, expected, tmp_path):
    """It was trained on these rows: curvature, unit rows, products of user and ad, 6 bits."""
    (tmp_path / "rows.vw").write_text(ROWS)
    path = V1.with_name(name)
    shown = giftrl("predict", path, tmp_path / "rows.vw", "--scores").stdout.split()
    np.testing.assert_allclose(np.array(shown, dtype=float), expected, rtol=1e-6)
    model, _ = LinearModel.load(path)
    assert (model.examples, model.settings.regularizer, model.settings.interactions) == (
        3,
        "curvature",
        (("user", "ad"),),
    )
    reader = Reader([tmp_path / "rows.vw"], model.features, interactions=model.settings.interactions, normalize="unit")
    for batch in reader:
        for _ in model.learn(batch):
            pass
        after = model.scores(batch)
    # What the version that wrote it predicts after the same rows.
    np.testing.assert_allclose(after, [1.1193302321204686, -0.4528502820901681, 1.0502362701485808], rtol=1e-6)
    assert model.examples == 6 and model.average_loss == pytest.approx(0.5826525480573125, rel=1e-6)
    model.save(tmp_path / "again.giftrl")
    assert load(tmp_path / "again.giftrl")[1]["settings"] == load(path)[1]["settings"]


def test_a_model_with_sums_over_groups_of_rows_learns_on_without_them(tmp_path):
    """A model of an earlier version with witness_nonzeros=0, trained on 40 rows."""
    old = tmp_path / "old.giftrl"
    old.write_bytes(gzip.decompress(V1.with_name("v2-groups.giftrl.gz").read_bytes()))
    assert "learner.witnesses.ladder" in load(old)[0]
    model, _ = LinearModel.load(old)
    assert model.examples == 40 and model.average_loss == pytest.approx(0.4755812, rel=1e-6)
    (tmp_path / "rows.svm").write_text("1 1:0.5 2:1\n-1 1:-1 3:2\n")
    giftrl("train", tmp_path / "rows.svm", "--from", old, "--model", tmp_path / "new.giftrl")
    arrays = load(tmp_path / "new.giftrl")[0]
    assert not [name for name in arrays if name.startswith("learner.witnesses.")]
    assert LinearModel.load(tmp_path / "new.giftrl")[0].examples == 42


PICKLED = {
    "v1-mixture.pickle": [0.05190274721308019, 1.639192712718455],
    "v1-multiclass-mixture.pickle": [
        [0.7229081287983845, -2.4584666028774755, 1.017157026497213],
        [-0.3395026314091245, -2.447202209329503, 2.064498384688221],
    ],
}


def test_an_old_pickle_of_many_models_goes_on_learning():
    """It was trained on 20 rows: curvature, proximal at two betas with a truncated one between them."""
    learner = pickle.loads(V1.with_name("v2-many-models.pickle").read_bytes())
    rows = np.column_stack([np.random.default_rng(0).normal(size=(20, 2)), np.ones(20)])
    predictions = learner.learn(rows, np.where(rows[:, 0] > 0.0, 1.0, -1.0))
    # What the version that wrote it predicts.
    before = [-0.19872969186616157, 0.04188192477750419, 0.047150590829006966]
    np.testing.assert_allclose(predictions[0], before, rtol=1e-6)
    np.testing.assert_allclose(predictions[-1], [1.487652939253, 1.9537974007558643, 2.4983762652680186], rtol=1e-5)
    assert learner.rounds == 40
    assert learner.loss_sums.tolist() == pytest.approx([16.09597209052949, 13.42216444839035, 11.243546798711314])


@pytest.mark.parametrize("name", PICKLED)
def test_an_old_pickle_of_a_mixture_predicts_and_goes_on_learning(name):
    """It was trained on 20 rows: two normal features and a constant, preset light, not compiled."""
    learner = pickle.loads(V1.with_name(name).read_bytes())
    rows = np.column_stack([np.random.default_rng(0).normal(size=(20, 2)), np.ones(20)])
    np.testing.assert_allclose(learner.predict(rows[:2]), PICKLED[name], rtol=1e-6)
    learner.learn(rows, np.ones(20))
    assert learner.rounds == 40 and np.isfinite(learner.x).all()


#: Two predictions in the middle of a later pass, the last one after it and 20 new rows, and the sum of losses.
IN_A_LATER_PASS: dict[str, tuple[list[Any], Any, float]] = {
    "v2-mixture.pickle": ([1.8800531348603764, -2.035380574569946], -3.390450131409532, 24.65796408897831),
    "v2-multiclass-mixture.pickle": (
        [
            [-1.8872230021407843, 1.6813315785214584, 0.1993915509359807],
            [1.8843162419584332, -1.0212153895900231, -0.8610482964409809],
        ],
        [0.6572221325772822, 0.9981560081835037, -1.659105067719182],
        32.134314801166056,
    ),
}


@pytest.mark.parametrize("name", IN_A_LATER_PASS)
def test_an_old_pickle_goes_on_with_its_later_pass(name):
    """Four features: one far from 0, a sparse one, one that was dense for 10 rows, and a constant; preset light."""
    rng, rows = np.random.default_rng(3), np.arange(40)
    x = np.column_stack(
        [3.0 + rng.normal(size=40), rng.normal(size=40) * (rng.random(40) < 0.3), rng.normal(size=40) * (rows < 10),
         np.ones(40)]
    )  # fmt: skip
    learner = pickle.loads(V1.with_name(name).read_bytes())
    y = rows % 3 if learner.classes else np.where(x[:, 0] + x[:, 1] > 3.0, 1.0, -1.0)
    before, after, loss = IN_A_LATER_PASS[name]
    np.testing.assert_allclose(learner.predict(x[:2]), before, rtol=1e-6)
    learner.learn(x[5:20], y[5:20])
    learner.settle()
    np.testing.assert_allclose(learner.learn(x[20:], y[20:])[-1], after, rtol=2e-3)
    assert learner.rounds == 40 and learner.loss_sums[0] == pytest.approx(loss, rel=1e-4)
