"""Updates: the choice of z_t, one file each.

>>> from giftrl import updates
>>> updates.get("twostep", safeguard=True)
TwoStep(lookahead=None, safeguard=True)
"""

from giftrl.compiled.registry import Names
from giftrl.updates.contract import Choice, ScoreProblem, VectorProblem
from giftrl.updates.importance_aware import ImportanceAware
from giftrl.updates.linear import Linear
from giftrl.updates.proximal import Proximal
from giftrl.updates.truncated import Truncated
from giftrl.updates.two_step import TwoStep

#: Every update by its name.
BY_NAME = Names(
    "update",
    linear=Linear,
    proximal=Proximal,
    twostep=TwoStep,
    truncated=Truncated,
    iwa=ImportanceAware,
)

#: The update of that name, with these parameters: ``updates.get("proximal")``.
#: An unknown name is an error that suggests the nearest one.
get = BY_NAME.make

__all__ = [
    "BY_NAME",
    "Choice",
    "ImportanceAware",
    "Linear",
    "Proximal",
    "ScoreProblem",
    "Truncated",
    "TwoStep",
    "VectorProblem",
    "get",
]
