"""Merging linear learners: laws for every loss, regularizer, update and schedule."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from giftrl import losses, schedules, updates
from giftrl.compiled.rows import as_rows
from giftrl.errors import Incompatible, InvalidInput, Overflowed
from giftrl.kernels import LinearLearner, LinearLearners, MulticlassLearner
from giftrl.kernels.scalar_round import ENERGY, LAM, THETA2, TIME, TOTAL
from giftrl.merging import first_steps, merge, put, take
from giftrl.merging.fit import GROUPS
from giftrl.merging.linear import blended, merge_linear
from giftrl.merging.linear_fit import groups_of
from giftrl.merging.team import Team
from giftrl.ops import brings
from giftrl.ops.loss import slope, value
from giftrl.ops.vector_loss import slope as slopes
from giftrl.regularizers import AdaGrad, Centred, Curvature, ElasticNet, SquaredNorm
from giftrl.regularizers.contract import centred, l1_strength
from giftrl.schedules.contract import lam
from giftrl.training.model import pack, unpack
from tests.members import label_for, members
from tests.merged import assert_same_state, copied, every, part, play_merged, window_of

FEATURES, CLASSES = 6, 3
DIAGONAL = [r for r in members("regularizer") if brings(r, "strength")]
SETTINGS = [(update, schedule) for update in members("update") for schedule in members("schedule")]
each_loss = pytest.mark.parametrize("loss", members("loss"), ids=repr)
each_regularizer = pytest.mark.parametrize("regularizer", DIAGONAL, ids=repr)
each_class_loss = pytest.mark.parametrize("loss", [losses.Softmax(), losses.MulticlassHinge()], ids=repr)


def data(loss, seed, rows=40):
    """Rows with frequent and rare features, and labels or classes that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, FEATURES)) * (rng.random((rows, FEATURES)) < [1.0, 1.0, 0.6, 0.3, 0.1, 0.05])
    if isinstance(loss, (losses.Softmax, losses.MulticlassHinge)):
        return 0.5 * x, (x @ rng.normal(size=(FEATURES, CLASSES)) + rng.gumbel(size=(rows, CLASSES))).argmax(axis=1)
    targets = x @ rng.normal(size=FEATURES) + 0.3 * rng.normal(size=rows)
    return 0.5 * x, np.array([label_for(loss, target) for target in targets])


def maker(loss, regularizer, update, schedule, dtype="float64", compiled=False):
    """How to make a learner of these parts; None where they do not go together."""
    options = {"dtype": dtype, "compiled": compiled}

    def make():
        if isinstance(loss, (losses.Softmax, losses.MulticlassHinge)):
            return MulticlassLearner(FEATURES, CLASSES, loss, regularizer, update, schedule, **options)
        return LinearLearner(FEATURES, loss, regularizer, update, schedule, **options)

    try:
        make()
    except Incompatible:
        return None
    return make


def makers(loss, regularizer, **options):
    """Learners with every update and schedule that go with a loss and a regularizer, and a seed for each."""
    made = [maker(loss, regularizer, *setting, **options) for setting in SETTINGS]
    return [(seed, make) for seed, make in enumerate(made) if make is not None]


def phi(loss, p, y):
    """The loss of each row."""
    return np.array(
        [float(value(loss, np.asarray(a, float) if np.ndim(a) else float(a), b)) for a, b in zip(p, y, strict=True)]
    )


def assert_certified(learner, x, y, scores, weights, seed):
    """The loss is that of every prediction made, and no comparator has more regret than its bound."""
    certificate, rng = learner.certificate, np.random.default_rng(seed)
    paid = float(weights @ phi(learner.loss, scores, y))
    assert certificate.loss_sum == pytest.approx(paid, rel=1e-9, abs=1e-9)
    for scale in (0.0, 0.3, 3.0):
        u = scale * rng.normal(size=(FEATURES, *scores.shape[1:]))
        theirs = float(weights @ phi(learner.loss, x @ u, y))
        bound = certificate.regret_bound(u.reshape(-1))
        assert paid - theirs <= bound + 1e-9 * (1.0 + abs(paid) + abs(theirs) + abs(bound))


@pytest.mark.sample(8)
@each_regularizer
@each_loss
def test_certificates_hold_for_any_partition_and_schedule_of_merging(loss, regularizer):
    held = 0
    for seed, make in makers(loss, regularizer, dtype="float32" if repr(loss) < "L" else "float64")[::5]:
        x, y = data(loss, seed)
        weights = np.random.default_rng(seed).integers(0, 3, len(y)).astype(float)
        try:
            learner, scores = play_merged(make, x, y, seed, weights)
        except Overflowed:
            continue
        assert_certified(learner, x, y, scores, weights, seed)
        held += learner.merges > 0
    assert held >= 2


