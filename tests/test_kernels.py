"""The compiled loops: the points, losses and certificates of Learner, and nothing else."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from giftrl import Learner, losses, regularizers, schedules, updates
from giftrl.errors import Incompatible, InvalidInput, Overflowed, UnknownName
from giftrl.kernels import LinearLearner, LinearLearners, scalar_round
from giftrl.kernels.part_codes import AnySchedule, AnyUpdate, encode_schedule, encode_update
from giftrl.ops import brings
from giftrl.ops.line import solve
from giftrl.ops.loss import slope
from giftrl.regularizers import AdaGrad, Centred, Curvature, ElasticNet
from giftrl.schedules.contract import evidence, known_ahead, lam, uses_gamma
from tests.members import DIMENSION, Thirds, members
from tests.streams import play, stream

DIAGONAL = [r for r in members("regularizer") if brings(r, "strength")]


def settings():
    """Every update x look-ahead x schedule."""
    for update in members("update"):
        for lookahead in (True, False):
            for schedule in members("schedule"):
                yield update._replace(lookahead=lookahead), schedule


def batch(examples):
    """Examples as arrays."""
    return np.array([e.s for e in examples]), [e.y for e in examples], [e.weight for e in examples]


def assert_same_run(kernel, learner, steps, predictions, tolerance=1e-11):
    """Everything a run shows, to rounding of its largest numbers."""
    theirs, ours = learner.certificate, kernel.certificate
    np.testing.assert_allclose(
        predictions, [s.prediction for s in steps], atol=tolerance * (1 + np.abs(predictions).max())
    )
    np.testing.assert_allclose(kernel.x, learner.x, atol=tolerance * (1 + np.abs(learner.x).max()))
    np.testing.assert_allclose(kernel.theta, learner.theta, atol=tolerance * (1 + np.abs(learner.theta).max()))
    assert kernel.lam == pytest.approx(learner.lam, rel=tolerance)
    assert kernel.theta_norm == pytest.approx(np.linalg.norm(learner.theta), rel=tolerance, abs=tolerance)
    assert ours.loss_sum == pytest.approx(theirs.loss_sum, rel=tolerance, abs=tolerance)
    scale = 1 + abs(theirs.loss_sum) + abs(theirs.conjugate_sum)
    assert ours.conjugate_sum == pytest.approx(theirs.conjugate_sum, abs=tolerance * scale)
    assert ours.delta_sum == pytest.approx(theirs.delta_sum, abs=tolerance * (scale + abs(theirs.delta_sum)))


def compare(loss, regularizer, update, schedule, seed, rounds, **options):
    """Run both; False where the parts do not go together, which both must say."""
    try:
        learner = Learner(DIMENSION, regularizer, update=update, schedule=schedule)
    except Incompatible:
        with pytest.raises(Incompatible):
            LinearLearner(DIMENSION, loss, regularizer, update, schedule)
        return False
    examples = stream(loss, rounds, seed, scale=0.5)
    steps = play(learner, loss, examples)
    if not steps:
        return False
    kernel = LinearLearner(DIMENSION, loss, regularizer, update, schedule, dtype="float64", **options)
    s, y, weights = batch(examples[: len(steps)])
    assert_same_run(kernel, learner, steps, kernel.learn(s, y, weights))
    return True


@pytest.mark.sample(4)
@pytest.mark.parametrize("regularizer", DIAGONAL, ids=repr)
@pytest.mark.parametrize("loss", members("loss"), ids=repr)
def test_every_combination_in_plain_python_is_the_learner(loss, regularizer):
    """Compilation off: the very functions that are compiled, for every update x look-ahead x schedule."""
    compared = [
        compare(loss, regularizer, update, schedule, seed, rounds=8, compiled=False)
        for seed, (update, schedule) in enumerate(settings())
    ]
    assert sum(compared) >= 20


#: Every loss and every regularizer at least once; each compiled loop then runs every update and schedule. The first
#: three have every regularizer.
COMPILED = [
    (losses.Logistic(), regularizers.SquaredNorm()),
    (losses.Hinge(), Curvature()),
    (losses.EpsilonInsensitive(), ElasticNet(0.2, base=Centred(AdaGrad()))),
    (losses.Squared(), AdaGrad()),
    (losses.Absolute(), ElasticNet(0.3)),
    (losses.Huber(0.5), Centred()),
    (losses.Poisson(), Curvature()),
    (losses.Quantile(0.8), regularizers.SquaredNorm()),
    (losses.SquaredHinge(), regularizers.SquaredNorm()),
]


def test_the_compiled_subset_covers_every_loss_and_regularizer():
    assert {type(loss) for loss, _ in COMPILED} == set(losses.BY_NAME.values())
    assert {type(r) for _, r in COMPILED} == {type(r) for r in DIAGONAL}


@pytest.mark.parametrize(
    ("loss", "regularizer"),
    [pytest.param(*each, marks=[] if i < 1 else pytest.mark.verify) for i, each in enumerate(COMPILED)],
    ids=repr,
)
def test_compiled_loops_are_the_learner(loss, regularizer):
    compared = [
        compare(loss, regularizer, update, schedule, seed, rounds=60)
        for seed, (update, schedule) in enumerate(settings())
    ]
    assert sum(compared) >= 20


def data(n=300, d=40, seed=0, dtype=np.float64):
    """A sparse classification set with an empty row and an empty column."""
    rng = np.random.default_rng(seed)
    x = sp.random_array((n, d), density=0.15, rng=rng, data_sampler=rng.standard_normal, format="csr", dtype=np.float64)
    x = x.tolil()
    x[3, :] = 0.0
    x[:, 5] = 0.0
    x = x.tocsr()
    y = np.where(x @ rng.normal(size=d) + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)
    return x.astype(dtype), y


REGULARIZERS = ["squared_norm", "curvature"]


@pytest.mark.plain
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("form", ["csr", "dense"])
def test_any_split_into_batches_is_bit_identical(regularizer, form):
    x, y = data(dtype=np.float32)
    x = x if form == "csr" else x.toarray()
    weights = np.random.default_rng(1).uniform(0, 3, len(y))
    whole = LinearLearner(40, "logistic", regularizer)
    together = whole.learn(x, y, weights)
    for cuts in ([1, 2, 3], [150], list(range(0, 300, 7)), [0, 0, 299]):
        parts = LinearLearner(40, "logistic", regularizer)
        bounds = [0, *cuts, len(y)]
        pieces = [parts.learn(x[a:b], y[a:b], weights[a:b]) for a, b in pairwise(bounds)]
        np.testing.assert_array_equal(np.concatenate(pieces), together)
        np.testing.assert_array_equal(parts.theta, whole.theta)
        assert parts.certificate.bound_sum == whole.certificate.bound_sum


@pytest.mark.verify
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_norm_of_theta_that_rounds_use_does_not_drift(dtype):
    """It is added up round by round, and counted anew."""
    x, y = data(n=2000)
    learner = LinearLearner(40, "hinge", "squared_norm", "linear", "sqrt", dtype=dtype)
    for _ in range(100):
        learner.learn(x, y)
    assert learner.t == 200_001
    kept = np.sqrt(learner.states[0, scalar_round.THETA2])
    assert kept == pytest.approx(np.linalg.norm(learner.theta), rel=1e-6)
    assert learner.theta_norm == np.linalg.norm(learner.theta) > 1.0


class Part(NamedTuple):
    """An update of the user's own: a part of the slope."""

    part: float
    lookahead: bool | None = None

    def pick(self, loss, y, p, line):
        return self.part * slope(loss, p, y)


