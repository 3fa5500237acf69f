"""Where the published paper is wrong or silent, shown: a group of tests for each row of the table in docs/theory.md."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from giftrl import Learner, losses
from giftrl.losses import Absolute, Hinge, Logistic, Squared
from giftrl.ops.line import Affine
from giftrl.schedules import TemporalVariability
from giftrl.updates import Linear, Proximal, Truncated, TwoStep
from tests.members import label_for


def examples(loss: Any, rounds: int, seed: int = 0, dimension: int = 5, size: float = 1.0) -> list[tuple[Any, float]]:
    """A noisy linear model with features of norm ``size``."""
    rng = np.random.default_rng(seed)
    truth = 3.0 * rng.normal(size=dimension)
    drawn = []
    for _ in range(rounds):
        s = rng.normal(size=dimension)
        s *= size / np.linalg.norm(s)
        drawn.append((s, label_for(loss, float(s @ truth) + 0.1 * rng.normal())))
    return drawn


def run(loss: Any, stream: list[tuple[Any, float]], update: Any, schedule: Any) -> tuple[Learner, list[Any]]:
    learner = Learner(len(stream[0][0]), update=update, schedule=schedule)
    return learner, [learner.observe(loss, s, y) for s, y in stream]


def total_loss(loss: Any, stream: list[tuple[Any, float]], u: Any) -> float:
    return sum(loss.value(float(s @ u), y) for s, y in stream)


def test_erratum_1_printed_truncated_step_is_not_the_minimiser():
    rng = np.random.default_rng(0)
    cases = printed_wrong = printed_worse_than_g = 0
    for i in range(2000):
        loss = (Hinge(), Absolute(), Squared(), Logistic())[i % 4]
        p, y = 2.0 * rng.normal(), label_for(loss, 2.0 * rng.normal())
        lam = 10 ** rng.uniform(-2, 1)
        next_lam = lam * (1.0 + 10 ** rng.uniform(-2, 1))
        # x_t = theta_t / lam_t, and H starts from theta_t / lam_{t+1}.
        pb, cb = p * lam / next_lam, 10 ** rng.uniform(-1, 1) / next_lam
        height, g, floor = loss.value(p, y), loss.slope(p, y), loss.infimum(y)
        if g == 0.0:
            continue

        def h(r, pb=pb, cb=cb, height=height, g=g, floor=floor, p=p):
            """H of the truncated model max(height + g (q - p), floor) at b = r g; its conjugate is straight in r."""
            return -r * g * pb + 0.5 * (r * g) ** 2 * cb + r * (g * p - height) - (1.0 - r) * floor

        found = minimize_scalar(h, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
        least = min(h(0.0), h(1.0), found.fun)
        tolerance = 1e-9 * max(1.0, abs(least))

        ours = Truncated().pick(loss, y, p, Affine(pb, cb)) / g
        assert 0.0 <= ours <= 1.0
        assert h(ours) <= least + tolerance

        printed = min(1.0, (height - floor) / (g * g * cb))
        cases += 1
        printed_wrong += h(printed) > least + tolerance
        printed_worse_than_g += h(printed) > h(1.0) + tolerance
    assert cases > 1800
    assert printed_wrong > 0.5 * cases
    assert printed_worse_than_g > 0  # so the printed step is not even a member of the family in these


def test_erratum_2_gamma_can_be_negative_and_lam_never_falls():
    schedule = TemporalVariability(beta=10.0)
    learner, steps = run(Hinge(), examples(Hinge(), 200), Proximal(lookahead=True), schedule)
    gamma = np.array([step.gamma for step in steps])
    lam = np.array([*(step.lam for step in steps), learner.lam])
    assert (gamma < -1e-6).sum() > 10

    # As printed, the sum of the gammas themselves, lambda would fall ...
    as_printed = lam[0] + np.concatenate([[0.0, 0.0], np.cumsum(gamma)[:-1]]) / schedule.beta**2
    assert np.diff(as_printed).min() < -1e-6
    # ... and clipped it does not.
    assert np.diff(lam).min() >= 0.0
    assert learner.certificate.lemma_4_1(learner.x) >= learner.certificate.regret_bound(learner.x) - 1e-9


def test_erratum_2_gamma_is_negative_where_only_the_growth_of_lam_moves_the_point():
    learner, steps = run(Hinge(), examples(Hinge(), 200), Proximal(lookahead=True), TemporalVariability(beta=10.0))
    lams = [*(step.lam for step in steps), learner.lam]
    still = [t for t, step in enumerate(steps) if not step.z.any() and step.loss == 0.0 and lams[t + 1] > lams[t]]
    assert still
    for t in still:
        assert steps[t].gamma < 0.0


def test_erratum_3_corrected_corollary_is_never_below_the_regret():
    rng = np.random.default_rng(3)
    negative_gammas = 0
    for seed in range(90):
        loss = (Absolute(), Hinge(), Logistic())[seed % 3]
        beta = 10 ** rng.uniform(-2, 1.5)
        stream = examples(loss, int(rng.integers(1, 60)), seed, dimension=3, size=0.999)
        learner, steps = run(loss, stream, Proximal(), TemporalVariability(beta=beta, gradient_bound=1.0))
        certificate = learner.certificate
        negative_gammas += any(step.gamma < 0.0 for step in steps)
        for u in (learner.x, 2.0 * learner.x, *rng.normal(size=(3, 3))):
            regret = certificate.loss_sum - total_loss(loss, stream, u)
            corollary, lemma = certificate.corollary_4_3(u), certificate.lemma_4_1(u)
            slack = 1e-9 * max(1.0, abs(corollary))
            assert regret <= certificate.regret_bound(u) + slack
            assert certificate.regret_bound(u) <= lemma + slack
            assert lemma <= corollary + slack
    assert negative_gammas >= 15


@pytest.mark.parametrize(("loss", "beta"), [(Absolute(), 0.1), (Hinge(), 10.0), (Logistic(), 10.0)])
def test_erratum_3_first_branch_alone_holds(loss, beta):
    # norm(g) is above G, which takes away the second branch, and some gammas are negative.
    stream = examples(loss, 100)
    learner, steps = run(loss, stream, Proximal(), TemporalVariability(beta=beta, gradient_bound=0.1))
    certificate = learner.certificate
    assert max(np.linalg.norm(step.g) for step in steps) > 0.1
    assert min(step.gamma for step in steps) < 0.0
    for u in (learner.x, 2.0 * learner.x, np.ones(5)):
        regret = certificate.loss_sum - total_loss(loss, stream, u)
        assert regret <= certificate.lemma_4_1(u) <= certificate.corollary_4_3(u)


def test_erratum_3_first_branch_needs_the_negative_gammas():
    # abs(x - 1) again and again, with a first step so long that lambda jumps and pulls the point back.
    stream = [(np.array([1.0]), 1.0)] * 30
    learner, steps = run(Absolute(), stream, Proximal(), TemporalVariability(beta=0.1, gradient_bound=0.05))
    certificate = learner.certificate
    first, last = certificate.trace.rounds[0], certificate.trace.rounds[-1]
    moved = first.loss - last.loss_after + certificate.observed_variability()
    assert min(step.gamma for step in steps) < -1.0
    assert sum(max(step.gamma, 0.0) for step in steps) > moved
    regret = certificate.loss_sum  # u = 1 pays nothing
    assert (steps[0].lam + moved / 0.1**2) / 2.0 + moved < regret <= certificate.corollary_4_3([1.0])


def test_erratum_3_first_branch_without_g_is_violated():
    # One round of abs(x - 1) from x_1 = 0, with G = 2 >= norm(g): a run that the published corollary covers.
    learner, _ = run(
        Absolute(), [(np.array([1.0]), 1.0)], Proximal(), TemporalVariability(beta=1.0, gradient_bound=2.0)
    )
    certificate = learner.certificate
    first, last = certificate.trace.rounds[0], certificate.trace.rounds[-1]
    moved = first.loss - last.loss_after + certificate.observed_variability()
    beta, u = 1.0, 1.0
    regret = certificate.loss_sum  # u = 1 pays nothing
    assert regret == 1.0
    assert first.gamma >= 0.0
    assert (u**2 / (2.0 * beta**2) + 1.0) * moved == pytest.approx(0.75)  # without G: below the regret
    assert certificate.corollary_4_3([u]) == pytest.approx(1.75)  # with it: above


@pytest.mark.parametrize("loss", [Absolute(), Logistic()])
def test_erratum_3_schedule_lags_two_rounds(loss):
    schedule = TemporalVariability(beta=2.0, gradient_bound=3.0)
    learner, steps = run(loss, examples(loss, 50), Proximal(lookahead=True), schedule)
    lam = [*(step.lam for step in steps), learner.lam]  # lambda_1, ..., lambda_{T+1}
    gained = [max(step.gamma, 0.0) / schedule.beta**2 for step in steps]  # of rounds 1, ..., T
    assert lam[0] == lam[1] == schedule.gradient_bound / schedule.beta
    # lambda_{t+1} = lambda_t + gamma_{t-1} / beta^2 ...
    np.testing.assert_allclose(np.diff(lam)[1:], gained[:-1], atol=1e-12)
    # ... and not lambda_t + gamma_t / beta^2, which the published proof uses.
    assert np.abs(np.diff(lam) - gained).max() > 1e-3


LARGE = TemporalVariability(beta=100.0)
FLOOR = TemporalVariability(beta=100.0, floor=1.0)  # the largest norm(s)^2


@pytest.mark.parametrize(("loss", "largest_z"), [(Hinge(), 0.0), (Logistic(), 1e-20)])
def test_erratum_4_literal_two_step_freezes(loss, largest_z):
    _, steps = run(loss, examples(loss, 200), TwoStep(), LARGE)
    assert max(np.abs(step.z).max() for step in steps) <= largest_z
    assert [step.loss for step in steps] == pytest.approx([loss.value(0.0, 1.0)] * 200, rel=1e-12)
    assert min(np.abs(step.g).max() for step in steps) > 0.1  # there is something to learn in every round


@pytest.mark.parametrize("loss", [Hinge(), Logistic()])
def test_erratum_4_frozen_z_passes_the_test_of_the_family(loss):
    # So "fall back when H(z) > H(g)" never falls back.
    learner, steps = run(loss, examples(loss, 200), TwoStep(), LARGE)
    assert min(step.delta for step in steps) > 1.0  # H(g) - H(z)
    assert learner.certificate.harmful_rounds == 0


def test_erratum_4_literal_two_step_flips_on_the_absolute_loss():
    stream = examples(Absolute(), 200)
    staying = total_loss(Absolute(), stream, np.zeros(5))
    totals = []
    for beta in (100.0, 1000.0, 10000.0):
        learner, steps = run(Absolute(), stream, TwoStep(), TemporalVariability(beta=beta))
        np.testing.assert_array_equal(steps[0].z, -steps[0].g)  # away from the label
        assert learner.certificate.harmful_rounds > 50
        totals.append(learner.certificate.loss_sum)
    assert totals[0] > 5.0 * staying
    # The loss grows with beta and has no limit.
    assert totals[1] > 5.0 * totals[0]
    assert totals[2] > 5.0 * totals[1]


@pytest.mark.parametrize(
    ("loss", "update", "schedule"),
    [
        (Hinge(), TwoStep(), FLOOR),
        (Logistic(), TwoStep(), FLOOR),
        (Hinge(), TwoStep(safeguard=True), LARGE),
        (Logistic(), TwoStep(safeguard=True), LARGE),
        (Absolute(), TwoStep(safeguard=True), LARGE),
    ],
)
def test_erratum_4_floor_and_safeguard_learn(loss, update, schedule):
    stream = examples(loss, 200)
    learner, steps = run(loss, stream, update, schedule)
    staying = total_loss(loss, stream, np.zeros(5))
    assert learner.certificate.loss_sum < 0.5 * staying
    assert sum(step.loss for step in steps[-50:]) < 0.5 * staying * 50 / 200
    if update.safeguard:
        assert learner.certificate.harmful_rounds == 0


def test_erratum_4_floor_bounds_the_harm_on_the_absolute_loss():
    # No step is longer than norm(s) / floor however large beta is; whether that is short depends on the labels.
    stream = examples(Absolute(), 200)
    totals = [
        run(Absolute(), stream, TwoStep(), TemporalVariability(beta=beta, floor=1.0))[0].certificate.loss_sum
        for beta in (100.0, 1000.0, 10000.0)
    ]
    assert max(totals) < 1.05 * min(totals)
    literal, _ = run(Absolute(), stream, TwoStep(), LARGE)
    assert max(totals) < 0.2 * literal.certificate.loss_sum


@pytest.mark.parametrize("loss", [Squared(), Logistic(), losses.Huber(0.5), losses.SquaredHinge()])
def test_erratum_4_guarantee_up_to_c_l_of_1(loss):
    rng = np.random.default_rng(4)
    broken = 0
    for _ in range(500):
        p, pb, y = rng.normal(size=3) * 3.0
        y = label_for(loss, y)
        for c in (rng.uniform(), 10 ** rng.uniform(0, 3)):
            line = Affine(pb, c / loss.smoothness())
            b, g = TwoStep().pick(loss, y, p, line), loss.slope(p, y)
            # H(g) of the look-ahead objective is finite because g is a slope.
            gain = line.energy(g) + loss.conjugate(g, y) - line.energy(b) - loss.conjugate(b, y)
            if c <= 1.0:
                assert gain >= -1e-9 * max(1.0, b * b, g * g)
            else:
                broken += gain < -1e-9 * max(1.0, b * b, g * g)
    assert broken > 0


def test_erratum_5_prox_of_the_absolute_loss_needs_the_sign():
    rng = np.random.default_rng(5)
    below = 0
    for _ in range(200):
        p, y, c = rng.normal(), rng.normal(), 10 ** rng.uniform(-1, 1)

        def objective(a, p=p, y=y, c=c):
            """What the point q = p - a c pays: abs(q - y) + (q - p)^2 / (2 c)."""
            return abs(p - a * c - y) + 0.5 * a * a * c

        found = minimize_scalar(objective, bounds=(-1.0, 1.0), method="bounded", options={"xatol": 1e-12})
        assert objective(Absolute().prox(p, y, c)) <= found.fun + 1e-9
        unsigned = min(1.0, abs(p - y) / c)
        if p < y:
            below += 1
            assert objective(unsigned) > found.fun + 1e-9
            assert Absolute().prox(p, y, c) == -unsigned
        else:
            assert Absolute().prox(p, y, c) == unsigned
    assert below > 50


def points(update: Any, stream: list[tuple[Any, float]], beta: float) -> Any:
    learner = Learner(len(stream[0][0]), update=update, schedule=TemporalVariability(beta=beta))
    played = []
    for s, y in stream:
        learner.observe(Hinge(), s, y)
        played.append(learner.x)
    return np.array(played)


@pytest.mark.parametrize("beta", [1.0, 10.0, 100.0])
def test_erratum_6_truncated_and_proximal_differ_between_variants(beta):
    stream = examples(Hinge(), 200)
    truncated, proximal = (points(u, stream, beta) for u in (Truncated(lookahead=False), Proximal(lookahead=True)))
    assert np.abs(truncated - proximal).max() > 1e-3


@pytest.mark.parametrize("beta", [1.0, 10.0, 100.0])
def test_erratum_6_same_points_with_the_current_psi(beta):
    stream = examples(Hinge(), 200)
    truncated, proximal = (points(update(lookahead=False), stream, beta) for update in (Truncated, Proximal))
    np.testing.assert_allclose(truncated, proximal, rtol=0.0, atol=1e-12)
    linear = points(Linear(lookahead=False), stream, beta)
    assert np.abs(linear - proximal).max() > 1e-3  # they agree with each other, not with everything


def test_erratum_6_with_the_next_psi_they_agree_unless_the_margin_falls_below_1():
    rng = np.random.default_rng(6)
    apart = 0
    for _ in range(1000):
        y, p, c = float(rng.choice([-1.0, 1.0])), 2.0 * rng.normal(), 10 ** rng.uniform(-1, 1)
        line = Affine(p * rng.uniform(0.2, 1.0), c)  # pb = p lam_t / lam_{t+1}
        truncated, proximal = (update.pick(Hinge(), y, p, line) for update in (Truncated(), Proximal()))
        if y * p >= 1.0 > y * line.p:
            # The tangent at x_t is flat, and the loss is not where the larger lambda has moved the point.
            assert truncated == 0.0
            assert y * proximal < 0.0
            apart += 1
        else:
            assert math.isclose(truncated, proximal, rel_tol=1e-12, abs_tol=1e-15)
    assert apart > 50
