"""The other algorithms of the paper's Table 1: FTRL with full losses, implicit FTRL, and mirror descent."""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl import mirror
from giftrl.domains import WholeSpace
from giftrl.errors import Incompatible, NotConverged
from giftrl.losses.vector import Vector
from giftrl.reference.learner import Move, OnlineRound, Player, PlayerState
from giftrl.regularizers import Potential, SquaredNorm
from giftrl.regularizers.contract import advance, l1_strength
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.schedules import SquareRoot, TemporalVariability
from giftrl.schedules.contract import known_ahead as lam_known_ahead
from giftrl.schedules.contract import lam
from giftrl.updates import Linear, Proximal


class KnownAhead(Player):
    """A player that minimises psi_{t+1}; refuses regularizers and schedules not known ahead."""

    lookahead = True

    def __init__(self, dimension: int, regularizer: Any, domain: Any, update: Any, schedule: Any) -> None:
        super().__init__(dimension, regularizer, domain, update, schedule)
        unknown = [] if psi_known_ahead(self.regularizer) else [self.regularizer]
        unknown += [] if lam_known_ahead(self.schedule) else [self.schedule]
        if unknown:
            raise Incompatible(
                f"{type(self).__name__} minimises psi_{{t+1}}, which is not known in time with {unknown[0]!r}; use "
                "SquaredNorm, ElasticNet, Entropy or PNorm with a Constant, SquareRoot or TemporalVariability schedule"
            )

    def _next(self, state: PlayerState) -> tuple[float, Potential]:
        """lambda_{t+1} and psi_{t+1}."""
        next_lam = lam(self.schedule, state.t + 1, state.total)
        return next_lam, advance(self.regularizer, state.psi, next_lam, None)


class ImplicitFTRL(KnownAhead):
    """Implicit FTRL: x_{t+1} = argmin over V of psi_{t+1}(x) + l_t(x) + sum over i < t of <z_i, x>.

    For a linear model this is one scalar problem, solved to rounding; for a black-box loss it is solved by the bundle
    method, from values and subgradients. It plays the points of ``Learner(update=Proximal(lookahead=True))``.

    Args: as for :class:`giftrl.Learner`, without an update.
        tolerance: of the inner solver for black-box losses.

    >>> from giftrl import losses
    >>> learner = ImplicitFTRL(1, schedule="constant")
    >>> _ = learner.observe(losses.Squared(), [1.0], 1.0)
    >>> round(float(learner.x[0]), 6)
    0.5
    """

    def __init__(
        self, dimension: int, regularizer: Any = SquaredNorm(), domain: Any = WholeSpace(),
        schedule: Any = TemporalVariability(), tolerance: float = 1e-10,
    ) -> None:  # fmt: skip
        super().__init__(dimension, regularizer, domain, Proximal(lookahead=True, tolerance=tolerance), schedule)

    def _play(self, state: PlayerState, online_round: OnlineRound) -> Move:
        next_lam, psi = self._next(state)
        decision = online_round.decide(self.update, psi, self.domain, state.theta, state.x)
        theta = state.theta - decision.z
        return Move(decision, mirror.argmin(psi, self.domain, theta), theta, psi, next_lam)


MAX_CYCLES = 10_000


class Past(NamedTuple):
    """An earlier loss with its dual variable z and l*(z)."""

    online_round: OnlineRound
    z: Vector
    conjugate: float


class FullFTRL(KnownAhead):
    """FTRL with the losses themselves: x_{t+1} = argmin over V of psi_{t+1}(x) + sum over i <= t of l_i(x).

    Exact and slow: round t costs at least t proximal updates. The dual problem, over one z_i for each loss, is solved
    by block coordinate descent: cyclic exact proximal updates of each loss with the others fixed,
    warm-started from the round before, until the duality gap sum_i l_i(x) + l*_i(z_i) - <z_i, x> is within tolerance
    * max(1, sum_i l_i(x)).

    Args: as for :class:`giftrl.Learner`, without an update.
        tolerance: of the duality gap.

    >>> from giftrl import losses
    >>> learner = FullFTRL(1, schedule="constant")
    >>> for y in (1.0, 3.0):
    ...     _ = learner.observe(losses.Squared(), [1.0], y)
    >>> round(float(learner.x[0]), 4)
    1.3333
    """

    def __init__(
        self, dimension: int, regularizer: Any = SquaredNorm(), domain: Any = WholeSpace(),
        schedule: Any = SquareRoot(), tolerance: float = 1e-10,
    ) -> None:  # fmt: skip
        super().__init__(dimension, regularizer, domain, Proximal(lookahead=True, tolerance=0.1 * tolerance), schedule)
        self.tolerance = tolerance

    def _play(self, state: PlayerState, online_round: OnlineRound) -> Move:
        next_lam, psi = self._next(state)
        decision = online_round.decide(self.update, psi, self.domain, state.theta, state.x)
        x, theta, past = self._solve(psi, (*state.past, Past(online_round, decision.z, decision.conjugate)))
        decision = decision._replace(z=past[-1].z, conjugate=past[-1].conjugate)
        return Move(decision, x, theta, psi, next_lam, past=past, conjugates=tuple(p.conjugate for p in past))

    def _solve(self, psi: Potential, past: tuple[Past, ...]) -> tuple[Vector, Vector, tuple[Past, ...]]:
        parts = list(past)
        for _ in range(MAX_CYCLES):
            theta = -np.sum([p.z for p in parts], axis=0)
            x = mirror.argmin(psi, self.domain, theta)
            losses = [p.online_round.value(x) for p in parts]
            gap = math.fsum(v + p.conjugate - float(p.z @ x) for v, p in zip(losses, parts, strict=True))
            if gap <= self.tolerance * max(1.0, math.fsum(losses)):
                return x, theta, tuple(parts)
            for i, (online_round, z, _) in enumerate(parts):
                theta = theta + z
                decision = online_round.decide(self.update, psi, self.domain, theta, x)
                theta = theta - decision.z
                parts[i] = Past(online_round, decision.z, decision.conjugate)
        raise NotConverged(
            f"FullFTRL reached a duality gap of {gap:.3g} after {MAX_CYCLES} cycles over {len(parts)} losses; "
            "raise tolerance, or use Learner"
        )


