"""Numbers at the ends of float32, models that have overflowed, and counts that are wrong."""

import numpy as np
import pytest
import scipy.sparse as sp

from giftrl import schedules
from giftrl.errors import Overflowed
from giftrl.kernels import LinearLearner, LinearLearners
from giftrl.mixtures import MixtureLearner
from giftrl.regularizers import AdaGrad, Curvature, ElasticNet


def curved(dimension, update, schedule, loss="hinge"):
    return LinearLearner(dimension, loss, Curvature(), update, schedule, compiled=False)


@pytest.mark.parametrize("dimension", [3, 9])
def test_a_step_is_measured_by_the_strength_with_which_it_was_made(dimension):
    """The first strength is 1e-20, the next one about 1e24."""
    learner = curved(dimension, "linear", schedules.AdaGradNorm(1.0, 1e-20))
    with pytest.raises(Overflowed):
        learner.learn(np.ones((1, dimension)), [1.0], [1e24])
    assert np.isfinite(learner.x).all() and learner.sound


@pytest.mark.parametrize("dimension", [3, 9])
def test_a_strength_below_float32(dimension):
    learner = curved(dimension, "linear", schedules.Constant(1e42))
    assert learner.learn(np.ones((3, dimension)), np.ones(3), np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert not learner.x.any()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_features_whose_squares_vanish_in_float32(kind):
    """One row: the margin becomes 1, whatever the size of the features."""
    learner = curved(9, "proximal", schedules.Constant(1e47))
    learner.learn(kind(np.full((1, 9), 1e-23)), [1.0])
    np.testing.assert_allclose(learner.x, 1e23 / 9.0, rtol=1e-5)


def test_a_model_that_has_overflowed_predicts_from_the_first_row_on():
    settings = [("linear", "constant")]
    learner = LinearLearners(3, settings, "squared", ElasticNet(0.1, 0.0, AdaGrad()), compiled=False)
    x, y = np.random.default_rng(1).normal(size=(4, 3)), np.ones(4)
    learner.learn(x, y, np.array([1.0, 1.0, 1e300, 1.0]))
    assert learner.loss_sums.tolist() == [np.inf]
    found = [learner.learn(x, y).tolist() for _ in range(2)]
    assert found[0] == found[1] == [[p] for p in (x @ learner.x[:, 0]).tolist()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_counts_that_are_wrong_do_not_lead_beyond_the_list_of_dense_features(dtype):
    rng = np.random.default_rng(2)
    x = sp.random_array((60, 300), density=5 / 300, rng=rng, format="csr")
    learner = MixtureLearner(300, "logistic", constant=299, dtype=dtype, compiled=False)
    learner.learn(x[:10], np.ones(10))
    state = {name: array.copy() for name, array in learner.state().items()}
    state["features.x"][:, int(learner.places.count)] = 1e9
    learner.restore(state)
    assert np.isfinite(learner.learn(x, np.ones(60))).all()
    assert learner.features.counts[2] <= len(learner.features.dense)
