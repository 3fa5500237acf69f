"""Models of version 1, one for each loss and way of training: they load, predict the same, and learn on.

``tests/data/v1/make.py`` describes the files.
"""

import gzip

import numpy as np
import pytest
from numpy.testing import assert_allclose

from giftrl.models import load
from giftrl.streams.reader import Reader
from giftrl.training import LinearModel
from tests.commands import giftrl
from tests.data.v1.make import BETAS, HERE, INPUTS, name, predictions
from tests.fixtures.models.make import V1

EXPECTED = np.load(HERE / "expected.npz")
#: Mixtures of K classes share the steps of one score since version 2: their last digits are others.
CHANGED = {("softmax", "auto"), ("multiclass_hinge", "auto")}
each_loss = pytest.mark.parametrize("loss", INPUTS)
each_beta = pytest.mark.parametrize("beta", BETAS)


def kept(loss, beta, way, folder):
    """The model that version 1 wrote."""
    path = folder / "model.giftrl"
    path.write_bytes(gzip.decompress((HERE / name(loss, beta, way)).read_bytes()))
    return LinearModel.load(path)[0]


def again(model, folder):
    model.save(folder / "again.giftrl")
    return LinearModel.load(folder / "again.giftrl")[0]


def assert_same(model, before):
    """Every bit of two models."""
    assert (model.examples, model.nonzeros, model.weight) == (before.examples, before.nonzeros, before.weight)
    assert model.settings == before.settings
    state, expected = model.learner.state(), before.learner.state()
    assert state.keys() == expected.keys()
    for key in expected:
        assert state[key].dtype == expected[key].dtype and state[key].shape == expected[key].shape, key
        assert state[key].tobytes() == expected[key].tobytes(), key


@pytest.fixture
def plain(monkeypatch):
    """Plain Python whatever the run of the tests compiles: the bits depend on it."""
    monkeypatch.setenv("GIFTRL_PLAIN", "1")


@pytest.mark.parametrize("way", ["plain", "compiled"])
@each_beta
@each_loss
def test_a_model_of_version_1_predicts_what_it_predicted(loss, beta, way, tmp_path, plain):
    model = kept(loss, beta, way, tmp_path)
    predicted, expected = predictions(model, HERE / INPUTS[loss]), EXPECTED[f"{loss}-{beta}-{way}"]
    tolerance = 1e-6 if (loss, beta) in CHANGED else 1e-9
    assert_allclose(predicted, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
    if way == "plain" and (loss, beta) not in CHANGED:
        # The constants of a mixture were summed by NumPy, and are by the loop.
        assert_allclose(predicted, expected, rtol=1e-13 if beta == "auto" else 0.0, atol=0.0)
    assert_same(again(model, tmp_path), model)


ROWS = "1 |user age:0.5 city_rome |ad id_7\n-1 |user age:-1 city_oslo |ad id_8\n1 |user age:0.2 |ad id_7\n"


@pytest.mark.plain
def test_an_old_model_predicts_and_goes_on_learning(tmp_path):
    """It was trained on these rows: curvature, unit rows, products of user and ad, 6 bits."""
    (tmp_path / "rows.vw").write_text(ROWS)
    path = V1.with_name("v1-linear.giftrl")
    shown = giftrl("predict", path, tmp_path / "rows.vw", "--scores").stdout.split()
    np.testing.assert_allclose(np.array(shown, dtype=float), [0.762635294, -0.243880549, 0.72190455], rtol=1e-6)
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


@pytest.mark.plain
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
