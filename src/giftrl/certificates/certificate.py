"""Certificates: bounds on the regret of a run, and on the loss of every linear model.

The inequality of Fenchel and Young, l_t(u) >= <z_t, u> - l*_t(z_t), holds for any z_t whatever. Summed over the rounds,

    R_T(u) = sum_t l_t(x_t) - l_t(u) <= B_T + <theta_{T+1}, u>,     B_T = sum_t l_t(x_t) + l*_t(z_t),

for every u, with theta_{T+1} = -sum_t z_t. A lower bound on the loss of any u in a ball follows.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from giftrl import mirror
from giftrl.certificates.bound import BestLoss
from giftrl.certificates.evidence import Evidence
from giftrl.errors import AssumptionFailed, Incompatible, require
from giftrl.losses.vector import Vector
from giftrl.regularizers import SquaredNorm
from giftrl.schedules import TemporalVariability
from giftrl.trace import Trace
from giftrl.updates import Proximal

#: The dual of each norm for balls of comparators.
DUAL_NORMS = {1: np.inf, 2: 2, np.inf: 1}


class TheoremTerms(NamedTuple):
    """The terms of Theorem 3.1 at a comparator u; their sum is the regret bound at u.

    regularizer: psi_{T+1}(u) - psi_1(x_1), the price of the comparator.
    linearized: sum_t psi*_{t+1}(theta_t - g_t) - psi*_t(theta_t) + <g_t, x_t>, the cost of linearized FTRL.
    gain: -sum_t delta_t; negative if the choice of z saved loss.
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


