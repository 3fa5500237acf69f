"""Bad input: an error that names the argument, the value, the rule and the remedy, and a learner that has not moved."""

import math

import numpy as np
import pytest

from giftrl import Learner, domains, losses, regularizers, schedules, updates
from giftrl.errors import Incompatible, InvalidInput, Overflowed, UnknownName
from tests.members import KINDS

BAD_ROUNDS = {
    "too few features": (("hinge", [1.0], 1.0), {}, "s", r"s=\[1.0\]: must have the 2 features .* shape \(1,\)"),
    "a matrix": (("hinge", [[1.0, 2.0]], 1.0), {}, "s", r"shape \(1, 2\)"),
    "a NaN feature": (("hinge", [1.0, math.nan], 1.0), {}, "s", r"must be finite; remove NaN"),
    "an infinite feature": (("hinge", [1.0, math.inf], 1.0), {}, "s", "must be finite"),
    "a text feature": (("hinge", ["a", "b"], 1.0), {}, "s", "must be an array of numbers; encode text"),
    "a label of another loss": (("logistic", [1.0, 2.0], 0.0), {}, "y", r"must be a label of Logistic: -1 or \+1"),
    "a negative count": (("poisson", [1.0, 2.0], -1.0), {}, "y", "not negative"),
    "a NaN label": (("squared", [1.0, 2.0], math.nan), {}, "y", "must be a label of Squared: a finite number"),
    "an infinite label": (("absolute", [1.0, 2.0], math.inf), {}, "y", "y=inf"),
    "a text label": (("squared", [1.0, 2.0], "cat"), {}, "y", "y='cat'"),
    "a label without features": (("hinge", None, 1.0), {}, "s", "s=None: must be given; .* both"),
    "features without a label": (("hinge", [1.0, 2.0]), {}, "y", "y=None: must be given"),
    "a negative weight": (("hinge", [1.0, 2.0], 1.0), {"weight": -1.0}, "weight", "must be finite and not neg"),
    "a NaN weight": (("hinge", [1.0, 2.0], 1.0), {"weight": math.nan}, "weight", "weight=nan"),
    "an infinite weight": (("hinge", [1.0, 2.0], 1.0), {"weight": math.inf}, "weight", "weight=inf"),
    "a misspelt loss": (("hinged", [1.0, 2.0], 1.0), {}, "loss", r"did you mean 'hinge'\? Known: "),
    "a class for a loss": ((losses.Hinge, [1.0, 2.0], 1.0), {}, "loss", "must be a loss; give one by name"),
    "a number for a loss": ((3, [1.0, 2.0], 1.0), {}, "loss", "loss=3: must be a loss"),
    "a scalar loss as a black box": ((losses.Hinge(),), {}, "loss", r"must bring value\(x\) and subgradient\(x\)"),
}


@pytest.mark.parametrize(("arguments", "keywords", "argument", "message"), BAD_ROUNDS.values(), ids=BAD_ROUNDS)
def test_a_bad_round_changes_nothing(arguments, keywords, argument, message):
    learner, twin = Learner(2), Learner(2)
    for one in (learner, twin):
        one.observe("logistic", [1.0, -2.0], 1.0)
    with pytest.raises(InvalidInput, match=message) as caught:
        learner.observe(*arguments, **keywords)
    assert caught.value.argument == argument
    assert isinstance(caught.value, ValueError)
    assert learner.t == twin.t
    assert learner.lam == twin.lam
    assert len(learner.trace.rounds) == 1
    for one in (learner, twin):
        one.observe("logistic", [0.5, 1.0], -1.0)
    np.testing.assert_array_equal(learner.x, twin.x)
    assert learner.certificate.bound_sum == twin.certificate.bound_sum


def test_an_overflow_changes_nothing_and_says_what_to_do():
    learner = Learner(1, update="linear", schedule=schedules.Constant(beta=1e3))
    learner.observe("poisson", [1.0], 1e3)
    x, t = learner.x, learner.t
    with pytest.raises(Overflowed, match=r"slope inf picked by Linear .* use Proximal"):
        learner.observe("poisson", [1.0], 1e3)
    assert (learner.x is x) and learner.t == t
    with pytest.raises(Overflowed, match=r"leaves the range of float64 .* scale the features"):
        learner.observe("squared", [1e300], 1e300)
    assert (learner.x is x) and learner.t == t