class _Descent(Player):
    """x_{t+1} = argmin over V of B_{psi_t}(x; x_t) + the update's model of l_t.

    B_{psi_t}(x; x_t) is psi_t(x) - <grad psi_t(x_t), x> up to a constant, so a round is one of FTRL with H' and with
    theta = grad psi_t(x_t).
    """

    lookahead = False

    def __init__(self, dimension: int, regularizer: Any, domain: Any, update: Any, schedule: Any) -> None:
        super().__init__(dimension, regularizer, domain, update, schedule)
        if l1_strength(self.regularizer) > 0.0:
            raise Incompatible(
                f"{self.regularizer!r} is not differentiable, and mirror descent needs grad psi; "
                "use a regularizer without an L1 term, or Learner"
            )

    def _play(self, state: PlayerState, online_round: OnlineRound) -> Move:
        theta = state.psi.gradient(state.x)
        decision = online_round.decide(self.update, state.psi, self.domain, theta, state.x)
        x = mirror.argmin(state.psi, self.domain, theta - decision.z)
        total = state.total
        if not lam_known_ahead(self.schedule):
            total += self._schedule_evidence(state, self._gamma(state, online_round, x), decision.z)
        next_lam = lam(self.schedule, state.t + 1, total)
        seen = self._evidence(online_round, decision.z, x)
        psi = advance(self.regularizer, state.psi, next_lam, seen)
        return Move(decision, x, state.theta - decision.z, psi, next_lam)


class MirrorDescent(_Descent):
    """Online mirror descent: x_{t+1} = argmin over V of B_{psi_t}(x; x_t) + <g_t, x>, with psi_t = lambda_t psi.

    The step size eta_t is 1/lambda_t. With the entropy on the simplex it is exponentiated gradient; with the squared
    norm, online (projected) subgradient descent.

    Args: as for :class:`giftrl.Learner`, without an update.

    >>> from giftrl import losses
    >>> descent = MirrorDescent(1, schedule="constant")
    >>> _ = descent.observe(losses.Squared(), [1.0], 1.0)
    >>> descent.x
    array([1.])
    """

    def __init__(
        self, dimension: int, regularizer: Any = SquaredNorm(), domain: Any = WholeSpace(), schedule: Any = SquareRoot()
    ) -> None:
        super().__init__(dimension, regularizer, domain, Linear(lookahead=False), schedule)


class ImplicitMirrorDescent(_Descent):
    """Implicit online mirror descent: x_{t+1} = argmin over V of B_{psi_t}(x; x_t) + l_t(x), with psi_t = lambda_t psi.

    The step size eta_t is 1/lambda_t: constant, square-root, or AdaImplicit with ``schedules.AdaImplicit``.

    Args: as for :class:`giftrl.Learner`, without an update.
        tolerance: of the inner solver for black-box losses.

    >>> from giftrl import losses
    >>> descent = ImplicitMirrorDescent(1, schedule="constant")
    >>> _ = descent.observe(losses.Squared(), [1.0], 1.0)
    >>> descent.x
    array([0.5])
    """

    def __init__(
        self, dimension: int, regularizer: Any = SquaredNorm(), domain: Any = WholeSpace(),
        schedule: Any = SquareRoot(), tolerance: float = 1e-8,
    ) -> None:  # fmt: skip
        super().__init__(dimension, regularizer, domain, Proximal(lookahead=False, tolerance=tolerance), schedule)
