"""Algorithm 1 of the paper, generalized implicit Follow-The-Regularized-Leader, one round at a time.

A :class:`LinearRound` or a :class:`BlackBoxRound` is the loss of one round. A :class:`Player` holds a point x_t, sees a
round and moves: its ``_play`` maps one :class:`PlayerState` to the next :class:`Move`, so an error leaves it unchanged.
:class:`Learner` is the player of Algorithm 1; :mod:`giftrl.reference.baselines` has the others of Table 1.
"""

import math
import sys
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from giftrl import domains, losses, mirror, regularizers, schedules, updates
from giftrl.certificates import Certificate
from giftrl.domains import Domain, WholeSpace
from giftrl.errors import Given, Incompatible, InvalidInput, Overflowed, require, require_whole
from giftrl.losses.vector import Vector, VectorLoss
from giftrl.mirror import make_line
from giftrl.ops import brings
from giftrl.ops import loss as scalar
from giftrl.ops.line import objective
from giftrl.ops.scalar import clamp
from giftrl.regularizers import Evidence, Potential, SquaredNorm
from giftrl.regularizers.contract import advance, centred, start, uses_curvature
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.schedules import TemporalVariability
from giftrl.schedules.contract import evidence, lam, uses_gamma
from giftrl.schedules.contract import known_ahead as lam_known_ahead
from giftrl.trace import RoundRecord, Step, Trace
from giftrl.updates import Proximal
from giftrl.updates.contract import VectorProblem, check_loss, pick, pick_vector


class Decision(NamedTuple):
    """The choice of an update: a subgradient g at x_t, the chosen z, l*(z) or an upper bound, and H(g) - H(z)."""

    g: Vector
    z: Vector
    conjugate: float
    delta: float


class LinearRound(NamedTuple):
    """A round of a linear model: l(x) = weight phi(<s, x>; y)."""

    loss: Any
    s: Vector
    y: float
    weight: float

    def prediction(self, x: Vector) -> float:
        """<s, x>."""
        return float(self.s @ x)

    def value(self, x: Vector) -> float:
        """l(x)."""
        return self.weight * scalar.value(self.loss, self.prediction(x), self.y) if self.weight > 0.0 else 0.0

    def curvature(self, x: Vector) -> float:
        """weight phi''(<s, x>)."""
        return self.weight * scalar.curvature(self.loss, self.prediction(x), self.y) if self.weight > 0.0 else 0.0

    def decide(self, update: Any, psi: Potential, domain: Domain, theta: Vector, x: Vector) -> Decision:
        """Let an update choose z = weight b s under psi, which is psi_{t+1} for H and psi_t for H'."""
        if self.weight == 0.0:
            zero = np.zeros_like(theta)
            return Decision(zero, zero, 0.0, 0.0)
        loss, s, y, weight = self.loss, self.s, self.y, self.weight
        p = self.prediction(x)
        line = make_line(psi, domain, theta, s, weight)
        b = pick(update, loss, y, p, line)
        if not np.isfinite(b):
            raise Overflowed(
                f"the slope {b} picked by {type(update).__name__} at the prediction {p!r} is not finite; "
                "use Proximal, which does not overshoot, or a smaller beta"
            )
        # A slope beyond float64 is reported as the largest number.
        g = clamp(scalar.slope(loss, p, y), -sys.float_info.max, sys.float_info.max)
        delta = 0.0 if b == g else weight * (objective(line, loss, y, g) - objective(line, loss, y, b))
        return Decision((weight * g) * s, (weight * b) * s, weight * scalar.conjugate(loss, b, y), delta)


class BlackBoxRound(NamedTuple):
    """A round with any convex loss of the whole vector: l(x) = weight loss(x)."""

    loss: VectorLoss
    weight: float

    def prediction(self, x: Vector) -> float | None:
        """None, as a black-box loss has no prediction."""
        return None

    def value(self, x: Vector) -> float:
        """l(x)."""
        return self.weight * float(self.loss.value(x))

    def decide(self, update: Any, psi: Potential, domain: Domain, theta: Vector, x: Vector) -> Decision:
        """Let an update choose z under psi, which is psi_{t+1} for H and psi_t for H'."""
        if self.weight == 0.0:
            zero = np.zeros_like(theta)
            return Decision(zero, zero, 0.0, 0.0)
        g = np.asarray(self.loss.subgradient(x), dtype=float)
        problem = VectorProblem(self.loss, self.weight, x, float(self.loss.value(x)), g, psi, domain, theta)
        choice = pick_vector(update, problem)
        linear = problem.subgradient_choice(x, problem.value, problem.g)
        delta = problem.objective(linear) - problem.objective(choice)
        return Decision(linear.z, choice.z, choice.conjugate, delta)


