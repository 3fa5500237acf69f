"""The linear update."""

from typing import Any, NamedTuple

from giftrl.ops.loss import slope
from giftrl.updates.contract import Choice, ScoreProblem, VectorProblem


class Linear(NamedTuple):
    """z_t = g_t: linearized Follow-The-Regularized-Leader.

    b = phi'(p).

    Args:
        lookahead: the objective in which delta_t is measured: H (True), H' (False), or H if possible (None). It does
        not affect z.

    >>> from giftrl.losses import Squared
    >>> from giftrl.ops.line import Affine
    >>> Linear().pick(Squared(), 0.0, 1.0, Affine(1.0, 3.0))
    1.0
    """

    lookahead: bool | None = None

    def pick(self, loss: Any, y: float, p: float, line: Any) -> float:
        return slope(loss, p, y)

    def pick_scores(self, loss: Any, problem: ScoreProblem, out: Any, work: Any) -> None:
        g = problem.g
        for k in range(len(out)):
            out[k] = g[k]

    def pick_vector(self, problem: VectorProblem) -> Choice:
        return problem.subgradient_choice(problem.x, problem.value, problem.g)