@each_regularizer
@each_class_loss
def test_certificates_of_classes_hold(loss, regularizer):
    made = makers(loss, regularizer)
    assert bool(made) == (l1_strength(regularizer) == 0.0)
    for seed, make in made[::6]:
        x, y = data(loss, seed)
        learner, scores = play_merged(make, x, y, seed)
        assert_certified(learner, x, y, scores, np.ones(len(y)), seed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Squared(), losses.Softmax()], ids=repr)
@each_regularizer
def test_the_sums_are_those_of_every_prediction_made(regularizer, loss, dtype):
    """The linear update picks the slope, so theta and phi* follow from the predictions."""
    make = maker(loss, regularizer, "linear", "sqrt", dtype)
    if make is None:
        assert isinstance(loss, losses.Softmax) and l1_strength(regularizer) > 0.0
        return
    x, y = data(loss, 3)
    learner, scores = play_merged(make, x, y, 3, merges=6)
    assert learner.merges >= 2
    picked = np.zeros_like(scores)
    for i, (p, label) in enumerate(zip(scores, y, strict=True)):
        if scores.ndim == 1:
            picked[i] = slope(loss, p, label)
        else:
            slopes(loss, p, label, picked[i])
    certificate = learner.certificate
    theta = -(x.T @ picked).reshape(-1)
    assert np.linalg.norm(certificate.theta - theta) <= certificate.theta_error + 1e-12
    assert certificate.theta_error < 1e-4
    conjugates = (picked * scores).reshape(len(y), -1).sum(axis=1) - phi(loss, scores, y)
    assert certificate.conjugate_sum == pytest.approx(conjugates.sum(), rel=1e-10)


def one_round(make, loss, seed, parts):
    """A learner that has learnt ten rows, and workers that have learnt others; a window."""
    x, y = data(loss, seed)
    base = make()
    base.learn(x[:10], y[:10])
    workers, _ = part(make, base, x, y, parts)
    return base, workers, window_of(base, x[30:], y[30:])


def merged(make, base, workers, window, steps=None):
    """A learner with the merged state of workers."""
    learner = copied(make, base)
    pieces = [take(each, every(each)) for each in workers]
    piece, found = merge(base, take(base, every(base)), pieces, window, first_steps(base) if steps is None else steps)
    put(learner, piece)
    return learner, found


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Huber(), losses.Softmax()], ids=repr)
@each_regularizer
def test_one_worker_and_workers_without_rows_change_nothing(regularizer, loss):
    for seed, make in makers(loss, regularizer)[::7]:
        parts = [np.arange(10, 18), np.arange(18, 18), np.arange(18, 30)]
        base, (one, empty, two), window = one_round(make, loss, seed, parts)
        assert_same_state(merged(make, base, [one], window)[0], one)
        assert_same_state(merged(make, base, [one, empty], window)[0], one)
        assert_same_state(merged(make, base, [empty, empty], window)[0], base)
        three, both = (merged(make, base, each, window)[0] for each in ([one, empty, two], [one, two]))
        assert_same_state(three, both, 1e-12)
        assert one.merges == 0 and both.merges == 1


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Huber(), losses.Softmax()], ids=repr)
@each_regularizer
def test_the_order_of_workers_does_not_matter(regularizer, loss):
    for seed, make in makers(loss, regularizer)[::7]:
        parts = [np.arange(10, 15), np.arange(15, 24), np.arange(24, 30)]
        base, workers, window = one_round(make, loss, seed, parts)
        (forth, steps), (back, again) = (merged(make, base, each, window) for each in (workers, workers[::-1]))
        np.testing.assert_allclose(steps, again, atol=1e-9)
        back, _ = merged(make, base, workers[::-1], None, steps)
        forth, _ = merged(make, base, workers, None, steps)
        assert_same_state(forth, back, 1e-12)


@each_regularizer
def test_what_is_merged_is_between_the_average_and_the_sum(regularizer):
    for seed, make in makers(losses.Logistic(), regularizer)[::5]:
        parts = [np.arange(10, 20), np.arange(20, 30)]
        base, workers, _ = one_round(make, losses.Logistic(), seed, parts)
        merger = merge_linear(base, take(base, every(base)), [take(each, every(each)) for each in workers])
        points = []
        for step in (0.0, 0.5, 1.0):
            learner = copied(make, base)
            put(learner, blended(base, merger, np.full(FEATURES, step)))
            points.append(learner.x)
            now = learner.states[0]
            assert now[TIME] == 31.0
            assert now[LAM] == lam(learner.schedule, 31, now[TOTAL]) >= base.lam
            theta = base.theta + sum(each.theta - base.theta for each in workers)
            np.testing.assert_allclose(learner.theta, theta, atol=1e-14)
            assert_counted(learner)
        low, high = np.minimum(points[0], points[2]), np.maximum(points[0], points[2])
        assert ((points[1] >= low - 1e-15) & (points[1] <= high + 1e-15)).all()
        if not centred(regularizer):
            fresh = make()
            fresh.learn(*(each[10:10] for each in data(losses.Logistic(), seed)))
            stored = base.coordinates + sum(each.coordinates - base.coordinates for each in workers)
            state = base.state() | {"coordinates": stored, "scalars": learner.states}
            fresh.restore(state)
            np.testing.assert_allclose(points[2], fresh.x, atol=1e-14)  # the sum is that of all duals
            assert learner.ahead is None or np.abs(learner.ahead).max() < 1e-14