OnlineRound = LinearRound | BlackBoxRound


def looks_ahead(regularizer: Any, update: Any, schedule: Any) -> bool:
    """True if a learner with these parts uses H, False for H'; raises an error if neither is possible."""
    ahead = psi_known_ahead(regularizer) and lam_known_ahead(schedule)
    wanted = getattr(update, "lookahead", None)
    if wanted and not ahead:
        unknown = f" uses the next regularizer, which is not known in time with {regularizer!r} and {schedule!r}; use "
        raise Incompatible([Given("lookahead", True), unknown, Given("lookahead", False), " or None"])
    if uses_gamma(schedule) and not centred(regularizer) and not lam_known_ahead(schedule):
        raise Incompatible(
            f"{schedule!r} needs the next point before the next lambda, and with {regularizer!r} the next point "
            "depends on it; use Centred(...) around the regularizer, or TemporalVariability"
        )
    return bool(ahead if wanted is None else wanted)


class PlayerState(NamedTuple):
    """The state of a player before round t."""

    t: int
    x: Vector
    theta: Vector  # minus the sum of the z so far
    psi: Potential  # psi_t
    lam: float  # lambda_t
    total: float  # the evidence of the schedule so far
    rounds: list[RoundRecord]  # shared by all states of a run, append-only
    past: tuple[Any, ...] = ()  # other state of an algorithm


class Move(NamedTuple):
    """The result of one round: the decision, and the parts of the next state."""

    decision: Decision
    x: Vector
    theta: Vector
    psi: Potential
    lam: float
    growth: float = math.nan
    linearized: float = math.nan
    past: tuple[Any, ...] = ()
    conjugates: tuple[float, ...] | None = None  # the sum over all rounds, if earlier z changed


