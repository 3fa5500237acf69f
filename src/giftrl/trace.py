"""The immutable record of a run, from which certificates are computed."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from giftrl.domains import Domain
from giftrl.losses.vector import Vector
from giftrl.regularizers import Potential


class Step(NamedTuple):
    """The report of one round.

    The loss is weight phi; g and z are vectors and include the weight. delta = H(g) - H(z) (or H') can be negative only
    for the literal two-step update.

    >>> from giftrl import Learner
    >>> step = Learner(2).observe("squared", [1.0, 2.0], 1.0)
    >>> step.t, step.prediction, step.loss
    (1, 0.0, 0.5)
    """

    t: int
    prediction: float | None
    loss: float
    g: Vector
    z: Vector
    lam: float
    gamma: float
    delta: float


class RoundRecord(NamedTuple):
    """The numbers of one round that certificates need."""

    loss: float  # l_t(x_t)
    loss_after: float  # l_t(x_{t+1})
    conjugate: float  # l*_t(z_t), or an upper bound on it
    lam: float  # lambda_t
    gamma: float  # l_t(x_t) - l_t(x_{t+1}) - B_{psi_t}(x_{t+1}; x_t)
    delta: float  # H(g_t) - H(z_t), or the same with H'
    linearized: float  # psi*_{t+1}(theta_t - g_t) - psi*_t(theta_t) + <g_t, x_t>; for H' psi_t in place of psi_{t+1}
    growth: float  # psi*_{t+1}(theta_{t+1}) - psi*_t(theta_{t+1}) for H', 0 for H
    gap: float  # l_t(x_{t+1}) + l*_t(z_t) - <z_t, x_{t+1}>: 0 if z_t is a subgradient at x_{t+1}
    rise: float  # psi_{t+1}(x_{t+1}) - psi_t(x_{t+1})
    g_norm: float  # the dual norm of g_t


@dataclass(frozen=True)
class Trace:
    """A run: its rounds, its final state, and the components of the learner.

    >>> from giftrl import Learner
    >>> learner = Learner(2)
    >>> _ = learner.observe("squared", [1.0, 2.0], 1.0)
    >>> trace = learner.trace
    >>> len(trace.rounds), trace.rounds[0].loss, trace.lookahead
    (1, 0.5, True)
    """

    algorithm: str
    rounds: tuple[RoundRecord, ...]
    theta: Vector
    psi_start: float  # psi_1(x_1)
    psi: Potential  # psi_{T+1}
    domain: Domain
    regularizer: Any
    update: Any
    schedule: Any
    lookahead: bool
