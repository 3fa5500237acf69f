"""One row at a time: what is kept from call to call changes no bit of what is learnt."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.adapters.named_rows import NamedLearner
from giftrl.compiled.compiler import PackedArgument, kind_of, packer, ready, unpacked
from giftrl.compiled.registry import formula
from giftrl.config import Recipe
from giftrl.errors import InvalidInput
from giftrl.kernels import LinearLearner
from giftrl.losses import Absolute
from giftrl.mixtures import MixtureLearner

pytestmark = pytest.mark.plain

RECIPES = [Recipe("logistic"), Recipe("squared", preset="light"), Recipe("hinge", beta=1.0, regularizer="curvature")]
KINDS = ["mixture", "single"]
each_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=["mixture", "light", "single"])

rows = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-5.0, 5.0), max_size=6),
        st.sampled_from([-1.0, 1.0]),
        st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    ),
    min_size=1,
    max_size=25,
)


@formula
def fill(numbers, pair, out):
    """Fill an array with a sum of everything."""
    out[0] = numbers[0] + pair[0] * pair[1][0]


@formula
def add(numbers, pair):
    """A loop with a result."""
    return numbers[0] + pair[0] * pair[1][0]


leaves = st.one_of(
    st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.booleans(), st.just(np.zeros((2, 3), np.float32))
)


@given(st.lists(st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6), max_size=4))
def test_held_arguments_fill_the_slots_that_they_would_fill(args):
    args = tuple(args)
    held = tuple(PackedArgument(each) for each in args)
    assert packer(held)(held) == packer(args)(args)
    assert all(a is b for a, b in zip(unpacked(held), args, strict=True))
    again = tuple(PackedArgument(each) for each in args)
    assert kind_of(again) == kind_of(held)


def test_kinds_of_held_arguments_tell_apart_what_kinds_tell_apart():
    values = [1, 1.0, True, (1,), (1, 1), np.zeros(1), np.zeros((1, 1)), np.zeros(1, np.float32), np.zeros(1)[::-1]]
    frozen = np.zeros(1)
    frozen.flags.writeable = False
    kinds = {kind_of((PackedArgument(each),)) for each in [*values, frozen, np.zeros((4, 4))[:, 1]]}
    assert len(kinds) == len({kind_of((each,)) for each in [*values, frozen, np.zeros((4, 4))[:, 1]]})


@pytest.mark.parametrize("compiled", [False, True])
def test_a_bound_loop_sees_what_is_in_its_arrays_now(compiled):
    numbers, pair, out = np.array([1.0]), (2.0, np.array([3.0])), np.zeros(1)
    bound, asked = (
        ready(fill, compiled).bind(PackedArgument(numbers), pair, out),
        ready(add, compiled).bind(numbers, PackedArgument(pair)),
    )
    for value in (1.0, 5.0):
        numbers[0] = value
        bound()
        assert out[0] == asked() == value + 6.0 == ready(add, compiled)(PackedArgument(numbers), pair)


@each_recipe
@given(given=rows)
def test_rows_one_by_one_are_rows_at_once(recipe, given):
    one, many = NamedLearner(recipe), NamedLearner(recipe)
    for x, y, weight in given:
        one.learn_one(x, y, weight)
        one.score_one(x)
    xs, ys, weights = zip(*given, strict=True)
    many.learn_rows(xs, np.array(ys), np.array(weights))
    assert one.slots == many.slots and one.weight_sum == many.weight_sum
    for name, array in one.learner.state().items():
        assert array.tobytes() == many.learner.state()[name].tobytes(), name


@each_recipe
@pytest.mark.parametrize("normalize", [None, "unit"])
def test_names_that_were_never_met_count_for_nothing(recipe, normalize):
    learner = NamedLearner(recipe, normalize)
    for sign in (1.0, -1.0) * 5:
        learner.learn_one({"a": sign, "b": -2.0}, sign)
    known = learner.score_one({"a": 3.0, "new": 0.0})
    assert learner.score_one({"new": 4.0, "a": 3.0}) == pytest.approx(known) or normalize == "unit"
    assert learner.score_one({"new": 0.0, "a": 3.0}) == pytest.approx(known)
    if normalize == "unit":  # the norm is that of the whole row
        assert learner.score_one({"new": 4.0, "a": 3.0}) == pytest.approx(
            learner.score_one({"a": 0.6, "b": 0.0, "n": 0.8})
        )
    learner.learn_one({"new": 4.0, "a": 3.0}, -1.0)
    assert set(learner.slots) == {"a", "b", "new"}
    assert learner.score_one({"new": 4.0, "a": 3.0}) != known


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "values", [(Decimal("1.5"), 2.0), (np.uint8(200), np.uint8(100)), (10**20, 10**20), (True, np.float32(3e38))]
)
def test_numbers_of_every_kind(values):
    x = dict(zip("ab", values, strict=True))
    one, many, floats = (NamedLearner(Recipe("squared", beta=1.0)) for _ in range(3))
    one.learn_one(x, 1.0)
    many.learn_rows([x], np.ones(1))
    floats.learn_one({name: float(value) for name, value in x.items()}, 1.0)
    assert one.score_one({"a": 1.0}) == many.score_one({"a": 1.0}) == floats.score_one({"a": 1.0})


@pytest.mark.parametrize("bad", [np.nan, np.inf, "text", "1.5", None, 10**400, 1j, Decimal("1e400")])
def test_a_value_that_is_no_finite_number_leaves_no_trace(bad):
    learner = NamedLearner(Recipe("logistic"))
    learner.learn_one({"a": 1.0}, 1.0)
    before = pickle.dumps(learner.learner.state())
    with pytest.raises(InvalidInput, match="must have finite numbers"):
        learner.learn_one({"a": 1.0, "b": bad}, 1.0)
    with pytest.raises(InvalidInput, match="must have finite numbers"):
        learner.learn_rows([{"a": 1.0, "b": bad}], np.ones(1))
    with pytest.raises(InvalidInput, match="must have finite numbers"):
        learner.score_one({"a": bad})
    assert pickle.dumps(learner.learner.state()) == before and learner.slots == {"a": 1}


@each_recipe
def test_memory_that_is_replaced_is_not_used_any_more(recipe):
    learner, twin = NamedLearner(recipe), NamedLearner(recipe)
    random = np.random.default_rng(0)
    for step in range(400):  # beyond the first capacity, so that memory grows on the way
        x = {f"f{k}": float(random.normal()) for k in random.integers(0, step + 1, size=int(random.integers(1, 5)))}
        y = float(random.choice([-1.0, 1.0]))
        learner.learn_one(x, y)
        twin.learn_rows([x], np.array([y]))
        if step == 100:
            learner = pickle.loads(pickle.dumps(learner))
        if step == 200:
            learner = copy.deepcopy(learner)
        if step == 300:
            learner.learner.restore({name: array.copy() for name, array in learner.learner.state().items()})
        assert learner.score_one(x) == pytest.approx(twin.learner.predict_rows(_as_row(twin, x), 1)[0], rel=1e-12)
    for name, array in learner.learner.state().items():
        assert array.tobytes() == twin.learner.state()[name].tobytes(), name


def _as_row(learner, x):
    from giftrl.compiled.rows import CSR

    slots = np.array([*(learner.slots[name] for name in x), 0], np.int32)
    return CSR(np.array([*x.values(), 1.0]), slots, np.array([0, len(slots)]), len(slots))


def test_threads_predict_from_one_learner_without_disturbing_one_another():
    learner = NamedLearner(Recipe("logistic"))
    random = np.random.default_rng(0)
    rows = [{name: float(random.normal()) for name in "abcdefgh"[: random.integers(1, 9)]} for _ in range(200)]
    for x in rows:
        learner.learn_one(x, 1.0 if x["a"] > 0.0 else -1.0)
    alone = [learner.score_one(x) for x in rows]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(learner.score_one, rows)) == alone


@pytest.mark.parametrize(
    "learner",
    [MixtureLearner(3, "squared", constant=2), LinearLearner(3, "squared")],
    ids=lambda learner: type(learner).__name__,
)
def test_a_batch_after_single_rows_is_what_it_would_be(learner):
    random = np.random.default_rng(1)
    x, y = random.normal(size=(30, 3)), random.normal(size=30)
    twin = copy.deepcopy(learner)
    one_by_one = np.concatenate([learner.learn(x[i : i + 1], y[i : i + 1]) for i in range(10)])
    rest = learner.learn(x[10:], y[10:])
    assert np.concatenate([one_by_one, rest]).tobytes() == twin.learn(x, y).tobytes()


@pytest.mark.parametrize("learner", [MixtureLearner(2, "squared", constant=1), LinearLearner(2, "squared")], ids=KINDS)
def test_another_loss_is_used_at_once(learner):
    learner.learn([[1.0, 1.0]], [1.0])
    learner.learn([[2.0, 1.0]], [2.0])
    before = learner.loss_sums[0]
    learner.loss = Absolute()
    (p,) = learner.learn([[1.0, 1.0]], [4.0])
    assert learner.loss_sums[0] - before == pytest.approx(abs(p - 4.0))
