"""The terms of Theorem 3.1."""

from typing import NamedTuple


class TheoremTerms(NamedTuple):
    """The terms of Theorem 3.1 at a comparator u; their sum is the regret bound at u.

    regularizer: psi_{T+1}(u) - psi_1(x_1), the price of the comparator.
    linearized: sum_t psi*_{t+1}(theta_t - g_t) - psi*_t(theta_t) + <g_t, x_t>, what linearized FTRL would pay.
    gain: -sum_t delta_t, what the choice of z saves; positive means that it cost.
    growth: sum_t psi*_{t+1}(theta_{t+1}) - psi*_t(theta_{t+1}), for H' only; not positive when psi grows.
    slack: F_{T+1}(x_{T+1}) - F_{T+1}(u) with F = psi_{T+1} - <theta_{T+1}, .>; not positive for u in V.

    >>> from giftrl import Learner
    >>> learner = Learner(1)
    >>> _ = learner.observe("squared", [1.0], 1.0)
    >>> terms = learner.certificate.theorem_terms([0.5])
    >>> round(sum(terms), 6) == round(learner.certificate.regret_bound([0.5]), 6), terms.growth
    (True, 0.0)
    """

    regularizer: float
    linearized: float
    gain: float
    growth: float
    slack: float
