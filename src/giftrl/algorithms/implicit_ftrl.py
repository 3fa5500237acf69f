"""Implicit FTRL: the last known algorithm of the paper's Table 1; and what it shares with FTRL of full losses."""

from typing import Any

from giftrl import mirror
from giftrl.domains import WholeSpace
from giftrl.errors import Incompatible
from giftrl.player import Move, Player, State
from giftrl.regularizers import Potential, SquaredNorm
from giftrl.regularizers.contract import advance
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.rounds import OnlineRound
from giftrl.schedules import TemporalVariability
from giftrl.schedules.contract import known_ahead as lam_known_ahead
from giftrl.schedules.contract import lam
from giftrl.updates import Proximal


class KnownAhead(Player):
    """A player that minimises psi_{t+1}, and refuses regularizers and schedules that do not know it in time."""

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

    def _next(self, state: State) -> tuple[float, Potential]:
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

    def _play(self, state: State, online_round: OnlineRound) -> Move:
        next_lam, psi = self._next(state)
        decision = online_round.decide(self.update, psi, self.domain, state.theta, state.x)
        theta = state.theta - decision.z
        return Move(decision, mirror.argmin(psi, self.domain, theta), theta, psi, next_lam)