@pytest.mark.parametrize("dimension", [0, -1, 2.5, "3", None])
def test_a_bad_dimension(dimension):
    with pytest.raises(InvalidInput, match="dimension=.*whole number of at least 1"):
        Learner(dimension)


@pytest.mark.parametrize("beta", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("schedule", list(KINDS["schedule"].values()), ids=lambda c: c.__name__)
def test_a_bad_beta(schedule, beta):
    with pytest.raises(InvalidInput, match=f"beta={beta}: must be positive and finite; try beta=1.0"):
        schedule(beta=beta)


def test_other_bad_parameters():
    with pytest.raises(InvalidInput, match="gradient_bound=0.0: must be positive"):
        schedules.TemporalVariability(gradient_bound=0.0)
    with pytest.raises(InvalidInput, match="floor=-1.0: must be finite and not negative"):
        schedules.TemporalVariability(floor=-1.0)
    with pytest.raises(InvalidInput, match="tolerance=0.0: must be positive"):
        updates.Proximal(tolerance=0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_names_suggest_the_nearest(kind):
    names = KINDS[kind]
    for name in names:
        with pytest.raises(UnknownName, match=f"{kind}='{name}x'.*did you mean '{name}'.*Known: .*{name}"):
            names.make(name + "x")


@pytest.mark.parametrize("kind", ["regularizer", "domain", "update", "schedule"])
def test_a_learner_knows_names_and_refuses_strangers(kind):
    with pytest.raises(UnknownName, match=f"{kind}='qqq'.*Known: "):
        Learner(2, **{kind: "qqq"})
    with pytest.raises(InvalidInput, match=f"{kind}=.*must be a {kind}"):
        Learner(2, **{kind: object()})
    member_class = next(iter(KINDS[kind].values()))
    with pytest.raises(InvalidInput, match=f"must be a {kind}"):
        Learner(2, **{kind: member_class})


def test_parts_that_do_not_go_together_are_both_named():
    with pytest.raises(Incompatible, match=r"Entropy\(\) with Ball\(radius=1.0\).*Box, NonNegative, Simplex"):
        Learner(2, regularizers.Entropy(), domains.Ball())
    with pytest.raises(InvalidInput, match=r"upper.*one entry for each of the 3"):
        Learner(3, domain=domains.Box(0.0, [1.0, 2.0]))


def test_an_update_that_misses_something_from_a_loss_names_both():
    class Bare(losses.Squared):
        pass

    class OnlyValueAndSlope:
        def value(self, p, y):
            return abs(p - y)

        def slope(self, p, y):
            return math.copysign(1.0, p - y)

    with pytest.raises(Incompatible, match=r"Truncated needs infimum\(\) from the loss, and OnlyValueAndSlope"):
        Learner(1, update="truncated").observe(OnlyValueAndSlope(), [1.0], 0.0)
    assert Learner(1, update="proximal").observe(OnlyValueAndSlope(), [1.0], 1.0).loss == 1.0
    assert Learner(1, update="truncated").observe(Bare(), [1.0], 1.0).loss == 0.5


def test_exceptions_survive_the_way_to_another_process():
    import pickle

    from giftrl import errors

    for error in (
        errors.InvalidInput("beta", -1.0, "must be positive", "try 1"),
        errors.UnknownName("loss", "logistics", ["logistic"]),
        errors.BadSource("a.gz", "ends too early", "copy it", line=7),
        errors.BadRow("a.svm", "a.svm:3:7: a value"),
        errors.ModelFileError("a", "is empty", "save it"),
        errors.DownloadFailed("a9a", "x", "is not there", "try again"),
        errors.Overflowed("row 3", 3),
        errors.Incompatible("two parts"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and again.__dict__ == error.__dict__
