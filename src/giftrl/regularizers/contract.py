"""The interface of regularizers: rules that grow psi_1, psi_2, ... from the strengths lambda_t and past rounds.

One psi_t is a *potential*; :mod:`giftrl.mirror` minimises it over a domain. Most regularizers are diagonal,

    psi_t(x) = sum_j L_{t,j} (x_j - centre)^2 / 2 + l1 norm1(x),

and define only two elementwise formulas: :func:`accumulate`, which updates a coordinate's accumulator, and
:func:`strength`, which gives L. Formulas use only arithmetic and NumPy's elementwise functions, so they serve arrays
and,
compiled, single coordinates. Other regularizers define :func:`start` and :func:`advance`.
"""

from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import brings, operation
from giftrl.errors import Incompatible, require
from giftrl.regularizers.potentials import Diagonal, Potential, Vector


class Evidence(NamedTuple):
    """The data of a round for a regularizer: the chosen z, the new point under psi_t, and the example.

    ``curvature`` is h phi''(p) at the new point; ``s`` and ``curvature`` are None for a black-box loss.

    >>> import numpy as np
    >>> Evidence(np.ones(2), np.zeros(2), np.array([1.0, 2.0]), 0.25).curvature
    0.25
    """

    z: Vector
    x: Vector
    s: Vector | None
    curvature: float | None


@operation
def accumulate(regularizer: Any, q: Any, z: Any, sigma: Any) -> Any:
    """The new value of the accumulator q_j, given q_j, z_j and sigma_j = h phi'' s_j^2. Elementwise."""
    return q


@operation
def strength(regularizer: Any, lam: float, q: Any) -> Any:
    """L_j for the strength lambda and accumulator q_j. Elementwise."""
    raise Incompatible("a diagonal regularizer must bring strength(self, lam, q); add that method to its class")


@operation
def l1_strength(regularizer: Any) -> float:
    """The factor of norm1(x) in psi."""
    return 0.0


@operation
def centred(regularizer: Any) -> bool:
    """True if the increments of psi are centred at the new point rather than at 0."""
    return False


@operation
def uses_curvature(regularizer: Any) -> bool:
    """True if the regularizer needs the curvature of a linear model's loss."""
    return False


@operation
def bounded(regularizer: Any) -> bool:
    """True if L >= lambda and accumulate adds at most sigma, which bounds the steps of a row."""
    return False


@operation
def known_ahead(regularizer: Any) -> bool:
    """True if psi_{t+1} depends on lambda_{t+1} alone, so that H can be used and not only H'."""
    return not centred(regularizer) and not brings(regularizer, "accumulate")


@operation
def start(regularizer: Any, dimension: int, lam: float) -> Potential:
    """psi_1."""
    q = np.zeros(dimension)
    first = np.broadcast_to(strength(regularizer, lam, q), dimension)
    return Diagonal(first, tilt=np.zeros(dimension), offset=0.0, l1=l1_strength(regularizer), memory=q)


@operation
def advance(regularizer: Any, psi: Any, lam: float, seen: Evidence | None) -> Any:
    """psi_{t+1} from psi_t and lambda_{t+1}; ``seen`` is None if psi_{t+1} is known ahead."""
    q = psi.memory
    if seen is not None:
        sigma = 0.0 if seen.s is None or seen.curvature is None else seen.curvature * seen.s * seen.s
        q = accumulate(regularizer, q, seen.z, sigma)
    new = np.broadcast_to(strength(regularizer, lam, q), psi.strength.shape)
    if seen is None or not centred(regularizer):
        return psi._replace(strength=new, memory=q)
    gain = new - psi.strength
    offset = psi.offset + 0.5 * float(gain @ (seen.x * seen.x))
    return psi._replace(strength=new, tilt=psi.tilt + gain * seen.x, offset=offset, memory=q)


def require_diagonal(argument: str, base: Any) -> None:
    """Raise an error unless a regularizer is diagonal, so that another one can wrap it."""
    remedy = "use SquaredNorm, AdaGrad, ElasticNet, Centred or Curvature"
    require(brings(base, "strength"), argument, base, "must be a diagonal regularizer", remedy)