class Player(ABC):
    """An online learner. It plays :attr:`x`, sees a loss through :meth:`observe`, and moves; see :class:`Learner`."""

    lookahead: bool  #: True if z is chosen with H, which uses psi_{t+1}; False for H'

    def __init__(self, dimension: int, regularizer: Any, domain: Any, update: Any, schedule: Any) -> None:
        self.dimension = require_whole("dimension", dimension, 1, "give the number of features")
        self.regularizer = regularizers.BY_NAME.member(regularizer, "strength", "start")
        self.domain: Domain = domains.BY_NAME.member(domain, "project")
        self.update = updates.BY_NAME.member(update, "pick", "pick_vector")
        self.schedule = schedules.BY_NAME.member(schedule, "lam")
        self.domain.check_dimension(self.dimension)
        first = lam(self.schedule, 1, 0.0)
        psi = start(self.regularizer, self.dimension, first)
        try:
            mirror.check_pair(psi, self.domain)
        except Incompatible as problem:
            raise Incompatible(f"{self.regularizer!r} with {self.domain!r}: {problem}") from None
        theta = _frozen(np.zeros(self.dimension))
        x = _frozen(mirror.argmin(psi, self.domain, theta))
        self._psi_start = psi.value(x)
        self._state = PlayerState(1, x, theta, psi, first, 0.0, [])

    @property
    def x(self) -> Vector:
        """The next point x_t; read-only."""
        return self._state.x

    @property
    def theta(self) -> Vector:
        """theta_t, minus the sum of the z so far; read-only."""
        return self._state.theta

    @property
    def lam(self) -> float:
        """lambda_t, the strength of psi_t."""
        return self._state.lam

    @property
    def t(self) -> int:
        """The number of the next round, from 1."""
        return self._state.t

    @property
    def trace(self) -> Trace:
        """The trace of the run so far."""
        state = self._state
        return Trace(
            algorithm=type(self).__name__,
            rounds=tuple(state.rounds),
            theta=state.theta,
            psi_start=self._psi_start,
            psi=state.psi,
            domain=self.domain,
            regularizer=self.regularizer,
            update=self.update,
            schedule=self.schedule,
            lookahead=self.lookahead,
        )

    @property
    def certificate(self) -> Certificate:
        """The certificate of the run so far."""
        return Certificate.from_trace(self.trace)

    def predict(self, s: ArrayLike) -> float:
        """<s, x_t>."""
        return float(self._features(s) @ self.x)

    def observe(self, loss: Any, s: ArrayLike | None = None, y: float | None = None, *, weight: float = 1.0) -> Step:
        """Play x_t against a loss, learn from it, and report the round.

        Args:
            loss: with s and y, a scalar loss (a member of :mod:`giftrl.losses`, its name, or a NamedTuple of your own);
                without them, any object with value(x) and subgradient(x).
            s: the features.
            y: the label.
            weight: the importance h of the example: the loss is h times as large.
        """
        state = self._state
        online_round = self._round(loss, s, y, weight)
        # Overflow is detected in the result, so floating-point warnings are off.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            move = self._play(state, online_round)
            step, record, total = self._report(state, online_round, move)
        if not (np.isfinite(move.theta).all() and np.isfinite(move.x).all()):
            raise Overflowed(
                f"round {state.t} leaves the range of float64 (largest abs(z): {np.abs(move.decision.z).max()!r}); "
                "scale the features, or use a smaller beta"
            )
        rounds = state.rounds
        rounds.append(record)
        if move.conjugates is not None:
            rounds = [r._replace(conjugate=c) for r, c in zip(rounds, move.conjugates, strict=True)]
        self._state = PlayerState(
            state.t + 1, _frozen(move.x), _frozen(move.theta), move.psi, move.lam, total, rounds, move.past
        )
        return step

    @abstractmethod
    def _play(self, state: PlayerState, online_round: OnlineRound) -> Move:
        """Choose z and compute the next point, without changing the player."""

    def _evidence(self, online_round: OnlineRound, z: Vector, x: Vector) -> Evidence:
        """The evidence of the round for the regularizer; x is the minimiser under psi_t after z."""
        if isinstance(online_round, BlackBoxRound):
            return Evidence(z, x, None, None)
        curvature = online_round.curvature(x) if uses_curvature(self.regularizer) else 0.0
        return Evidence(z, x, online_round.s, curvature)

    def _gamma(self, state: PlayerState, online_round: OnlineRound, x: Vector) -> float:
        """l_t(x_t) - l_t(x) - B_{psi_t}(x; x_t)."""
        return online_round.value(state.x) - online_round.value(x) - state.psi.divergence(x, state.x)

    def _schedule_evidence(self, state: PlayerState, gamma: float, z: Vector) -> float:
        return evidence(self.schedule, gamma, state.psi.dual_norm(z) ** 2)

    def _report(self, state: PlayerState, online_round: OnlineRound, move: Move) -> tuple[Step, RoundRecord, float]:
        d = move.decision
        loss, gamma = online_round.value(state.x), self._gamma(state, online_round, move.x)
        step = Step(state.t, online_round.prediction(state.x), loss, d.g, d.z, state.lam, gamma, d.delta)
        loss_after = online_round.value(move.x)
        record = RoundRecord(
            loss=loss,
            loss_after=loss_after,
            conjugate=d.conjugate,
            lam=state.lam,
            gamma=gamma,
            delta=d.delta,
            linearized=move.linearized,
            growth=move.growth,
            gap=max(0.0, loss_after + d.conjugate - float(d.z @ move.x)),
            rise=move.psi.value(move.x) - state.psi.value(move.x),
            g_norm=state.psi.dual_norm(d.g),
        )
        return step, record, state.total + self._schedule_evidence(state, gamma, d.z)

    def _round(self, loss: Any, s: ArrayLike | None, y: float | None, weight: float) -> OnlineRound:
        remedy = "leave out the example if it has none"
        require(0.0 <= weight < math.inf, "weight", weight, "must be finite and not negative", remedy)
        if s is None and y is None:
            both = brings(loss, "value") and brings(loss, "subgradient")
            remedy = "or give s and y for the loss of a linear model"
            require(both, "loss", loss, "must bring value(x) and subgradient(x)", remedy)
            if uses_curvature(self.regularizer):
                raise Incompatible(
                    f"{self.regularizer!r} needs the curvature of a linear model's loss, and {type(loss).__name__} is "
                    "a black box; use SquaredNorm, AdaGrad, ElasticNet, Entropy or PNorm"
                )
            check_loss(self.update, loss, black_box=True)
            return BlackBoxRound(loss, float(weight))
        if s is None or y is None:
            remedy = "a linear model's loss needs both the features s and the label y"
            raise InvalidInput("s" if s is None else "y", None, "must be given", remedy)
        member = losses.scalar(loss)
        check_loss(self.update, member, black_box=False)
        try:
            label = float(y)
        except (TypeError, ValueError):
            label = math.nan
        if not (math.isfinite(label) and scalar.accepts(member, label)):
            rule = f"must be a label of {type(member).__name__}: {scalar.labels(member)}"
            raise InvalidInput("y", y, rule, "map your labels to these")
        return LinearRound(member, self._features(s), label, float(weight))

    def _features(self, s: ArrayLike) -> Vector:
        try:
            features = np.array(s, dtype=float)
        except (TypeError, ValueError):
            raise InvalidInput("s", s, "must be an array of numbers", "encode text and categories first") from None
        rule = f"must have the {self.dimension} features of the learner"
        require(features.shape == (self.dimension,), "s", s, rule, f"it has shape {features.shape}")
        require(bool(np.isfinite(features).all()), "s", s, "must be finite", "remove NaN and infinities")
        return features


