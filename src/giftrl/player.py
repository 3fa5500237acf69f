"""A player: what every online learner here has in common.

It holds a point x_t, is shown a loss, and moves. A subclass says how, as a function from one state to the next, so that
an error anywhere in a round leaves the player as it was.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from giftrl import domains, losses, mirror, regularizers, schedules, updates
from giftrl.certificates import Certificate
from giftrl.domains import Domain
from giftrl.errors import Incompatible, InvalidInput, Overflowed, require, require_whole
from giftrl.losses.vector import Vector
from giftrl.ops import brings
from giftrl.ops import loss as scalar
from giftrl.regularizers import Evidence, Potential
from giftrl.regularizers.contract import centred, start, uses_curvature
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.rounds import BlackBoxRound, Decision, LinearRound, OnlineRound
from giftrl.schedules.contract import evidence, lam, uses_gamma
from giftrl.schedules.contract import known_ahead as lam_known_ahead
from giftrl.trace import RoundRecord, Step, Trace
from giftrl.updates.contract import check_loss


def looks_ahead(regularizer: Any, update: Any, schedule: Any) -> bool:
    """Whether a learner made of these parts chooses z with H, or with H'; raise where it can do neither."""
    ahead = psi_known_ahead(regularizer) and lam_known_ahead(schedule)
    wanted = getattr(update, "lookahead", None)
    if wanted and not ahead:
        raise Incompatible(
            f"lookahead=True uses the next regularizer, which is not known in time with {regularizer!r} and "
            f"{schedule!r}; use lookahead=False or None"
        )
    if uses_gamma(schedule) and not centred(regularizer) and not lam_known_ahead(schedule):
        raise Incompatible(
            f"{schedule!r} needs the next point before the next lambda, and with {regularizer!r} the next point "
            "depends on it; use Centred(...) around the regularizer, or TemporalVariability"
        )
    return bool(ahead if wanted is None else wanted)


class State(NamedTuple):
    """Where a player stands before round t."""

    t: int
    x: Vector
    theta: Vector  # minus the sum of the z so far
    psi: Potential  # psi_t
    lam: float  # lambda_t
    total: float  # the evidence of the schedule so far
    rounds: list[RoundRecord]  # shared by the states of one run, and only ever appended to
    past: tuple[Any, ...] = ()  # whatever else an algorithm keeps


class Move(NamedTuple):
    """A round played: the decision, and the state that comes of it."""

    decision: Decision
    x: Vector
    theta: Vector
    psi: Potential
    lam: float
    growth: float = math.nan
    linearized: float = math.nan
    past: tuple[Any, ...] = ()
    conjugates: tuple[float, ...] | None = None  # of all rounds so far, where the z of earlier ones have moved


class Player(ABC):
    """An online learner. It plays :attr:`x`, sees a loss through :meth:`observe`, and moves.

    Args:
        dimension: of the space, at least 1.
        regularizer: a member of :mod:`giftrl.regularizers` or its name.
        domain: a member of :mod:`giftrl.domains` or its name.
        update: a member of :mod:`giftrl.updates` or its name.
        schedule: a member of :mod:`giftrl.schedules` or its name.
    """

    lookahead: bool  #: whether z is chosen with H, which uses psi_{t+1}, or with H'

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
        self._state = State(1, x, theta, psi, first, 0.0, [])

    @property
    def x(self) -> Vector:
        """The point x_t that is played next; read-only."""
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
        """The number of the round that comes next, from 1."""
        return self._state.t

    @property
    def trace(self) -> Trace:
        """The record of the run so far."""
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
        """What the run so far proves about itself."""
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
        # Overflow is looked for in the result, and there are no other floating-point events to warn about.
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
        self._state = State(
            state.t + 1, _frozen(move.x), _frozen(move.theta), move.psi, move.lam, total, rounds, move.past
        )
        return step

    @abstractmethod
    def _play(self, state: State, online_round: OnlineRound) -> Move:
        """Choose z and go to the next point; change nothing."""

    def _evidence(self, online_round: OnlineRound, z: Vector, x: Vector) -> Evidence:
        """What the round teaches the regularizer, x being the point to which z leads under psi_t."""
        if isinstance(online_round, BlackBoxRound):
            return Evidence(z, x, None, None)
        curvature = online_round.curvature(x) if uses_curvature(self.regularizer) else 0.0
        return Evidence(z, x, online_round.s, curvature)

    def _gamma(self, state: State, online_round: OnlineRound, x: Vector) -> float:
        """l_t(x_t) - l_t(x) - B_{psi_t}(x; x_t)."""
        return online_round.value(state.x) - online_round.value(x) - state.psi.divergence(x, state.x)

    def _schedule_evidence(self, state: State, gamma: float, z: Vector) -> float:
        return evidence(self.schedule, gamma, state.psi.dual_norm(z) ** 2)

    def _report(self, state: State, online_round: OnlineRound, move: Move) -> tuple[Step, RoundRecord, float]:
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
    """A copy that cannot be written to."""
    copy = np.array(x, dtype=float)
    copy.flags.writeable = False
    return copy
