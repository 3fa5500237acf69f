"""What a learner without parameters asks of a loss: where predictions start, how far they range, and in which units.

Labels -1 and +1 are their own unit. Real labels are learnt around their running mean, in units of their spread. A loss
whose predictions are not on the scale of its labels, as the Poisson loss, brings these operations itself.
"""

import math
from typing import Any

from giftrl.compiled.registry import operation
from giftrl.ops.loss import smoothness

__all__ = ["bold", "highest", "kinked", "lowest", "offset", "reach", "spread"]


@operation
def kinked(loss: Any) -> bool:
    """Whether phi'' says nothing of how fast phi' changes on average, as for losses made of straight pieces."""
    return smoothness(loss) == math.inf


@operation
def reach(loss: Any) -> float:
    """For labels -1 and +1: predictions beyond this many never pay; infinity where they always can."""
    return math.inf


@operation
def bold(loss: Any) -> float:
    """For labels -1 and +1: by what factor predictions are worth trying larger than learners dare to make them.

    Where predictions beyond a reach never pay, the loss of clipped ones is least at the ends of the range, and learners
    of the unclipped loss stop short of them. Elsewhere a mixture of learners that start at 0 is a little timid.
    """
    return 1.5 if reach(loss) == math.inf else 10.0


@operation
def lowest(loss: Any, y: float) -> float:
    """The least prediction that is worth making after the label y."""
    return y


@operation
def highest(loss: Any, y: float) -> float:
    """The largest."""
    return y


@operation
def offset(loss: Any, mean: float, weight: float) -> float:
    """The constant prediction for labels of this mean and total weight."""
    return mean


@operation
def spread(loss: Any, y: float, o: float) -> float:
    """How far the label y is from the constant prediction o, in units of predictions."""
    return abs(y - o)
