"""Implicit FTRL: the last known algorithm of the paper's Table 1."""

from typing import Any

from giftrl import mirror
from giftrl.algorithms.known_ahead import KnownAhead
from giftrl.domains import WholeSpace
from giftrl.player import Move, State
from giftrl.regularizers import SquaredNorm
from giftrl.rounds import OnlineRound
from giftrl.schedules import TemporalVariability
from giftrl.updates import Proximal

__all__ = ["ImplicitFTRL"]


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

    def _play(self, state: State, online_round: OnlineRound) -> Move:
        next_lam, psi = self._next(state)
        decision = online_round.decide(self.update, psi, self.domain, state.theta, state.x)
        theta = state.theta - decision.z
        return Move(decision, mirror.argmin(psi, self.domain, theta), theta, psi, next_lam)
