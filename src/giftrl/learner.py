"""Algorithm 1 of the paper: generalized implicit Follow-The-Regularized-Leader."""

from typing import Any

from giftrl import mirror
from giftrl.domains import WholeSpace
from giftrl.player import Move, Player, State, looks_ahead
from giftrl.regularizers import SquaredNorm
from giftrl.regularizers.contract import advance, centred
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.rounds import OnlineRound
from giftrl.schedules import TemporalVariability
from giftrl.schedules.contract import known_ahead as lam_known_ahead
from giftrl.schedules.contract import lam, uses_gamma
from giftrl.updates import Proximal


class Learner(Player):
    """Generalized implicit FTRL: play x_t = argmin over V of psi_t(x) - <theta_t, x>, then theta_{t+1} = theta_t - z_t.

    z_t is any vector with H_t(z_t) <= H_t(g_t), where H_t(z) = psi*_{t+1}(theta_t - z) + l*_t(z), or the same with
    psi_t in place of psi_{t+1} (H'). The update chooses it; every run proves its own regret bound.

    Args:
        dimension: of the space, at least 1.
        regularizer: a member of :mod:`giftrl.regularizers` or its name.
        domain: a member of :mod:`giftrl.domains` or its name.
        update: a member of :mod:`giftrl.updates` or its name; its ``lookahead`` asks for H (True), H' (False), or H
            wherever psi_{t+1} is known before z_t is chosen (None).
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

    def _play(self, state: State, online_round: OnlineRound) -> Move:
        psi, theta, x = state.psi, state.theta, state.x
        lam_ahead = lam_known_ahead(self.schedule)
        psi_ahead = lam_ahead and psi_known_ahead(self.regularizer)
        next_lam = lam(self.schedule, state.t + 1, state.total) if lam_ahead else state.lam
        next_psi = advance(self.regularizer, psi, next_lam, None) if psi_ahead else psi

        used = next_psi if self.lookahead else psi
        decision = online_round.decide(self.update, used, self.domain, theta, x)
        next_theta = theta - decision.z

        if not psi_ahead:
            # The next psi is learnt from the point to which z leads under the current one.
            led_to = mirror.argmin(psi, self.domain, next_theta)
            if not lam_ahead:
                gamma = self._gamma(state, online_round, led_to) if uses_gamma(self.schedule) else 0.0
                total = state.total + self._schedule_evidence(state, gamma, decision.z)
                next_lam = lam(self.schedule, state.t + 1, total)
            seen = self._evidence(online_round, decision.z, led_to)
            next_psi = advance(self.regularizer, psi, next_lam, seen)
        # What a centred psi gains is least at the point itself, which therefore stays the minimiser.
        stays = not psi_ahead and centred(self.regularizer)
        next_x = led_to if stays else mirror.argmin(next_psi, self.domain, next_theta)

        at_g = mirror.conjugate(used, self.domain, theta - decision.g)
        linearized = at_g - mirror.conjugate(psi, self.domain, theta) + float(decision.g @ x)
        growth = 0.0
        if not self.lookahead:
            growth = mirror.conjugate(next_psi, self.domain, next_theta)
            growth -= mirror.conjugate(psi, self.domain, next_theta)
        return Move(decision, next_x, next_theta, next_psi, next_lam, growth, linearized)
