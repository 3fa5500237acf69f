"""Schedules: the strength lambda_t of the regularizer, one file each.

>>> from giftrl import schedules
>>> schedules.get("temporal", beta=2.0)
TemporalVariability(beta=2.0, gradient_bound=1.0, floor=0.0)
"""

from giftrl.compiled.registry import Names
from giftrl.schedules.ada_implicit import AdaImplicit
from giftrl.schedules.adagrad_norm import AdaGradNorm
from giftrl.schedules.constant import Constant
from giftrl.schedules.square_root import SquareRoot
from giftrl.schedules.temporal_variability import TemporalVariability

#: Every schedule by its name.
BY_NAME = Names(
    "schedule",
    constant=Constant,
    sqrt=SquareRoot,
    adagrad_norm=AdaGradNorm,
    temporal=TemporalVariability,
    ada_implicit=AdaImplicit,
)

#: The schedule of that name, with these parameters: ``schedules.get("sqrt")``.
#: An unknown name is an error that suggests the nearest one.
get = BY_NAME.make

__all__ = ["BY_NAME", "AdaGradNorm", "AdaImplicit", "Constant", "SquareRoot", "TemporalVariability", "get"]
