"""The proximal update."""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.domains import WholeSpace
from giftrl.errors import require
from giftrl.ops import brings, validated
from giftrl.ops.line import solve
from giftrl.ops.vector_loss import prox
from giftrl.regularizers.potentials import Diagonal
from giftrl.updates.bundle import minimise
from giftrl.updates.contract import Choice, ScoreProblem, VectorProblem


@validated
class Proximal(NamedTuple):
    """The exact minimiser of H (or H'): the implicit update.

    b in d phi(pi(b)), a subgradient at the point that it leads to. With H it is implicit FTRL.

    A black-box loss is solved by its own ``prox`` where psi is a multiple of the squared norm on the whole space, and
    by a bundle method otherwise, which stops when H(z) is certified to be within ``tolerance * max(1, abs(l(x)))`` of
    the minimum.

    Args:
        lookahead: H (True), H' (False), or H where it can be used (None).
        tolerance: of the inner solver for black-box losses; linear models are solved to rounding.

    >>> from giftrl.losses import Squared
    >>> from giftrl.ops.line import Affine
    >>> Proximal().pick(Squared(), 0.0, 1.0, Affine(1.0, 3.0))
    0.25
    """

    lookahead: bool | None = None
    tolerance: float = 1e-8

    def validate(self) -> None:
        require(0.0 < self.tolerance < math.inf, "tolerance", self.tolerance, "must be positive", "try tolerance=1e-8")

    def pick(self, loss: Any, y: float, p: float, line: Any) -> float:
        return solve(line, loss, y)

    def minimises(self) -> bool:
        return True

    def pick_scores(self, loss: Any, problem: ScoreProblem, out: Any, work: Any) -> None:
        prox(loss, problem.start, problem.y, problem.c, out)

    def pick_vector(self, problem: VectorProblem) -> Choice:
        psi = problem.psi
        plain = isinstance(psi, Diagonal) and psi.l1 == 0.0 and np.ptp(psi.strength) == 0.0
        if not (plain and isinstance(problem.domain, WholeSpace) and brings(problem.loss, "prox")):
            return problem.sharpen(minimise(problem, self.tolerance))
        assert isinstance(psi, Diagonal)
        lam = float(psi.strength[0])
        x = np.asarray(problem.loss.prox((problem.theta + psi.tilt) / lam, problem.weight / lam))  # type: ignore[attr-defined]
        z = problem.theta - psi.gradient(x)  # the optimality condition: a subgradient of l at x
        return problem.sharpen(Choice(z, float(z @ x) - problem.weight * float(problem.loss.value(x))))
