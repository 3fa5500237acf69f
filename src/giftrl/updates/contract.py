"""The interface of updates: rules that choose z_t.

====================== ================================================================================================
:func:`pick`           for a linear model, z = h b s: the number b, from the loss and the line (:mod:`giftrl.ops.line`)
                       of psi_{t+1} (H) or psi_t (H')
:func:`pick_scores`    for K linear models with one loss of their K scores, z = h s a^T: the K numbers a
:func:`pick_vector`    for a black-box loss: z itself, with an upper bound on l*(z), which the certificate needs
====================== ================================================================================================

An update must bring ``pick``. If ``pick_scores`` or ``pick_vector`` is needed and missing, an error says so.
"""

from typing import Any, NamedTuple

import numpy as np

from giftrl import mirror
from giftrl.compiled.registry import brings, formula, operation
from giftrl.domains import Domain
from giftrl.errors import Incompatible
from giftrl.losses.vector import Vector, VectorLoss
from giftrl.ops.vector_loss import objective
from giftrl.regularizers import Potential


class ScoreProblem(NamedTuple):
    """The input of an update with a loss of K scores; p, g and start are arrays of K numbers.

    >>> import numpy as np
    >>> round_of_three = ScoreProblem(y=2, p=np.zeros(3), g=np.array([1, 1, -2]) / 3, start=np.zeros(3), c=1.0)
    >>> round_of_three.p.argmax() == round_of_three.y
    np.False_
    """

    y: int  # the class
    p: Any  # the scores at x_t
    g: Any  # the slope of the loss there
    start: Any  # a moves the scores to start - c a
    c: float


class Choice(NamedTuple):
    """A chosen z with an upper bound on l*(z), exact if the loss has its own conjugate.

    >>> import numpy as np
    >>> Choice(np.array([1.0, -1.0]), 0.5).conjugate
    0.5
    """

    z: Vector
    conjugate: float


class VectorProblem(NamedTuple):
    """The input of an update with a black-box loss: l = weight * loss, the point x_t, and psi_{t+1} or psi_t.

    >>> import numpy as np
    >>> from giftrl import Learner, domains
    >>> from giftrl.losses import LinearModelLoss, Squared
    >>> loss, x = LinearModelLoss(Squared(), np.array([1.0]), 1.0), np.zeros(1)
    >>> psi = Learner(1, schedule="constant").trace.psi
    >>> problem = VectorProblem(loss, 1.0, x, loss.value(x), loss.subgradient(x), psi, domains.WholeSpace(), x)
    >>> problem.subgradient_choice(x, problem.value, problem.g).z
    array([-1.])
    """

    loss: VectorLoss
    weight: float
    x: Vector
    value: float  # loss(x_t), without the weight
    g: Vector  # the subgradient at x_t, without the weight
    psi: Potential
    domain: Domain
    theta: Vector

    def after(self, z: Vector) -> Vector:
        """The point after the step z."""
        return mirror.argmin(self.psi, self.domain, self.theta - z)

    def objective(self, choice: Choice) -> float:
        """H(z)."""
        return mirror.conjugate(self.psi, self.domain, self.theta - choice.z) + choice.conjugate

    def subgradient_choice(self, x: Vector, value: float, g: Vector) -> Choice:
        """z = h g for a subgradient g at x; Fenchel and Young hold with equality there."""
        return Choice(self.weight * g, self.weight * (float(g @ x) - value))

    def sharpen(self, choice: Choice) -> Choice:
        """The same choice with the loss's own conjugate, if that is smaller than the bound."""
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
def pick_scores(update: Any, loss: Any, problem: ScoreProblem, out: Any, work: Any) -> None:
    """The K numbers a of z = h s a^T, into ``out``; ``work`` has K numbers to work with.

    The operations of the loss are those of :mod:`giftrl.ops.vector_loss`.
    """
    raise Incompatible("an update must bring pick_scores(self, loss, problem, out, work) for a loss of K scores")


@formula
def keep_better(loss: Any, problem: ScoreProblem, a: Any, other: Any) -> None:
    """Replace a by the other unless a has the smaller H; infinite or NaN counts as larger."""
    start, y, c = problem.start, problem.y, problem.c
    if not objective(loss, start, y, c, a) < objective(loss, start, y, c, other):
        for k in range(len(a)):
            a[k] = other[k]


@operation
def minimises(update: Any) -> bool:
    """True if b is always the minimiser of H, so that it can be computed together with its point."""
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
    """Required methods beyond value and slope, of a scalar and of a black-box loss ('' for none)."""
    return "", ""


def check_scores(update: Any) -> None:
    """Raise an error unless the update supports losses of K scores."""
    if not brings(update, "pick_scores"):
        name = type(update).__name__
        raise Incompatible(
            f"{name} has no rule for a loss of K scores; add pick_scores(self, loss, problem, out, work) to {name}, or "
            "use a built-in update, or LinearLearners with one class against the rest"
        )


def check_loss(update: Any, loss: Any, black_box: bool) -> None:
    """Raise an error unless the loss has the methods that the update needs."""
    name = needs(update)[black_box]
    if name and not brings(loss, name):
        raise Incompatible(
            f"{type(update).__name__} needs {name}() from the loss, and {type(loss).__name__} does not bring it; "
            f"add {name} to {type(loss).__name__}, or use Linear or Proximal"
        )
