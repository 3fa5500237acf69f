"""Steps for many features: the loss of a random part of the rows stands for the curvature of all of them."""

import math

import numpy as np

from giftrl.certificates.blocks import Block
from giftrl.certificates.kept import Kept
from giftrl.certificates.problem import Problem
from giftrl.certificates.scaled import Scaled
from giftrl.certificates.solver import solve
from giftrl.certificates.units import Array, Units


class Sampled:
    """A model of the loss of all rows around z that needs only some of them.

    With F_S the loss of a random part of the rows, scaled to the weight of all, and g the gradient of the loss F of all
    rows at z, the next point minimises

        F_S(v) + <g - grad F_S(z), v> + (damping/2)|v - z|^2     over the ball:

    its gradient at z is that of F, and its curvature nearly so (Shamir, Srebro and Zhang 2014, DANE). The damping
    is a part of the curvature; it falls while such steps are good, and rises where one was too long.

    Args:
        empty: a record without rows.
        sample: the random part.
        units, radius: the ball.

    >>> rows, labels = np.array([[1.0], [1.0]]), np.array([1.0, 3.0])
    >>> kept = Kept.of_rows("squared", rows, labels)
    >>> sample = Block(kept.data[:1], kept.indices[:1], kept.indptr[:2], labels[:1], np.ones(1))
    >>> sampled = Sampled(kept.without_rows(), sample, kept.units()[0], 9.0)
    >>> sampled.step(np.zeros(1), np.array([4.0]), 0.0, 1.0).round(2)  # theta is minus the gradient
    array([1.82])
    """

    def __init__(self, empty: Kept, sample: Block, units: Units, radius: float) -> None:
        weight = math.fsum(sample.weights)
        factor = empty.weight / weight if weight > 0.0 else 1.0
        everywhere = np.ones(len(units.scale))
        self.rows = Scaled(sample.matrix(len(units.scale)), units, everywhere)
        self.loss, self.labels, self.weights = empty.loss, sample.labels, factor * sample.weights
        self.radius, self.damping = radius, 0.1

    def trust(self, whole: bool) -> None:
        """Say whether the last step was taken as it was, or had to be shortened."""
        self.damping = self.damping / 4.0 if whole else self.damping * 8.0

    def step(self, z: Array, theta: Array, eps: float, seconds: float) -> Array:
        """Where to go from z, where theta is minus the gradient of all losses, smoothed by eps."""
        problem = Problem(self.loss, self.rows, self.labels, self.weights, theta, self.radius)
        p = self.rows.scores(z)
        a, _, bend = problem.land(p, eps, np.zeros_like(p))
        # In units of the curvature of one feature: for K scores, the squared slopes are about that.
        ridge = self.damping * float(self.weights @ (bend if a.ndim == 1 else (a * a).sum(axis=1)))
        held = theta + self.rows.gather(problem.weighted(a)) + ridge * z
        model = Problem(self.loss, self.rows, self.labels, self.weights, held, self.radius, ridge)
        out: Array = solve(model, z, max(0.5 * seconds, 1.0), 50).z - z
        return out