def assert_counted(learner):
    """THETA2 and E of one strength for all coordinates are those of what is stored."""
    if not learner.uniform:
        return
    l1 = l1_strength(learner.regularizer)
    left = np.maximum(np.abs(learner.coordinates) - l1, 0.0)
    entry = ENERGY if l1 else THETA2
    assert learner.states[0, entry] == pytest.approx(np.square(left).sum(), rel=1e-12)


def test_one_feature_that_each_worker_has_alone_is_what_one_learner_makes_of_it():
    """Workers with features of their own have nothing to agree on: the sum is exact, and so is the average."""
    x = np.kron(np.eye(3), np.ones((8, 1)))
    y = np.where(np.random.default_rng(0).random(24) < 0.7, 1.0, -1.0)
    for regularizer in (Curvature(), ElasticNet(0.1, base=Curvature()), AdaGrad()):

        def make(regularizer=regularizer):
            return LinearLearner(3, "logistic", regularizer, schedule="constant", dtype="float64", compiled=False)

        base, alone = make(), make()
        alone.learn(x, y)
        workers, _ = part(make, base, x, y, [np.arange(0, 8), np.arange(8, 16), np.arange(16, 24)])
        for step in (0.0, 1.0):
            both, _ = merged(make, base, workers, None, np.full_like(first_steps(base), step))
            np.testing.assert_allclose(both.x, alone.x, atol=1e-13)
            np.testing.assert_allclose(both.theta, alone.theta, atol=1e-13)


def test_the_window_decides():
    """Workers that correct the same error overshoot when they are summed, and the average is behind."""
    rng = np.random.default_rng(1)
    x = np.ones((2000, 1))
    y = np.where(rng.random(2000) < 0.9, 1.0, -1.0)

    def make():
        return LinearLearner(
            1, "logistic", AdaGrad(), schedule=schedules.Constant(0.3), dtype="float64", compiled=False
        )

    def loss(learner):
        return phi(learner.loss, x[800:] @ learner.x, y[800:]).sum()

    workers, _ = part(make, make(), x, y, np.split(np.arange(800), 8))
    ends = [merged(make, make(), workers, None, np.full((1, GROUPS), step))[0] for step in (0.0, 1.0)]
    fitted, steps = merged(make, make(), workers, window_of(make(), x[800:], y[800:]))
    assert 0.0 < steps[0, 0] < 1.0
    assert (steps[0, 1:] == 1.0).all()  # no feature is in these groups, and nothing moves them
    assert loss(fitted) < min(loss(each) for each in ends)


def test_learning_goes_on_and_the_state_is_kept():
    for regularizer in (SquaredNorm(), AdaGrad(), Curvature(), ElasticNet(0.2, base=Centred(AdaGrad()))):
        make = maker(losses.Logistic(), regularizer, "proximal", "temporal", "float32")
        x, y = data(losses.Logistic(), 5)
        learner, _ = play_merged(make, x, y, 5)
        assert (learner.ahead is not None) == (not centred(regularizer))
        kept = [pickle.loads(pickle.dumps(learner)), copied(make, learner), make()]
        kept[2].restore(unpack(kept[2], FEATURES, pack(learner, FEATURES)))
        for other in kept:
            assert_same_state(other, learner)
            assert other.certificate.merged
            np.testing.assert_array_equal(other.certificate.theta, learner.certificate.theta)
        before = learner.x
        learner.grow(FEATURES + 2)
        np.testing.assert_array_equal(learner.x, np.append(before, [0.0, 0.0]))
        wide = np.hstack([x, np.ones((len(x), 2))])
        learner.learn(wide, y)
        assert learner.sound and learner.theta.shape == (FEATURES + 2,)


def test_a_state_that_does_not_fit_is_refused():
    make = maker(losses.Logistic(), SquaredNorm(), "proximal", "temporal", "float32")
    learner, _ = play_merged(make, *data(losses.Logistic(), 5), 5)
    state = learner.state()
    for name, wrong in (("ahead", state["ahead"][1:]), ("ahead", state["ahead"] * np.nan), ("merges", np.array([-1]))):
        with pytest.raises(InvalidInput, match=name):
            make().restore(state | {name: wrong})