class Twin(Part):
    """Another type, whose members are equal to those of the first."""

    def pick(self, loss, y, p, line):
        return solve(line, loss, y)


def compare_many_with_one(grid, regularizer, many_compiled, one_compiled):
    x, y = data(n=60)
    many = LinearLearners(40, grid, "logistic", regularizer, dtype="float64", compiled=many_compiled)
    predictions = [many.learn(x[:20], y[:20]), many.learn(x[20:], np.tile(y[20:, None], len(grid)))]
    for m, (update, schedule) in enumerate(grid):
        one = LinearLearner(40, "logistic", regularizer, update, schedule, dtype="float64", compiled=one_compiled)
        np.testing.assert_allclose(np.vstack(predictions)[:, m], one.learn(x, y), atol=1e-10)
        np.testing.assert_allclose(many.x[:, m], one.x, atol=1e-10)
        assert many.certificates[m].bound_sum == pytest.approx(one.certificate.bound_sum, abs=1e-8)
        assert many.certificates[m].delta_sum == pytest.approx(one.certificate.delta_sum, abs=1e-8)


@pytest.mark.parametrize("regularizer", ["squared_norm", "adagrad"])
def test_updates_and_schedules_of_the_users_own_are_taken_side_by_side_too(regularizer):
    grid = [
        *(("proximal", "sqrt"), (Part(0.5), "sqrt"), (Part(0.5), "constant"), (Twin(0.5), "constant")),
        *((Part(0.9), Thirds(2.0)), ("linear", Thirds(2.0)), ("iwa", Thirds(2.0)), ("truncated", "constant")),
    ]
    compare_many_with_one(grid, regularizer, many_compiled=False, one_compiled=False)


