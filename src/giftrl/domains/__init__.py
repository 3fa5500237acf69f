"""Domains: closed convex sets V that contain the learner's points, one file each.

>>> from giftrl import domains
>>> domains.get("ball", radius=2.0)
Ball(radius=2.0)
"""

from giftrl.compiled.registry import Names
from giftrl.domains.ball import Ball
from giftrl.domains.box import Box
from giftrl.domains.contract import Domain
from giftrl.domains.l1_ball import L1Ball
from giftrl.domains.non_negative import NonNegative
from giftrl.domains.simplex import Simplex
from giftrl.domains.whole_space import WholeSpace

#: Every domain by its name.
BY_NAME = Names(
    "domain", whole_space=WholeSpace, ball=Ball, box=Box, non_negative=NonNegative, simplex=Simplex, l1_ball=L1Ball
)

#: The domain of that name, with these parameters: ``domains.get("ball")``.
#: An unknown name is an error that suggests the nearest one.
get = BY_NAME.make

__all__ = ["BY_NAME", "Ball", "Box", "Domain", "L1Ball", "NonNegative", "Simplex", "WholeSpace", "get"]
