"""Online mirror descent, explicit and implicit: the first two rows of the paper's Table 1."""

from typing import Any

from giftrl import mirror
from giftrl.domains import WholeSpace
from giftrl.errors import Incompatible
from giftrl.player import Move, Player, State
from giftrl.regularizers import SquaredNorm
from giftrl.regularizers.contract import advance, l1_strength
from giftrl.rounds import OnlineRound
from giftrl.schedules import SquareRoot
from giftrl.schedules.contract import known_ahead, lam
from giftrl.updates import Linear, Proximal


class _Descent(Player):
    """x_{t+1} = argmin over V of B_{psi_t}(x; x_t) + what the update makes of l_t.

    B_{psi_t}(x; x_t) is psi_t(x) - <grad psi_t(x_t), x> up to a constant: FTRL whose theta is grad psi_t(x_t), anew in
    every round, with H'.
    """

    lookahead = False

    def __init__(self, dimension: int, regularizer: Any, domain: Any, update: Any, schedule: Any) -> None:
        super().__init__(dimension, regularizer, domain, update, schedule)
        if l1_strength(self.regularizer) > 0.0:
            raise Incompatible(
                f"{self.regularizer!r} is not differentiable, and mirror descent needs grad psi; "
                "use a regularizer without an L1 term, or Learner"
            )

    def _play(self, state: State, online_round: OnlineRound) -> Move:
        theta = state.psi.gradient(state.x)
        decision = online_round.decide(self.update, state.psi, self.domain, theta, state.x)
        x = mirror.argmin(state.psi, self.domain, theta - decision.z)
        total = state.total
        if not known_ahead(self.schedule):
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