@dataclass(frozen=True)
class Certificate:
    """Bounds on the regret of a run, from its sums and, if there is one, its trace.

    Attributes:
        loss_sum: sum_t l_t(x_t), the progressive loss.
        conjugate_sum: sum_t l*_t(z_t).
        delta_sum: sum_t H(g_t) - H(z_t).
        theta: theta_{T+1} = -sum_t z_t.
        trace: the rounds one by one, for the bounds that need them.
        theta_error: a bound on the Euclidean norm of the rounding of theta, for which the bounds allow.
        evidence: stored examples and sums over the others, for :meth:`best_loss`.
        merged: True if several sequences of rounds were merged.

    >>> import numpy as np
    >>> certificate = Certificate(loss_sum=3.0, conjugate_sum=-1.0, delta_sum=0.0, theta=np.array([3.0, 4.0]))
    >>> certificate.bound_sum
    2.0
    >>> certificate.regret_bound([1.0, 0.0])
    5.0
    >>> certificate.best_loss_lower_bound(0.1)
    0.5
    """

    loss_sum: float
    conjugate_sum: float
    delta_sum: float
    theta: Vector
    trace: Trace | None = None
    theta_error: float = 0.0
    evidence: Evidence | None = None
    merged: bool = False

    @classmethod
    def from_trace(cls, trace: Trace) -> "Certificate":
        """The certificate of a recorded run; sums are rounded once."""
        names = ("loss", "conjugate", "delta")
        loss, conjugate, delta = (math.fsum(getattr(r, name) for r in trace.rounds) for name in names)
        return cls(loss, conjugate, delta, trace.theta, trace)

    @property
    def bound_sum(self) -> float:
        """B_T = sum_t l_t(x_t) + l*_t(z_t): the regret bound at u = 0."""
        return self.loss_sum + self.conjugate_sum

    def regret_bound(self, u: ArrayLike) -> float:
        """B_T + <theta_{T+1}, u>: an upper bound on the regret against u."""
        v = self._comparator(u)
        return self.bound_sum + float(self.theta @ v) + self.theta_error * float(np.linalg.norm(v))

    def regret_bound_ball(self, radius: float, norm: float = 2) -> float:
        """A bound on the regret against every u with norm(u) <= radius, in the norm 2, 1 or infinity."""
        return self.bound_sum + radius * self._theta_norm(radius, norm)

    def best_loss_lower_bound(self, radius: float, norm: float = 2) -> float:
        """A lower bound on sum_t l_t(u) for every u with norm(u) <= radius.

        loss_sum minus this number is :meth:`regret_bound_ball`: the certified gap to the best model of that norm.
        """
        return -self.conjugate_sum - radius * self._theta_norm(radius, norm)

    def best_loss(self, scale: float = 1.0, time_limit: float = 10.0) -> BestLoss:
        """A lower bound on the loss of every linear model up to ``scale`` times this one's size.

        Args:
            scale: not negative.
            time_limit: in seconds. The bound is valid whenever its solver stops, and higher the longer it runs.

        >>> from giftrl.kernels import LinearLearner
        >>> learner = LinearLearner(1, "absolute", compiled=False)
        >>> learner.keep_witnesses(1000)
        >>> _ = learner.learn([[1.0]] * 3, [1.0, 2.0, 4.0])
        >>> best = learner.certificate.best_loss(scale=10.0)
        >>> round(best.lower_bound, 6), best.rows, best.rows_kept
        (3.0, 3, 3)
        """
        return self._evidence("best_loss").best_loss(None, scale, time_limit)

    def in_words(self, time_limit: float = 10.0) -> str:
        """The loss of the run and the lower bound for linear models of its size, in a few sentences."""
        best = self.best_loss(1.0, 0.7 * time_limit)
        return best.in_words(self.best_loss(10.0, 0.3 * time_limit))

    def best_ridge_loss(self, mu: float, time_limit: float = 10.0) -> BestLoss:
        """A lower bound on loss plus (mu/2) times the squared size, for a linear model of any size; mu > 0."""
        evidence = self._evidence("best_ridge_loss")
        return evidence.ridge(mu, time_limit, evidence.model[evidence.features])

    def merge(self, other: "Certificate", model: ArrayLike | None = None) -> "Certificate":
        """The certificate of two runs over different examples with the same features.

        Args:
            other: of the other run.
            model: the weights whose size counts in :meth:`best_loss`; None for the mean by the weight of examples.
        """
        rule, remedy = "must have as many coordinates as this one", "merge runs over the same features"
        require(other.theta.shape == self.theta.shape, "other", other.theta.shape, rule, remedy)
        names = ("loss_sum", "conjugate_sum", "delta_sum", "theta", "theta_error")
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        evidence = self.evidence.merge(other.evidence, model) if self.evidence and other.evidence else None
        return Certificate(**sums, evidence=evidence, merged=True)

    def regret_bound_domain(self) -> float:
        """A bound on the regret against every u in V; infinite if V is unbounded in the direction of theta."""
        return self.bound_sum + self._rounds("regret_bound_domain").domain.support(self.theta)

    @property
    def deltas(self) -> Vector:
        """delta_t for each round."""
        return np.array([r.delta for r in self._rounds("deltas").rounds])

    @property
    def harmful_rounds(self) -> int:
        """The number of rounds in which z was worse than g under H: possible for the literal two-step update only."""
        # A difference of two nearly equal numbers: rounding is not harm.
        rounds = self._rounds("harmful_rounds").rounds
        return sum(r.delta < -1e-9 * max(1.0, abs(r.loss), abs(r.conjugate)) for r in rounds)

    def theorem_terms(self, u: ArrayLike) -> TheoremTerms:
        """The terms of Theorem 3.1, whose sum is :meth:`regret_bound`."""
        trace = self._algorithm_1("Theorem 3.1")
        v = self._comparator(u)
        psi_u = trace.psi.value(v)
        return TheoremTerms(
            regularizer=psi_u - trace.psi_start,
            linearized=math.fsum(r.linearized for r in trace.rounds),
            gain=-self.delta_sum,
            growth=math.fsum(r.growth for r in trace.rounds),
            slack=float(self.theta @ v) - psi_u - mirror.conjugate(trace.psi, trace.domain, self.theta),
        )

    def lemma_4_1(self, u: ArrayLike) -> float:
        """Lemma 4.1: R_T(u) <= psi_{T+1}(u) - psi_1(x_1) + sum_t gamma_t.

        Holds for the proximal update with H and psi_{t+1} >= psi_t (at x_{t+1} is enough). Where z_t is a subgradient
        at x_{t+1} only to the tolerance of an inner solver, the difference (``gap`` in the trace) is added.
        """
        trace = self._algorithm_1("Lemma 4.1")
        objective = "H" if trace.lookahead else "the H of the current psi"
        text = f"Lemma 4.1 is about the proximal update with H, and this run used {trace.update!r} with {objective}"
        _assume(isinstance(trace.update, Proximal) and trace.lookahead, text)
        falls = [t for t, r in enumerate(trace.rounds, 1) if r.rise < -1e-12 * max(1.0, r.lam)]
        text = "Lemma 4.1 assumes psi_{t+1} >= psi_t, and psi fell at the new point in round "
        _assume(not falls, f"{text}{next(iter(falls), 0)} (one of {len(falls)})")
        psi_u = trace.psi.value(self._comparator(u))
        return psi_u - trace.psi_start + math.fsum(r.gamma + r.gap for r in trace.rounds)

    def observed_variability(self) -> float:
        """sum over t >= 2 of l_t(x_t) - l_{t-1}(x_t); at most V_T = sum_t max over x of abs(l_t(x) - l_{t-1}(x))."""
        rounds = self._rounds("observed_variability").rounds
        return math.fsum(now.loss - before.loss_after for before, now in pairwise(rounds))

    def corollary_4_3(self, u: ArrayLike, variability: float | None = None) -> float:
        """Corollary 4.3 as corrected: R_T(u) <= (lambda_1 + S/beta^2) norm2(u)^2 / 2 + S, for the temporal schedule.

        S bounds the sum of the clipped gammas: it is the smaller of
        l_1(x_1) - l_T(x_{T+1}) + V_T + sum_t max(0, -gamma_t), by telescoping, and, if G >= norm(g_t) in each round,
        beta sqrt(sum_t norm(g_t)^2). The published version drops G from the first, forgets that gamma can be negative,
        and does not account for the lag of the schedule in the second.

        Args:
            u: the comparator.
            variability: V_T, or None for the observed variability, which is never larger.
        """
        trace = self._algorithm_1("Corollary 4.3")
        self.lemma_4_1(u)
        schedule = trace.schedule
        if not (isinstance(schedule, TemporalVariability) and isinstance(trace.regularizer, SquaredNorm)):
            raise AssumptionFailed(
                "Corollary 4.3 is about the squared norm with the temporal schedule, and this run used "
                f"{trace.regularizer!r} with {schedule!r}; lemma_4_1(u) and regret_bound(u) say more"
            )
        beta = schedule.beta
        moved = self.observed_variability() if variability is None else variability
        ends = trace.rounds[0].loss - trace.rounds[-1].loss_after if trace.rounds else 0.0
        clipped = math.fsum(max(0.0, -r.gamma) for r in trace.rounds)
        total = max(0.0, ends + moved + clipped)
        if all(r.g_norm <= schedule.gradient_bound * (1.0 + 1e-12) for r in trace.rounds):
            total = min(total, beta * math.sqrt(math.fsum(r.g_norm**2 for r in trace.rounds)))
        v = self._comparator(u)
        gap = math.fsum(r.gap for r in trace.rounds)
        return 0.5 * (schedule.lam(1, 0.0) + total / beta**2) * float(v @ v) + total + gap

    def _comparator(self, u: ArrayLike) -> Vector:
        v = np.asarray(u, dtype=float)
        rule = f"must have the {len(self.theta)} coordinates of the learner"
        require(v.shape == self.theta.shape, "u", u, rule, f"it has shape {v.shape}")
        require(bool(np.isfinite(v).all()), "u", u, "must be finite", "remove NaN and infinities")
        return v

    def _theta_norm(self, radius: float, norm: float) -> float:
        require(0.0 <= radius < math.inf, "radius", radius, "must be finite and not negative", "try radius=1.0")
        require(norm in DUAL_NORMS, "norm", norm, "must be 1, 2 or infinity", "norm=2 is the Euclidean ball")
        # An error of Euclidean norm e is at most e in the maximum norm and e sqrt(d) in the sum of absolute values.
        error = self.theta_error * (math.sqrt(len(self.theta)) if norm == np.inf else 1.0)
        return float(np.linalg.norm(self.theta, DUAL_NORMS[norm])) + error

    def _evidence(self, what: str) -> Evidence:
        if self.evidence is None:
            raise AssumptionFailed(
                f"{what} needs stored examples, and this run has none; give witness_nonzeros, for instance 1000000"
            )
        return self.evidence

    def _rounds(self, what: str) -> Trace:
        if self.trace is None:
            raise AssumptionFailed(f"{what} needs a trace of the rounds, and this run has none; use a Learner")
        return self.trace

    def _algorithm_1(self, what: str) -> Trace:
        if self.merged:
            raise Incompatible(
                f"{what} is about one sequence of rounds, each beginning at the end of the one before it, and this run "
                "was merged from several; regret_bound(u) holds for every run"
            )
        trace = self._rounds(what)
        text = f"{what} is about generalized implicit FTRL, and this run was made by {trace.algorithm}"
        _assume(trace.algorithm == "Learner", text)
        return trace


def _assume(good: bool, text: str) -> None:
    if not good:
        raise AssumptionFailed(f"{text}; regret_bound(u) holds for every run")