def _frozen(x: Vector) -> Vector:
    """A read-only copy."""
    copy = np.array(x, dtype=float)
    copy.flags.writeable = False
    return copy


class Learner(Player):
    """Generalized implicit FTRL: play x_t = argmin over V of psi_t(x) - <theta_t, x>, then theta_{t+1} = theta_t - z_t.

    z_t is any vector with H_t(z_t) <= H_t(g_t), where H_t(z) = psi*_{t+1}(theta_t - z) + l*_t(z), or the same with
    psi_t in place of psi_{t+1} (H'). The update chooses it; every run proves its own regret bound.

    Args:
        dimension: of the space, at least 1.
        regularizer: a member of :mod:`giftrl.regularizers` or its name.
        domain: a member of :mod:`giftrl.domains` or its name.
        update: a member of :mod:`giftrl.updates` or its name; its ``lookahead`` asks for H (True), H' (False), or H
            if psi_{t+1} is known before z_t is chosen (None).
        schedule: a member of :mod:`giftrl.schedules` or its name.

    >>> from giftrl import Learner, losses
    >>> learner = Learner(2, update="proximal", schedule="temporal")
    >>> step = learner.observe(losses.Logistic(), [1.0, 0.0], 1.0)
    >>> round(step.loss, 6), round(float(learner.x[0]), 6)
    (0.693147, 0.401058)
    >>> round(learner.certificate.regret_bound([1.0, 0.0]), 6)
    0.420767
    """

    def __init__(
        self, dimension: int, regularizer: Any = SquaredNorm(), domain: Any = WholeSpace(), update: Any = Proximal(),
        schedule: Any = TemporalVariability(),
    ) -> None:  # fmt: skip
        super().__init__(dimension, regularizer, domain, update, schedule)
        self.lookahead = looks_ahead(self.regularizer, self.update, self.schedule)

    def _play(self, state: PlayerState, online_round: OnlineRound) -> Move:
        psi, theta, x = state.psi, state.theta, state.x
        lam_ahead = lam_known_ahead(self.schedule)
        psi_ahead = lam_ahead and psi_known_ahead(self.regularizer)
        next_lam = lam(self.schedule, state.t + 1, state.total) if lam_ahead else state.lam
        next_psi = advance(self.regularizer, psi, next_lam, None) if psi_ahead else psi

        used = next_psi if self.lookahead else psi
        decision = online_round.decide(self.update, used, self.domain, theta, x)
        next_theta = theta - decision.z

        if not psi_ahead:
            # The next psi is computed from the minimiser under the current one.
            led_to = mirror.argmin(psi, self.domain, next_theta)
            if not lam_ahead:
                gamma = self._gamma(state, online_round, led_to) if uses_gamma(self.schedule) else 0.0
                total = state.total + self._schedule_evidence(state, gamma, decision.z)
                next_lam = lam(self.schedule, state.t + 1, total)
            seen = self._evidence(online_round, decision.z, led_to)
            next_psi = advance(self.regularizer, psi, next_lam, seen)
        # A centred increment of psi has its minimum at the current point, which stays the minimiser.
        stays = not psi_ahead and centred(self.regularizer)
        next_x = led_to if stays else mirror.argmin(next_psi, self.domain, next_theta)

        at_g = mirror.conjugate(used, self.domain, theta - decision.g)
        linearized = at_g - mirror.conjugate(psi, self.domain, theta) + float(decision.g @ x)
        growth = 0.0
        if not self.lookahead:
            growth = mirror.conjugate(next_psi, self.domain, next_theta)
            growth -= mirror.conjugate(psi, self.domain, next_theta)
        return Move(decision, next_x, next_theta, next_psi, next_lam, growth, linearized)
