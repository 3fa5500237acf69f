"""One round: a loss, its example and weight, and the choice of z for it."""

import sys
from typing import Any, NamedTuple

import numpy as np

from giftrl.domains import Domain
from giftrl.errors import Overflowed
from giftrl.losses.vector import Vector, VectorLoss
from giftrl.ops import loss as scalar
from giftrl.ops.line import objective
from giftrl.ops.scalar import clamp
from giftrl.regularizers import Potential
from giftrl.updates.contract import VectorProblem, pick, pick_vector
from giftrl.updates.lines import make_line


class Decision(NamedTuple):
    """What an update decided: the subgradient at x_t, the z in its place, l*(z) or a bound on it, and H(g) - H(z)."""

    g: Vector
    z: Vector
    conjugate: float
    delta: float


class LinearRound(NamedTuple):
    """A round of a linear model: l(x) = weight phi(<s, x>; y)."""

    loss: Any
    s: Vector
    y: float
    weight: float

    def prediction(self, x: Vector) -> float:
        """<s, x>."""
        return float(self.s @ x)

    def value(self, x: Vector) -> float:
        """l(x)."""
        return self.weight * scalar.value(self.loss, self.prediction(x), self.y) if self.weight > 0.0 else 0.0

    def curvature(self, x: Vector) -> float:
        """weight phi''(<s, x>)."""
        return self.weight * scalar.curvature(self.loss, self.prediction(x), self.y) if self.weight > 0.0 else 0.0

    def decide(self, update: Any, psi: Potential, domain: Domain, theta: Vector, x: Vector) -> Decision:
        """Let an update choose z = weight b s under psi, which is psi_{t+1} for H and psi_t for H'."""
        if self.weight == 0.0:
            zero = np.zeros_like(theta)
            return Decision(zero, zero, 0.0, 0.0)
        loss, s, y, weight = self.loss, self.s, self.y, self.weight
        p = self.prediction(x)
        line = make_line(psi, domain, theta, s, weight)
        b = pick(update, loss, y, p, line)
        if not np.isfinite(b):
            raise Overflowed(
                f"the slope {b} picked by {type(update).__name__} at the prediction {p!r} is not finite; "
                "use Proximal, which does not overshoot, or a smaller beta"
            )
        # A slope beyond float64 is reported as the largest number.
        g = clamp(scalar.slope(loss, p, y), -sys.float_info.max, sys.float_info.max)
        delta = 0.0 if b == g else weight * (objective(line, loss, y, g) - objective(line, loss, y, b))
        return Decision((weight * g) * s, (weight * b) * s, weight * scalar.conjugate(loss, b, y), delta)


class BlackBoxRound(NamedTuple):
    """A round with any convex loss of the whole vector: l(x) = weight loss(x)."""

    loss: VectorLoss
    weight: float

    def prediction(self, x: Vector) -> float | None:
        """A black-box loss makes no prediction."""
        return None

    def value(self, x: Vector) -> float:
        """l(x)."""
        return self.weight * float(self.loss.value(x))

    def decide(self, update: Any, psi: Potential, domain: Domain, theta: Vector, x: Vector) -> Decision:
        """Let an update choose z under psi, which is psi_{t+1} for H and psi_t for H'."""
        if self.weight == 0.0:
            zero = np.zeros_like(theta)
            return Decision(zero, zero, 0.0, 0.0)
        g = np.asarray(self.loss.subgradient(x), dtype=float)
        problem = VectorProblem(self.loss, self.weight, x, float(self.loss.value(x)), g, psi, domain, theta)
        choice = pick_vector(update, problem)
        linear = problem.subgradient_choice(x, problem.value, problem.g)
        delta = problem.objective(linear) - problem.objective(choice)
        return Decision(linear.z, choice.z, choice.conjugate, delta)


OnlineRound = LinearRound | BlackBoxRound
