"""Models written by earlier versions: they load for ever, and predict what they predicted."""

import numpy as np
import pytest

from giftrl.streams.reader import Reader
from giftrl.training import LinearModel
from tests.commands import giftrl
from tests.fixtures.models.make import V1

ROWS = "1 |user age:0.5 city_rome |ad id_7\n-1 |user age:-1 city_oslo |ad id_8\n1 |user age:0.2 |ad id_7\n"


@pytest.mark.parametrize(("name", "expected"), [("v1-linear.giftrl", [0.762635294, -0.243880549, 0.72190455])])
def test_an_old_model_predicts_and_goes_on_learning(name, expected, tmp_path):
    """It was trained on these rows: curvature, unit rows, products of user and ad, 6 bits."""
    (tmp_path / "rows.vw").write_text(ROWS)
    path = V1.with_name(name)
    shown = giftrl("predict", path, tmp_path / "rows.vw").stdout.split()
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
    assert model.examples == 6 and np.isfinite(model.average_loss)
