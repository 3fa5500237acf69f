"""The interface of schedules: lambda_t from the round t and one running sum.

The evidence of a round is a number made from gamma_t and norm(z_t)^2. A schedule that is *known ahead* computes
lambda_{t+1} from the evidence before round t, so that H can be used for z_t. Other schedules also need the evidence of
round t.
"""

from typing import Any

from giftrl.compiled.registry import operation
from giftrl.errors import Incompatible


@operation
def lam(schedule: Any, t: int, total: float) -> float:
    """lambda_t, given the evidence so far; it must not fall as t and the evidence grow."""
    raise Incompatible("a schedule must bring lam(self, t, total); add that method to its class")


@operation
def evidence(schedule: Any, gamma: float, z_norm_squared: float) -> float:
    """Return the non-negative amount that this round adds to the running sum."""
    return 0.0


@operation
def known_ahead(schedule: Any) -> bool:
    """True if lambda_{t+1} is known before z_t is chosen."""
    return True


@operation
def uses_gamma(schedule: Any) -> bool:
    """True if the evidence uses gamma_t, which is known only after x_{t+1}."""
    return False
