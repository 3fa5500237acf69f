"""What an update is: the choice of z_t.

For a linear model z = h b s, and :func:`pick` chooses the scalar b from the loss and the line (:mod:`giftrl.ops.line`)
of psi_{t+1} (H) or psi_t (H'). For a black-box loss :func:`pick_vector` chooses z from a :class:`VectorProblem`, and
returns with it an upper bound on l*(z), which is all that the certificate needs.
"""

from typing import Any, NamedTuple

import numpy as np

from giftrl import mirror
from giftrl.compiled.registry import brings, operation
from giftrl.domains import Domain
from giftrl.errors import Incompatible
from giftrl.losses.vector import Vector, VectorLoss
from giftrl.regularizers import Potential

__all__ = ["Choice", "VectorProblem", "check_loss", "minimises", "needs", "pick", "pick_vector"]


class Choice(NamedTuple):
    """A picked z with an upper bound on l*(z), exact wherever the loss brings its conjugate."""

    z: Vector
    conjugate: float


class VectorProblem(NamedTuple):
    """A round with a black-box loss, as an update sees it: l = weight loss, the point x_t and psi_{t+1} or psi_t."""

    loss: VectorLoss
    weight: float
    x: Vector
    value: float  # loss(x_t), without the weight
    g: Vector  # the subgradient at x_t, without the weight
    psi: Potential
    domain: Domain
    theta: Vector

    def after(self, z: Vector) -> Vector:
        """The point to which z leads."""
        return mirror.argmin(self.psi, self.domain, self.theta - z)

    def objective(self, choice: Choice) -> float:
        """H(z)."""
        return mirror.conjugate(self.psi, self.domain, self.theta - choice.z) + choice.conjugate

    def subgradient_choice(self, x: Vector, value: float, g: Vector) -> Choice:
        """z = h g for a subgradient g at x; Fenchel and Young hold with equality there."""
        return Choice(self.weight * g, self.weight * (float(g @ x) - value))

    def sharpen(self, choice: Choice) -> Choice:
        """The same z with the loss's own conjugate, where it brings one that is smaller than the bound."""
        if not brings(self.loss, "conjugate"):
            return choice
        exact = self.weight * float(self.loss.conjugate(choice.z / self.weight))  # type: ignore[attr-defined]
        # Rounding can push z just outside the domain of l*: the bound is then the better number.
        return choice._replace(conjugate=min(choice.conjugate, exact)) if np.isfinite(exact) else choice


@operation
def pick(update: Any, loss: Any, y: float, p: float, line: Any) -> float:
    """The slope b, given the prediction p at x_t and the line."""
    raise Incompatible("an update must bring pick(self, loss, y, p, line); add that method to its class")


@operation
def minimises(update: Any) -> bool:
    """Whether b is always the minimiser of H, so that it can be had together with what is known of its point."""
    return False


@operation
def pick_vector(update: Any, problem: VectorProblem) -> Choice:
    """z for a black-box loss."""
    raise Incompatible(
        f"{type(update).__name__} works along the features of a linear model, and a black-box loss has none; "
        "use Linear, Proximal, TwoStep or Truncated, or observe(loss, s, y)"
    )


@operation
def needs(update: Any) -> tuple[str, str]:
    """What the update needs beyond value and slope: the methods of a scalar and of a black-box loss ('' for none)."""
    return "", ""


def check_loss(update: Any, loss: Any, black_box: bool) -> None:
    """Raise unless the loss brings what the update needs."""
    name = needs(update)[black_box]
    if name and not brings(loss, name):
        raise Incompatible(
            f"{type(update).__name__} needs {name}() from the loss, and {type(loss).__name__} does not bring it; "
            f"add {name} to {type(loss).__name__}, or use Linear or Proximal"
        )
