"""The importance-weight-aware update."""

from typing import Any, NamedTuple

from giftrl.ops.line import at, follow, objective
from giftrl.ops.loss import slope
from giftrl.ops.vector_loss import flow
from giftrl.updates.contract import ScoreProblem, keep_better


class ImportanceAware(NamedTuple):
    """The limit of infinitely many infinitely small steps on the same example.

    b = mean of phi' along dpi/dtau, tau in [0, 1]: one update of weight h is exactly h updates of weight 1 at a fixed
    psi, and it never overshoots the minimum of the loss.

    For H' b lies between the proximal b and g, so H'(z) <= H'(g). For H the flow starts at grad psi*_{t+1}(theta_t),
    where the slope is not g: there g is used in rounds in which it has the smaller H.

    Args:
        lookahead: H (True), H' (False), or H if possible (None).

    >>> from giftrl.losses import Squared
    >>> from giftrl.ops.line import Affine
    >>> round(ImportanceAware().pick(Squared(), 0.0, 1.0, Affine(1.0, 1.0)), 9)
    0.632120559
    """

    lookahead: bool | None = None

    def pick(self, loss: Any, y: float, p: float, line: Any) -> float:
        b = follow(line, loss, y)
        if at(line, 0.0) != p:
            g = slope(loss, p, y)
            if not objective(line, loss, y, b) <= objective(line, loss, y, g):
                return g
        return b

    def pick_scores(self, loss: Any, problem: ScoreProblem, out: Any, work: Any) -> None:
        flow(loss, problem.start, problem.y, problem.c, out)
        p, start, away = problem.p, problem.start, False
        for k in range(len(out)):
            away |= p[k] != start[k]
        if away:
            keep_better(loss, problem, out, problem.g)