def test_theorems_about_one_run_are_refused_by_name():
    make = maker(losses.Logistic(), SquaredNorm(), "proximal", "temporal")
    certificate = play_merged(make, *data(losses.Logistic(), 5), 5)[0].certificate
    u = np.zeros(FEATURES)
    for ask, name in (
        (certificate.theorem_terms, "Theorem 3.1"),
        (certificate.lemma_4_1, "Lemma 4.1"),
        (certificate.corollary_4_3, "Corollary 4.3"),
    ):
        with pytest.raises(Incompatible, match=rf"{name} is about one sequence of rounds.*merged"):
            ask(u)
    assert np.isfinite(certificate.regret_bound(u))


def test_many_models_are_refused_by_name():
    learners = LinearLearners(2, [("proximal", "temporal")] * 2, compiled=False)
    for call in (first_steps, lambda each: take(each, np.arange(2)), lambda each: put(each, None)):
        with pytest.raises(Incompatible, match="LinearLearners cannot be merged"):
            call(learners)


def test_sums_beyond_the_type_are_refused():
    def make():
        return LinearLearner(1, "squared", schedule="constant", compiled=False)

    base = make()
    workers = [copied(make, base) for _ in range(2)]
    for worker in workers:
        worker.coordinates[:], worker.states[0, TIME] = 3e38, 2.0
    with pytest.raises(Overflowed, match="beyond float32"):
        merged(make, base, workers, None)
    assert base.x == 0.0


def test_compiled_and_plain_merges_agree():
    x, y = data(losses.Logistic(), 7)
    plain, compiled = (
        play_merged(maker(losses.Logistic(), Curvature(), updates.Proximal(), "temporal", compiled=each), x, y, 7)[0]
        for each in (False, True)
    )
    np.testing.assert_allclose(plain.x, compiled.x, atol=1e-8)
    np.testing.assert_allclose(plain.theta, compiled.theta, atol=1e-8)


def test_rows_that_no_worker_has_met_stay_as_they_are():
    make = maker(losses.Logistic(), AdaGrad(), "proximal", "sqrt")
    base, (one, two), _ = one_round(make, losses.Logistic(), 2, [np.arange(10, 20), np.arange(20, 30)])
    x = np.zeros((1, FEATURES))
    x[0, 0] = 1.0
    one, two = copied(make, base), copied(make, base)
    for worker in (one, two):
        worker.learn(sparse.csr_array(x), [1.0])
    both, _ = merged(make, base, [one, two], None)
    np.testing.assert_array_equal(both.coordinates[1:], base.coordinates[1:])
    assert (both.coordinates[0] != base.coordinates[0]).any()


@pytest.mark.parametrize("loss", [losses.Squared(), losses.Softmax()], ids=repr)
def test_a_team_of_threads_learns_with_fixed_parts(loss):
    """Every row once, the same result whenever it is run, and a state of which every number is finite."""
    x, y = data(loss, 4, rows=120)
    make = maker(loss, AdaGrad(), "proximal", "temporal", "float32")
    learners = []
    for _ in range(2):
        learner = make()
        with Team(learner, 3, first=30) as team:
            team.learn_rows(as_rows(x, FEATURES, compiled=False)[0], y, np.empty(0))
            team.finish()
        learners.append(learner)
    assert learners[0].rounds == 120 and learners[0].merges > 0 and learners[0].sound
    assert_same_state(*learners)
    alone = make()
    alone.learn(x, y)
    assert learners[0].loss_sums[0] < 1.5 * alone.loss_sums[0]


def test_features_that_all_workers_have_met_are_averaged_without_a_window():
    """Nobody knows how often they occur, and a sum may overshoot."""
    make = maker(losses.Logistic(), Curvature(), "proximal", "constant")
    base, workers, window = one_round(make, losses.Logistic(), 1, [np.arange(10, 20), np.arange(20, 30)])
    merger = merge_linear(base, take(base, every(base)), [take(each, every(each)) for each in workers])
    group = groups_of(merger, None, 0, FEATURES)
    assert (group[merger.met == 2.0] == 0).all() and (group[merger.met < 2.0] > 0).all()
    assert {1.0, 2.0} <= set(merger.met.tolist())
    known = groups_of(merger, window.rows, len(window.labels), FEATURES)
    assert known[0] == known[1] == 0  # they are in every row


def test_going_on_with_a_merged_model_says_that_it_was_merged():
    make = maker(losses.Logistic(), SquaredNorm(), "proximal", "temporal")
    x, y = data(losses.Logistic(), 5)
    learner, _ = play_merged(make, x, y, 5)
    worker = make()
    worker.restore(learner.own_state())
    worker.learn(x, y)
    one, _ = merge(learner, take(learner, every(learner)), [take(worker, every(worker))], None, first_steps(learner))
    assert one.merges == learner.merges > 0
