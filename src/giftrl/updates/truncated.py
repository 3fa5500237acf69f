"""The truncated update."""

import math
from typing import Any, NamedTuple

from giftrl.mirror import make_line
from giftrl.ops import formula, vector_loss
from giftrl.ops.line import at, solve
from giftrl.ops.loss import infimum, slope, smoothness, value
from giftrl.ops.scalar import share
from giftrl.updates.contract import Choice, ScoreProblem, VectorProblem


class Truncation(NamedTuple):
    """The truncated model of a loss at a point: the maximum of its tangent and the loss's infimum.

    m(p) = max(height + g (p - anchor), floor). It is a lower bound, exact at the anchor, so its minimiser of H is no
    worse than g for the loss itself.

    >>> Truncation(anchor=0.0, height=1.0, g=-1.0, floor=0.0).prox(0.0, 0.0, 4.0)
    -0.25
    """

    anchor: float
    height: float
    g: float
    floor: float

    def value(self, p: float, y: float) -> float:
        return max(self.height + self.g * (p - self.anchor), self.floor)

    def slope(self, p: float, y: float) -> float:
        return self.g if self.height + self.g * (p - self.anchor) > self.floor else 0.0

    def prox(self, p: float, y: float, c: float) -> float:
        # The distance from p to the cut, and the distance abs(g) c that the full slope would go. Without branches, so
        # that a compiler can do this for several models at a time.
        size = abs(self.g)
        per = 1.0 if size == 0.0 else size
        gap = max(0.0, (self.height - self.floor) / per + math.copysign(1.0, self.g) * (p - self.anchor))
        step = self.g * share(gap, size * c)
        return step if self.height < math.inf else self.g  # if the loss overflows, the floor is out of reach


@formula
def truncated_slope(loss: Any, y: float, p: float, line: Any) -> float:
    """The b of the truncated update."""
    g = slope(loss, p, y)
    # phi(p) >= inf phi + g^2/(2 L) if phi' is L-Lipschitz. If the tangent from this bound is above inf phi at pi(g),
    # then b = g, without computing phi.
    if g * (g + 2.0 * smoothness(loss) * (at(line, g) - p)) > 0.0:
        return g
    return solve(line, Truncation(p, value(loss, p, y), g, infimum(loss, y)), y)


@formula
def truncated_scores(loss: Any, problem: ScoreProblem, out: Any) -> None:
    """The K numbers of the truncated update: a = g min(1, gap / (c norm2(g)^2)).

    gap = [phi(p) + <g, start - p> - inf phi]_+, which is phi(p) - inf phi where H starts at p.
    """
    p, g, start = problem.p, problem.g, problem.start
    gap = vector_loss.value(loss, p, problem.y) - vector_loss.infimum(loss, problem.y)
    largest = 0.0
    for k in range(len(p)):
        out[k] = g[k]
        gap += g[k] * (start[k] - p[k])
        largest = max(largest, abs(g[k]))
    if largest == 0.0:
        return
    # The norm is scaled by the largest number, since squares can overflow.
    squares = 0.0
    for k in range(len(p)):
        squares += (g[k] / largest) ** 2
    norm = largest * math.sqrt(squares)
    part = share(max(0.0, gap) / norm, norm * problem.c)
    for k in range(len(p)):
        out[k] *= part


class Truncated(NamedTuple):
    """The exact minimiser of H (or H') for the truncated model of the loss: aProx.

    b = g min(1, [phi(p) + g (pb - p) - inf phi]_+ / (g^2 c)) with g = phi'(p), pb = pi(0) and c of the line; pb = p for
    H'. A step never overshoots the point where the tangent reaches inf phi.

    Args:
        lookahead: H (True), H' (False), or H if possible (None).

    >>> from giftrl.losses import Squared
    >>> from giftrl.ops.line import Affine
    >>> Truncated().pick(Squared(), 0.0, 1.0, Affine(1.0, 3.0))
    0.16666666666666666
    """

    lookahead: bool | None = None

    def needs(self) -> tuple[str, str]:
        return "infimum", "lower_bound"

    def pick(self, loss: Any, y: float, p: float, line: Any) -> float:
        return truncated_slope(loss, y, p, line)

    def pick_scores(self, loss: Any, problem: ScoreProblem, out: Any, work: Any) -> None:
        truncated_scores(loss, problem, out)

    def pick_vector(self, problem: VectorProblem) -> Choice:
        # Along g the model is the function max(l + q - <g, x_t>, floor) of q = <g, x>: a linear model with features g.
        floor = float(problem.loss.lower_bound())  # type: ignore[attr-defined]
        anchor = float(problem.g @ problem.x)
        line = make_line(problem.psi, problem.domain, problem.theta, problem.g, problem.weight)
        b = solve(line, Truncation(anchor, problem.value, 1.0, floor), 0.0)
        # l* is convex: l*(b g) <= b l*(g) + (1 - b) l*(0), and l*(0) = -inf l <= -floor.
        bound = b * (anchor - problem.value) - (1.0 - b) * floor
        return problem.sharpen(Choice((problem.weight * b) * problem.g, problem.weight * bound))