@pytest.mark.verify
def test_an_update_of_the_users_own_is_compiled():
    own = [(Part(0.5), Thirds(2.0))]
    compare_many_with_one(own, "squared_norm", many_compiled=True, one_compiled=False)
    compare_many_with_one(own, "squared_norm", many_compiled=False, one_compiled=True)


@pytest.mark.plain
def test_one_model_for_each_class():
    x, _ = data()
    classes = np.random.default_rng(2).integers(0, 3, x.shape[0])
    labels = np.where(classes[:, None] == np.arange(3), 1.0, -1.0)
    together = LinearLearners(40, [("proximal", "temporal")] * 3, "logistic", dtype="float64")
    predictions = together.learn(x, labels)
    for k in range(3):
        one = LinearLearner(40, "logistic", dtype="float64")
        np.testing.assert_allclose(predictions[:, k], one.learn(x, labels[:, k]), atol=1e-10)


def test_a_model_that_overflows_says_at_which_row():
    x, y = np.array([[1.0], [2.0], [1.0], [3.0]] * 10), np.full(40, 50.0)
    settings = {"update": "linear", "schedule": schedules.Constant(1e3), "dtype": "float64"}
    learner = LinearLearner(1, "poisson", **settings, compiled=False)
    with pytest.raises(Overflowed, match=r"row 1 leaves the range .* rows before it have been learned"):
        learner.learn(x, y)
    assert learner.t == 2 and np.isfinite(learner.x).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.learn([[1.0]], [1.0]), "must have 2 columns"),
        (lambda k: k.learn([1.0, 2.0], [1.0]), "must be a matrix"),
        (lambda k: k.learn([[1.0, np.nan]], [1.0]), "must be finite, and row 0 is not"),
        (lambda k: k.learn(sp.csr_array([[0.0, 0.0], [np.inf, 0.0]]), [1.0, 1.0]), "must be finite, and row 1 is not"),
        (lambda k: k.learn([["a", "b"]], [1.0]), "must be numbers"),
        (lambda k: k.learn([[1.0, 2.0]], [1.0, 1.0]), "must have shape"),
        (lambda k: k.learn([[1.0, 2.0]], [0.0]), r"y=0.0: must be a label of Logistic: -1 or \+1"),
        (lambda k: k.learn([[1.0, 2.0]], [np.nan]), "must be a label of Logistic"),
        (lambda k: k.learn([[1.0, 2.0]], [1.0], [-1.0]), "must be finite and not negative"),
    ],
)
def test_bad_batches_change_nothing(call, message):
    kernel = LinearLearner(2, "logistic", compiled=False)
    kernel.learn([[1.0, -1.0]], [1.0])
    before = kernel.theta, kernel.t
    with pytest.raises(InvalidInput, match=message):
        call(kernel)
    np.testing.assert_array_equal(kernel.theta, before[0])
    assert kernel.t == before[1]


def test_bad_parts():
    with pytest.raises(UnknownName, match="did you mean 'logistic'"):
        LinearLearner(2, "logistics")
    with pytest.raises(InvalidInput, match="dtype='float16'"):
        LinearLearner(2, dtype="float16")
    with pytest.raises(InvalidInput, match="must be a diagonal regularizer"):
        LinearLearner(2, regularizer="entropy")
    with pytest.raises(Incompatible, match="does not scale with lambda"):
        LinearLearner(2, regularizer=ElasticNet(0.1, l2=1.0, base=AdaGrad()), update=updates.Proximal(False))
    with pytest.raises(InvalidInput, match="at least one model"):
        LinearLearners(2, [])


def test_every_built_in_update_and_schedule_has_a_number():
    """A member without one would work too, but the loops would be compiled for it alone."""
    for update in members("update"):
        assert isinstance(encode_update(update), AnyUpdate)
    for schedule in members("schedule"):
        assert isinstance(encode_schedule(schedule), AnySchedule)
        for t, total in ((1, 0.0), (9, 2.5)):
            assert lam(encode_schedule(schedule), t, total) == lam(schedule, t, total)
        assert evidence(encode_schedule(schedule), 0.5, 2.0) == evidence(schedule, 0.5, 2.0)
        assert known_ahead(encode_schedule(schedule)) == known_ahead(schedule)
        assert uses_gamma(encode_schedule(schedule)) == uses_gamma(schedule)
