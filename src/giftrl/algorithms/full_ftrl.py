"""FTRL with full losses: the growing problem of the paper's Table 1, solved."""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl import mirror
from giftrl.algorithms.implicit_ftrl import KnownAhead
from giftrl.domains import WholeSpace
from giftrl.errors import NotConverged
from giftrl.losses.vector import Vector
from giftrl.player import Move, State
from giftrl.regularizers import Potential, SquaredNorm
from giftrl.rounds import OnlineRound
from giftrl.schedules import SquareRoot
from giftrl.updates import Proximal

MAX_CYCLES = 10_000


class Past(NamedTuple):
    """A loss seen before, with its part z of the dual solution and l*(z)."""

    online_round: OnlineRound
    z: Vector
    conjugate: float


class FullFTRL(KnownAhead):
    """FTRL with the losses themselves: x_{t+1} = argmin over V of psi_{t+1}(x) + sum over i <= t of l_i(x).

    Honest but slow: round t costs at least t proximal updates. The dual problem, over one z_i for each loss, is
    solved by cycling through the losses and giving each its exact proximal update with the others held fixed,
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

    def _play(self, state: State, online_round: OnlineRound) -> Move:
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
