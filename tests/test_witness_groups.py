"""No row is kept: sums over groups of rows, and factors for their duals that are chosen when the run is over."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl import losses
from giftrl.certificates import Kept, groups
from giftrl.certificates import store as at
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.multiclass import MulticlassMixture
from tests.best_losses import any_model, make
from tests.test_witnesses import each_loss, few, learn, learner_for, same, seeds

pytestmark = pytest.mark.plain
GROUPS = ("ladder", "parts", "parts.seen")


@pytest.mark.parametrize("loss", ["hinge", "logistic", "softmax"])
def test_sums_prove_something_about_small_sets_of_rows(loss):
    rng = np.random.default_rng(0)
    n, d, classes = 300, 6, 4 if loss == "softmax" else None
    x = rng.normal(size=(n, d))
    x[:, -1] = 1.0
    p = x @ rng.normal(size=(d, 4)) + 0.3 * rng.normal(size=(n, 4))
    y = np.where(p[:, 0] > 0.0, 1.0, -1.0) if classes is None else p.argmax(axis=1)
    x[:, :-1] *= 10.0 ** rng.uniform(-2.0, 2.0, d - 1)
    if classes is None:
        learner = MixtureLearner(d, loss, constant=d - 1, compiled=False)
    else:
        learner = MulticlassMixture(d, classes, loss, constant=d - 1, compiled=False)
    learner.keep_witnesses(0, d - 1)
    learner.learn(x, y)
    summed = learner.certificate.best_loss(time_limit=60.0)
    best = Kept.of_rows(loss, x, y, classes=classes, constant=d - 1).best_loss(learner.x)
    assert summed.rows == n and summed.rows_kept == 0
    assert 0.3 * best.lower_bound < summed.lower_bound <= best.lower_bound


@pytest.mark.sample(3)
@each_loss
@few
@given(seed=seeds, orders=st.sampled_from([0.0, 4.0]), of_factors=seeds, scale=st.floats(0.1, 10.0))
def test_with_any_factors_no_model_is_below_the_bound(loss, seed, orders, of_factors, scale):
    """In exact arithmetic: what rounding does to the sums of groups has been subtracted."""
    case = make(loss, seed, n=30, orders=orders)
    rng = np.random.default_rng(of_factors)
    with np.errstate(all="ignore"):
        evidence = learn(learner_for(case, 0), case).certificate.evidence
        kept = evidence.kept
        if len(evidence.features) < case.x.shape[1] or not np.isfinite(evidence.model).all():
            return
        w = 4.0 ** rng.uniform(-7.0, 1.0, len(kept.groups.ladder))  # 1 and more are 1
        w[rng.random(len(w)) < 0.2] = 0.0
        shrunk = kept.groups.shrunk(kept, w)
        for units in kept.units():
            found = shrunk.within(units, scale * units.norm(evidence.model))
            for u in (evidence.model, any_model(case, units, found.radius or 1.0), case.zero()):
                assert found.lower_bound <= case.exact(u, units, found.radius)


@pytest.mark.sample(3)
@each_loss
@few
@given(
    seed=seeds,
    numbers=st.integers(1, 2000),
    sizes=st.lists(st.integers(1, 9), max_size=4),
    most=st.sampled_from([4, 128]),
)
def test_groups_add_up_to_the_sums_over_all_rows_and_no_split_matters(loss, seed, numbers, sizes, most):
    """Also where features need more room than there is, so that groups are added up on the way."""
    case = make(loss, seed, n=25)
    case.x[:12, : case.x.shape[1] // 2] = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "NUMBERS", numbers)
        patch.setattr(groups, "GROUPS", most)
        whole = learn(learner_for(case, 0), case)
        assert same(learn(learner_for(case, 0), case, sizes).state(), whole.state())
    store = whole.witnesses.store
    count, scores = len(store.ladder), store.scores.shape[1]
    assert count == 1 or store.parts.size <= numbers
    theta = store.parts.reshape(len(store.parts), count, scores).sum(axis=1)
    assert theta == pytest.approx(store.record[: len(theta), at.THETA :], rel=1e-9, abs=1e-9)
    assert not store.record[len(theta) :].any()
    costs = store.ladder.sum(axis=0)
    assert costs[groups.STEPS] == pytest.approx(store.sums[at.CONJUGATE], rel=1e-9, abs=1e-9)
    assert costs[0] == pytest.approx(-store.sums[at.INFIMUM], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.Softmax()], ids=repr)
def test_a_state_from_before_there_were_groups_goes_on(loss):
    case = make(loss, 3, n=40)
    learner = learner_for(case, 0)
    learner.learn(case.x[:20], case.y[:20], case.h[:20])
    state = {name: array for name, array in learner.state().items() if not name.endswith(GROUPS)}
    older = learner_for(case, 0)
    older.restore(state)
    older.learn(case.x[20:], case.y[20:], case.h[20:])
    assert older.witnesses.rows == 40 and older.certificate.best_loss().rows == 40
    assert older.certificate.evidence.kept.groups is None
    assert not [name for name in older.state() if name.endswith(GROUPS)]
    again = learner_for(case, 0)
    again.restore(older.state())
    assert same(again.state(), older.state())


def test_features_that_come_later_need_no_other_order():
    """A learner that grows has the state of one that had all features from the start."""
    case = make(losses.Logistic(), 5, n=40)
    d = case.x.shape[1]
    case.x[:20, 3:] = 0.0
    large, small = (MixtureLearner(each, "logistic", compiled=False) for each in (d, 3))
    for learner in (large, small):
        learner.keep_witnesses(0)
    large.learn(case.x, case.y)
    small.learn(case.x[:20, :3], case.y[:20])
    small.grow(d)
    small.learn(case.x[20:], case.y[20:])
    assert same(small.witnesses.state(), large.witnesses.state())
