"""The two-step update."""

from typing import Any, NamedTuple

import numpy as np

from giftrl.ops import vector_loss
from giftrl.ops.line import at, objective
from giftrl.ops.loss import slope
from giftrl.updates.contract import Choice, ScoreProblem, VectorProblem, keep_better
from giftrl.updates.truncated import Truncated, truncated_scores, truncated_slope


class TwoStep(NamedTuple):
    """The gradient at the point after a gradient step: Mirror-Prox, extragradient.

    b = phi'(pi(phi'(p))).

    H(z) <= H(g) is guaranteed if c L <= 1, L the smoothness of the loss; otherwise the plain rule can get stuck at z =
    0 or flip its sign. ``safeguard=True`` takes the better of this and the truncated update under H, which always keeps
    the guarantee. (A fallback only if H(z) > H(g) is not enough: z = 0 passes that test.)

    Args:
        lookahead: H (True), H' (False), or H if possible (None).
        safeguard: True to compare with the truncated update; needs a loss with an infimum.

    >>> from giftrl.losses import Squared
    >>> from giftrl.ops.line import Affine
    >>> TwoStep().pick(Squared(), 0.0, 1.0, Affine(1.0, 0.5))
    0.5
    """

    lookahead: bool | None = None
    safeguard: bool = False

    def needs(self) -> tuple[str, str]:
        return ("infimum", "lower_bound") if self.safeguard else ("", "")

    def pick(self, loss: Any, y: float, p: float, line: Any) -> float:
        b = slope(loss, at(line, slope(loss, p, y)), y)
        if self.safeguard:
            other = truncated_slope(loss, y, p, line)
            # "not smaller" instead of "larger", so that an infinite or NaN H(b) is rejected.
            if not objective(line, loss, y, b) < objective(line, loss, y, other):
                return other
        return b

    def pick_scores(self, loss: Any, problem: ScoreProblem, out: Any, work: Any) -> None:
        start, g = problem.start, problem.g
        for k in range(len(out)):
            out[k] = start[k] - problem.c * g[k]
        vector_loss.slope(loss, out, problem.y, out)
        if self.safeguard:
            truncated_scores(loss, problem, work)
            keep_better(loss, problem, out, work)

    def pick_vector(self, problem: VectorProblem) -> Choice:
        x = problem.after(problem.weight * problem.g)
        choice = problem.sharpen(
            problem.subgradient_choice(
                x, float(problem.loss.value(x)), np.asarray(problem.loss.subgradient(x), dtype=float)
            )
        )
        if self.safeguard:
            other = Truncated().pick_vector(problem)
            if not problem.objective(choice) < problem.objective(other):
                return other
        return choice
