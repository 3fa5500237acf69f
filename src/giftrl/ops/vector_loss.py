"""The interface of losses of K scores.

For K linear models side by side the loss of an example (s, y) is phi(p; y), phi convex in the vector p of the K scores
<s, x_k>, y a class from 0 to K - 1. Scores, slopes and whatever else has K numbers are float64 arrays; an array that
is filled comes last and belongs to the caller; nothing is allocated. ``slope`` may fill the array that it reads; the
others may not.

A candidate z moves column k by h a_k s, with one vector a for all features. If psi has the same strengths L_j in every
column, the scores move to p - c a with one number c = h sum_j s_j^2/L_j, and the objective of the paper, divided by h
and shifted, is

    H(a) = -<a, p> + c norm2(a)^2 / 2 + phi*(a),

p being the scores at grad psi*(theta). For H' these are the scores of the prediction; for H they are not.

An example of weight h has the loss h phi. Every rule scales as it does for scalar losses (:mod:`giftrl.ops.loss`): with
a picked for phi at step length h c, the slope for h phi at step length c is h a. The slope at a kink is the subgradient
of smallest norm. ``value``, ``infimum`` and ``smoothness`` are the operations of scalar losses; ``smoothness`` refers
to the Euclidean norm.
"""

from typing import Any

import numpy as np

from giftrl.compiled.registry import formula, operation
from giftrl.errors import Incompatible
from giftrl.ops.loss import infimum as infimum
from giftrl.ops.loss import multiclass as multiclass
from giftrl.ops.loss import smoothness as smoothness
from giftrl.ops.loss import value as value


@operation
def slope(loss: Any, p: Any, y: int, out: Any) -> None:
    """The subgradient of phi at p that has the smallest norm."""
    raise Incompatible("a loss of K scores must bring slope(self, p, y, out); add that method to its class")


@operation
def conjugate(loss: Any, a: Any, y: int) -> float:
    """phi*(a; y), infinity outside its domain.

    The domain can be thin (the slopes of losses that compare classes have the sum 0), so that rounding leaves it: there
    a counts as inside if the sum is at most 1e-9 from 0.
    """
    raise Incompatible("a loss of K scores must bring conjugate(self, a, y); add that method to its class")


@operation
def prox(loss: Any, p: Any, y: int, c: float, out: Any) -> None:
    """The a with a in d phi(p - c a): the minimiser of H."""
    raise Incompatible("a loss of K scores must bring prox(self, p, y, c, out); add that method to its class")


@operation
def flow(loss: Any, p: Any, y: int, c: float, out: Any) -> None:
    """The mean slope along dp/dtau = -c phi'(p) for tau in [0, 1]: the importance-weight-aware step.

    With g_tau the slopes on the way, phi*(a) is at most the mean of phi*(g_tau) = <g_tau, p_tau> - phi(p_tau), and the
    mean of <g_tau, p_tau> is <a, p> - c norm2(a)^2 / 2. So H'(a) <= -(mean of phi(p_tau)). As norm2(g_tau) does not
    grow, phi falls at most at the rate c norm2(g)^2, and H'(a) <= -phi(p) + c norm2(g)^2 / 2 = H'(g).
    """
    raise Incompatible("a loss of K scores must bring flow(self, p, y, c, out); add that method to its class")


@operation
def curvature(loss: Any, p: Any, y: int) -> float:
    """A sigma such that sigma I is an upper bound on the Hessian of phi at p; 0 on a kink."""
    return smoothness(loss)


@operation
def curvatures(loss: Any, p: Any, y: int, out: Any) -> None:
    """A diagonal upper bound on the Hessian of phi at p, a number per class."""
    sigma = curvature(loss, p, y)
    for k in range(len(out)):
        out[k] = sigma


@formula
def mass_moved(a: Any, y: int) -> float:
    """The mass -a_y that a moves from y to the other classes; -1 if a has another form.

    Slopes of losses that compare y with the others are of this form: a = q - e_y for probabilities q.

    >>> import numpy as np
    >>> mass_moved(np.array([0.25, -0.75, 0.5]), 1), mass_moved(np.array([0.25, 0.5]), 1)
    (0.75, -1.0)
    """
    label, total, moved = np.uint64(y), 0.0, 0.0
    for k in range(np.uint64(len(a))):
        total += float(a[k])
        if k != label:
            moved += float(a[k])
            if not a[k] >= 0.0:
                return -1.0
    return min(moved, 1.0) if abs(total) <= 1e-9 and moved <= 1.0 + 1e-9 else -1.0


@formula
def objective(loss: Any, start: Any, y: int, c: float, a: Any) -> float:
    """H(a) with the scores ``start``; infinity if rounding leaves the domain of phi*."""
    total = 0.0
    for k in range(len(a)):
        total += a[k] * (0.5 * c * a[k] - start[k])
    return total + conjugate(loss, a, y)
