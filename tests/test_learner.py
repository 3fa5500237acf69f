"""Algorithm 1: laws of every run, for every combination of members that makes sense."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl import Learner, losses, mirror, regularizers, schedules, updates
from giftrl.errors import Incompatible
from giftrl.ops.loss import smoothness
from tests.members import DIMENSION, members
from tests.streams import learners, play, stream, total_loss

a_loss = st.sampled_from(members("loss"))
a_seed = st.integers(0, 2**32 - 1)
#: For the laws of whole runs, each of which takes a tenth of a second.
third = settings(max_examples=settings.default.max_examples // 3)


def rounding(learner: Learner) -> float:
    """What float64 can hide: the run's largest numbers times a few units in the last place."""
    rounds = learner.trace.rounds
    sizes = [abs(v) for r in rounds for v in (r.loss, r.conjugate, r.linearized, r.growth) if np.isfinite(v)]
    return 1e-10 * max([1.0, *sizes])


@third
@given(learner=learners(), loss=a_loss, seed=a_seed)
def test_every_run_is_algorithm_1(learner, loss, seed):
    """x_t minimises psi_t - <theta_t, .> over V, theta is minus the sum of z, and lambda never falls."""
    sum_z = np.zeros(DIMENSION)
    last_lam = 0.0
    for e in stream(loss, 12, seed):
        x, lam = learner.x, learner.lam
        assert learner.domain.contains(x)
        assert lam >= last_lam
        steps = play(learner, loss, [e])
        if not steps:
            assert learner.x is x
            break
        step = steps[0]
        assert step.prediction == pytest.approx(e.s @ x)
        assert step.lam == lam
        sum_z += step.z
        last_lam = lam
        np.testing.assert_allclose(learner.theta, -sum_z, atol=1e-9 * (1 + np.abs(sum_z).max()))
        psi = learner.trace.psi
        best = mirror.argmin(psi, learner.domain, learner.theta)
        np.testing.assert_allclose(learner.x, best, atol=1e-6 * (1 + np.abs(best).max()))


@third
@given(learner=learners(), loss=a_loss, seed=a_seed)
def test_no_update_is_worse_than_linear_under_its_objective(learner, loss, seed):
    """delta_t = H(g) - H(z) >= 0, always but for the literal two-step update, which needs c L <= 1."""
    literal = isinstance(learner.update, updates.TwoStep) and not learner.update.safeguard
    for e in stream(loss, 12, seed):
        for step in play(learner, loss, [e]):
            if literal:
                # For a squared norm c <= weight norm(s)^2 / lambda whatever the domain: projections do not expand.
                simple = isinstance(learner.regularizer, regularizers.SquaredNorm)
                c = e.weight * float(e.s @ e.s) / step.lam
                if not (simple and not learner.lookahead and c * smoothness(loss) <= 1.0):
                    continue
            assert step.delta >= -rounding(learner)


@third
@given(learner=learners(), loss=a_loss, seed=a_seed)
def test_the_certificate_is_never_below_the_regret(learner, loss, seed):
    examples = stream(loss, 15, seed)
    examples = examples[: len(play(learner, loss, examples))]
    certificate = learner.certificate
    rng = np.random.default_rng(seed)
    for scale in (0.0, 0.1, 1.0, 10.0):
        u = scale * rng.normal(size=DIMENSION)
        optimum = total_loss(loss, examples, u)
        slack = rounding(learner) + 1e-12 * abs(optimum)
        assert certificate.loss_sum - optimum <= certificate.regret_bound(u) + slack
        for norm in (1, 2, np.inf):
            radius = float(np.linalg.norm(u, norm))
            assert certificate.regret_bound(u) <= certificate.regret_bound_ball(radius, norm) + slack
            assert certificate.best_loss_lower_bound(radius, norm) <= optimum + slack


@third
@given(learner=learners(), loss=a_loss, seed=a_seed)
def test_the_terms_of_theorem_3_1_sum_to_the_bound(learner, loss, seed):
    play(learner, loss, stream(loss, 12, seed))
    u = np.abs(np.random.default_rng(seed).normal(size=DIMENSION))  # the entropy wants u >= 0
    terms = learner.certificate.theorem_terms(u)
    scale = max(abs(term) for term in terms)
    assert sum(terms) == pytest.approx(learner.certificate.regret_bound(u), abs=rounding(learner) + 1e-9 * scale)
    if not learner.lookahead and not isinstance(learner.regularizer, regularizers.Entropy):
        # (The entropy can be negative off the simplex, and then falls as lambda grows.)
        assert terms.growth <= rounding(learner) + 1e-9 * scale
    if learner.domain.contains(u):
        assert terms.slack <= rounding(learner) + 1e-9 * scale


@pytest.mark.parametrize("loss", members("loss"), ids=repr)
@pytest.mark.parametrize("update", [updates.Proximal(), updates.Truncated(), updates.ImportanceAware()], ids=repr)
def test_scales_from_tiny_to_huge_stay_finite(loss, update):
    """Implicit updates do not overshoot however large the example: no NaN, no error."""
    for scale in (1e-20, 1.0, 1e20):
        learner = Learner(DIMENSION, update=update)
        for e in stream(loss, 10, seed=3, scale=scale):
            step = learner.observe(loss, e.s, e.y if abs(e.y) <= 1.0 else np.sign(e.y), weight=1e6 * e.weight)
            assert np.isfinite(learner.x).all()
            assert not np.isnan(step[2:3] + step[5:]).any()


@pytest.mark.parametrize("lookahead", [True, False, None])
@pytest.mark.parametrize("update", [type(u) for u in members("update")][:5], ids=lambda u: u.__name__)
def test_look_ahead_is_what_was_asked_for(update, lookahead):
    ahead = Learner(2, update=update(lookahead=lookahead), schedule="temporal")
    assert ahead.lookahead is (lookahead is not False)
    for regularizer, schedule in (("squared_norm", "adagrad_norm"), ("adagrad", "constant"), ("curvature", "sqrt")):
        if lookahead:
            with pytest.raises(Incompatible, match=r"lookahead=True .* not known in time"):
                Learner(2, regularizer, update=update(lookahead=lookahead), schedule=schedule)
        else:
            assert not Learner(2, regularizer, update=update(lookahead=lookahead), schedule=schedule).lookahead


def test_a_schedule_that_needs_the_next_point_first_is_refused_where_there_is_none():
    with pytest.raises(Incompatible, match=r"AdaImplicit.*needs the next point.*Centred"):
        Learner(2, schedule=schedules.AdaImplicit())
    assert Learner(2, regularizers.Centred(), schedule=schedules.AdaImplicit()).lookahead is False


def test_weight_zero_changes_nothing_but_the_round():
    learner = Learner(2)
    learner.observe(losses.Logistic(), [1.0, 2.0], 1.0)
    x = learner.x
    step = learner.observe(losses.Logistic(), [3.0, -1.0], -1.0, weight=0.0)
    assert (step.loss, step.delta, step.z.tolist()) == (0.0, 0.0, [0.0, 0.0])
    np.testing.assert_allclose(learner.theta, x * 1.0)


def test_the_point_and_theta_cannot_be_written_to():
    learner = Learner(2)
    for array in (learner.x, learner.theta):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
