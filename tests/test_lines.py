"""The one-dimensional problems: lines, their minimisers and flows, and what every update picks on them."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import solve_ivp

from giftrl import losses, mirror, updates
from giftrl.domains import Ball, Box, L1Ball, Simplex, WholeSpace
from giftrl.mirror import MirrorLine, make_line
from giftrl.ops.line import Affine, at, energy, follow, objective, solve
from giftrl.ops.loss import conjugate, flow, prox, slope, smoothness, value
from giftrl.regularizers import AdaGrad, ElasticNet, Entropy, PNorm, SquaredNorm
from giftrl.regularizers.contract import start
from giftrl.updates.contract import pick
from tests.members import DIMENSION, label_for, label_strategy, members

pytestmark = pytest.mark.sample(2)

LOSSES = members("loss")
SMOOTH = [loss for loss in LOSSES if smoothness(loss) < np.inf]
PIECEWISE_LINEAR = [losses.Hinge(), losses.Absolute(), losses.EpsilonInsensitive(0.5), losses.Quantile(0.75)]

#: Every update that is in the family whatever the line: all but the two-step update without its safeguard.
FAMILY = [update for update in members("update") if update != updates.TwoStep()]

PAIRS = {
    "elastic net": (ElasticNet(0.3, 0.5), WholeSpace()),
    "p-norm": (PNorm(1.3), WholeSpace()),
    "ball": (SquaredNorm(), Ball(0.7)),
    "box": (AdaGrad(), Box(-0.5, 1.0)),
    "L1 ball": (SquaredNorm(), L1Ball(0.8)),
    "entropy on the simplex": (Entropy(), Simplex()),
}

#: The error of the generic flow, as a share of the slope that it starts from. It is far smaller as a rule, but the
#: order of convergence is lost where pi has a corner (a face of the domain, a threshold) and where phi has a kink.
FOLLOW = 1e-5

each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
each_update = pytest.mark.parametrize("update", FAMILY, ids=repr)
each_pair = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
half = settings(max_examples=settings.default.max_examples // 2)
quarter = settings(max_examples=settings.default.max_examples // 4)
tenth = settings(max_examples=settings.default.max_examples // 10)

predictions = st.floats(-10.0, 10.0)
lengths = st.floats(-3.0, 3.0).map(lambda exponent: 10.0**exponent)
vectors = arrays(float, DIMENSION, elements=st.floats(-3.0, 3.0))


class Straight(NamedTuple):
    """An affine line that does not say so: it brings pi and the energy, and leaves the rest to the generic solvers."""

    p: float
    c: float

    def at(self, b: float) -> float:
        return self.p - b * self.c

    def energy(self, b: float) -> float:
        return b * (0.5 * b * self.c - self.p)


def mirror_line(pair: tuple[Any, Any], theta: np.ndarray, s: np.ndarray, weight: float) -> MirrorLine:
    regularizer, domain = pair
    return MirrorLine(start(regularizer, DIMENSION, 1.0), domain, theta, s, weight)


def mirror_lines(pair: tuple[Any, Any]) -> st.SearchStrategy[MirrorLine]:
    return st.builds(mirror_line, st.just(pair), vectors, vectors, st.floats(0.1, 10.0))


affine_lines = st.builds(Affine, predictions, lengths)
all_lines = st.one_of(affine_lines, *(mirror_lines(pair) for pair in PAIRS.values()))


def size(line: Any, loss: Any, y: float, *steps: float) -> float:
    """How large the terms of H are at these steps, as a scale for its rounding."""
    terms = [abs(energy(line, b)) + abs(conjugate(loss, b, y)) for b in steps]
    return 1.0 + abs(getattr(line, "origin", 0.0)) + sum(terms)


@given(line=all_lines, b=st.floats(-5.0, 5.0), step=st.floats(1e-3, 5.0))
def test_pi_falls_and_is_minus_the_derivative_of_the_energy(line, b, step):
    # The energy is convex with derivative -pi: its chords lie between the derivatives at their ends.
    chord = (energy(line, b + step) - energy(line, b)) / step
    slack = 1e-12 * size(line, losses.Squared(), 0.0, b, b + step) / step
    assert energy(line, 0.0) == 0.0
    assert -at(line, b) - slack <= chord <= -at(line, b + step) + slack


def test_make_line_is_affine_exactly_where_the_mirror_is():
    theta, s = np.array([1.0, -2.0, 0.5, 0.0]), np.array([1.0, 1.0, -1.0, 2.0])
    line = make_line(start(SquaredNorm(), DIMENSION, 2.0), WholeSpace(), theta, s, 3.0)
    assert line == Affine(-0.75, 10.5)  # <s, theta> / 2 and 3 <s, s> / 2
    for pair in PAIRS.values():
        assert isinstance(make_line(start(pair[0], DIMENSION, 1.0), pair[1], theta, s, 3.0), MirrorLine)


@each_loss
@half
@given(p=predictions, c=lengths, data=st.data())
def test_affine_lines_solve_and_follow_by_prox_and_flow(loss, p, c, data):
    y = data.draw(label_strategy(loss, 10.0))
    assert solve(Affine(p, c), loss, y) == prox(loss, p, y, c)
    assert follow(Affine(p, c), loss, y) == flow(loss, p, y, c)


@each_loss
@half
@given(p=predictions, c=lengths, data=st.data())
def test_the_generic_solve_on_a_straight_line_is_prox(loss, p, c, data):
    y = data.draw(label_strategy(loss, 10.0))
    # The line rounds pi by 1e-16 p, which divided by c is a step.
    slack = 1e-15 * (abs(p) + abs(y)) / c
    assert solve(Straight(p, c), loss, y) == pytest.approx(prox(loss, p, y, c), rel=1e-12, abs=slack)


@each_loss
@quarter
@given(p=predictions, c=lengths, data=st.data())
def test_the_generic_follow_on_a_straight_line_is_flow(loss, p, c, data):
    y = data.draw(label_strategy(loss, 10.0))
    slack = 1e-14 * (abs(p) + abs(y)) / c
    assert follow(Straight(p, c), loss, y) == pytest.approx(flow(loss, p, y, c), rel=1e-8, abs=slack)


def assert_optimal(line: Any, loss: Any, y: float, b: float) -> None:
    """b in d phi(pi(b)), where rounding of x moves pi(b) a little."""
    q = at(line, b)
    e = 1e-10 * (1.0 + abs(q) + abs(at(line, 0.0)))
    slack = 1e-12 * (1.0 + abs(b))
    assert slope(loss, q - e, y) - slack <= b <= slope(loss, q + e, y) + slack


@each_loss
@quarter
@given(line=all_lines, other=predictions, data=st.data())
def test_solve_minimises_the_objective(loss, line, other, data):
    y = data.draw(label_strategy(loss, 10.0))
    b, g = solve(line, loss, y), slope(loss, at(line, 0.0), y)
    assert_optimal(line, loss, y, b)
    elsewhere = slope(loss, other, y)  # in the domain of phi*
    for step in (g, 0.0, elsewhere, b + 1e-3 * (g - b), b - 1e-3 * b, b + 1e-3 * (elsewhere - b)):
        slack = 1e-11 * size(line, loss, y, b, step)
        assert objective(line, loss, y, b) <= objective(line, loss, y, step) + slack


@each_loss
@each_pair
@pytest.mark.parametrize("scale", [1e1, 1e2, 1e3])
def test_solve_is_exact_for_large_features(loss, pair, scale):
    # theta points along s: large predictions, and for some losses slopes of hundreds of orders of magnitude.
    for seed in range(3):
        theta, s = np.random.default_rng(seed).uniform(-2.0, 2.0, (2, DIMENSION))
        s -= s.mean()  # on the simplex, features of one sign leave no small prediction
        line, y = mirror_line(pair, np.copysign(theta, s), scale * s, 1.0), label_for(loss, -1.0)
        assert_optimal(line, loss, y, solve(line, loss, y))


@each_loss
@pytest.mark.parametrize("p", [-800.0, 800.0])
def test_a_slope_that_overflows_has_a_finite_minimiser(loss, p):
    # exp(800) is infinite, and the generic solvers start from the slope; its proximal slope is 793.
    y, line = label_for(loss, 1.0), Straight(p, 1.0)
    a, g = prox(loss, p, y, 1.0), slope(loss, p, y)
    assert solve(line, loss, y) == pytest.approx(a, rel=1e-12)
    assert abs(a) * (1.0 - 1e-12) <= abs(follow(line, loss, y)) <= abs(g)


@each_loss
@tenth
@given(line=all_lines, data=st.data())
def test_follow_lies_between_solve_and_the_slope(loss, line, data):
    y = data.draw(label_strategy(loss, 10.0))
    b, a, g = follow(line, loss, y), solve(line, loss, y), slope(loss, at(line, 0.0), y)
    assert min(a, g) <= b <= max(a, g)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@tenth
@given(line=all_lines, data=st.data())
def test_follow_agrees_with_an_ode_solver(loss, line, data):
    y = data.draw(label_strategy(loss, 10.0))
    path = solve_ivp(
        lambda tau, b: [slope(loss, at(line, float(b[0])), y)], (0.0, 1.0), [0.0], method="LSODA", rtol=1e-9, atol=1e-12
    )
    slack = FOLLOW * abs(slope(loss, at(line, 0.0), y)) + 1e-9
    assert follow(line, loss, y) == pytest.approx(path.y[0, -1], abs=slack)


def assert_no_worse_than_the_subgradient(update: Any, loss: Any, y: float, p: float, line: Any) -> None:
    """H(b) <= H(g), g the slope at x_t: the one condition of Algorithm 1."""
    b, g = pick(update, loss, y, p, line), slope(loss, p, y)
    slack = 1e-11 * size(line, loss, y, b, g)
    assert objective(line, loss, y, b) <= objective(line, loss, y, g) + slack


@each_update
@each_loss
@settings(max_examples=settings.default.max_examples // 14)
@given(p=predictions, line=all_lines, data=st.data())
def test_every_pick_is_in_the_family(update, loss, p, line, data):
    y = data.draw(label_strategy(loss, 10.0))
    # The line of psi_t starts at the prediction of x_t. That of psi_{t+1} may start elsewhere; hardest is a prediction
    # at which the slope is the minimiser of H already.
    for prediction in (at(line, 0.0), p, at(line, solve(line, loss, y))):
        assert_no_worse_than_the_subgradient(update, loss, y, prediction, line)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@half
@given(p=predictions, pb=predictions, share=st.floats(0.01, 1.0), data=st.data())
def test_two_steps_are_in_the_family_where_the_line_is_short(loss, p, pb, share, data):
    y = data.draw(label_strategy(loss, 10.0))
    c = share / smoothness(loss)
    for start_of_line in (p, pb):
        assert_no_worse_than_the_subgradient(updates.TwoStep(), loss, y, p, Affine(start_of_line, c))


def test_the_safeguard_survives_a_second_step_that_overflows():
    # phi'(pi(g)) is exp(hundreds): H cannot be computed there, which is no reason to warn, and the truncated step wins.
    line = mirror_line(PAIRS["elastic net"], np.zeros(DIMENSION), np.full(DIMENSION, 2.0), 4.0)
    truncated = pick(updates.Truncated(), losses.Poisson(), 10.0, 0.0, line)
    assert pick(updates.TwoStep(safeguard=True), losses.Poisson(), 10.0, 0.0, line) == truncated


@pytest.mark.parametrize("loss", PIECEWISE_LINEAR, ids=repr)
@half
@given(line=all_lines, data=st.data())
def test_truncated_is_proximal_where_the_loss_is_its_own_truncation(loss, line, data):
    y = data.draw(label_strategy(loss, 10.0))
    p = at(line, 0.0)
    truncated, proximal = (pick(update, loss, y, p, line) for update in (updates.Truncated(), updates.Proximal()))
    # On a flat piece of pi H is flat too and has many minimisers: they are compared by their values.
    values = [objective(line, loss, y, b) for b in (truncated, proximal)]
    assert values[0] == pytest.approx(values[1], rel=1e-9, abs=1e-12 * (1.0 + abs(p) + abs(y)))


@each_loss
@half
@given(p=predictions, pb=predictions, c=lengths, data=st.data())
def test_truncated_on_affine_lines_has_its_closed_form(loss, p, pb, c, data):
    # g min(1, [phi(p) + g (pb - p) - inf phi]_+ / (g^2 c))
    y = data.draw(label_strategy(loss, 10.0))
    g, lowest = slope(loss, p, y), -conjugate(loss, 0.0, y)
    gap = max(0.0, value(loss, p, y) + g * (pb - p) - lowest)
    assume(abs(g) > 1e-100)  # g^2 is a number
    b = g * min(1.0, gap / (g * g * c))
    # The gap is a difference of terms of this size.
    slack = 1e-13 * (abs(value(loss, p, y)) + abs(lowest) + abs(g) * (abs(p) + abs(pb))) / (abs(g) * c)
    assert pick(updates.Truncated(), loss, y, p, Affine(pb, c)) == pytest.approx(b, rel=1e-12, abs=slack)


class Weighted(NamedTuple):
    """The loss h phi."""

    loss: Any
    h: float

    def value(self, p: float, y: float) -> float:
        return self.h * value(self.loss, p, y)

    def slope(self, p: float, y: float) -> float:
        return self.h * slope(self.loss, p, y)


@each_loss
@half
@given(p=predictions, c=lengths, h=st.floats(0.1, 100.0), data=st.data())
def test_a_weight_scales_the_line_and_the_slope(loss, p, c, h, data):
    # a in d (h phi)(p - a c) exactly where a = h b and b in d phi(p - b (h c)).
    y = data.draw(label_strategy(loss, 10.0))
    a = prox(Weighted(loss, h), p, y, c)
    slack = 1e-15 * (abs(p) + abs(y)) / c + 1e-100
    assert a == pytest.approx(h * pick(updates.Proximal(), loss, y, p, Affine(p, h * c)), rel=1e-9, abs=slack)


@each_pair
@half
@given(theta=vectors, s=vectors, h=st.floats(0.1, 10.0), y=predictions)
def test_a_weight_on_a_mirror_line_minimises_the_weighted_objective(pair, theta, s, h, y):
    # H of the loss h phi at z = a s is psi*(theta - a s) + h phi*(a / h).
    loss, psi, domain = losses.Squared(), start(pair[0], DIMENSION, 1.0), pair[1]

    def weighted(a: float) -> float:
        return mirror.conjugate(psi, domain, theta - a * s) + h * conjugate(loss, a / h, y)

    a = h * pick(updates.Proximal(), loss, y, 0.0, MirrorLine(psi, domain, theta, s, h))
    for other in (a + 1e-3, a - 1e-3, 1.1 * a, 0.9 * a, 0.0):
        assert weighted(a) <= weighted(other) + 1e-12 * (1.0 + abs(weighted(a)))


@each_loss
@settings(max_examples=settings.default.max_examples // 30)
@given(pair=st.sampled_from(list(PAIRS.values())), seed=st.integers(0, 1000))
def test_importance_awareness_makes_one_step_of_weight_h_of_h_steps(loss, pair, seed):
    rng = np.random.default_rng(seed)
    theta, s, y, h = *rng.uniform(-3.0, 3.0, (2, DIMENSION)), label_for(loss, rng.uniform(-5.0, 5.0)), 3
    update, total = updates.ImportanceAware(), 0.0
    for _ in range(h):
        line = mirror_line(pair, theta - total * s, s, 1.0)
        total += pick(update, loss, y, at(line, 0.0), line)
    whole = mirror_line(pair, theta, s, float(h))
    g = slope(loss, at(whole, 0.0), y)
    assert h * pick(update, loss, y, at(whole, 0.0), whole) == pytest.approx(total, abs=FOLLOW * h * abs(g))


class Nothing(NamedTuple):
    """A member that brings nothing."""


@pytest.mark.parametrize("operation", [at, energy])
def test_a_line_that_lacks_a_method_is_told_which(operation):
    with pytest.raises(TypeError, match=rf"a line must bring {operation.__name__}\(self, b\)"):
        operation(Nothing(), 0.0)


def test_an_update_that_lacks_pick_is_told_so():
    with pytest.raises(TypeError, match=r"an update must bring pick\(self, loss, y, p, line\)"):
        pick(Nothing(), losses.Hinge(), 1.0, 0.0, Affine(0.0, 1.0))
