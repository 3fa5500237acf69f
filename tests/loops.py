"""A module of a user with a loss and a loop, as text."""

LOSS = '''
from typing import NamedTuple

from giftrl.compiled.registry import formula
from giftrl.ops.loss import slope, value


class Scaled(NamedTuple):
    """A loss of the user's own: value and slope, nothing else."""

    def value(self, p, y):
        return FACTOR * abs(p - y)

    def slope(self, p, y):
        return FACTOR * ((p > y) - (p < y))


@formula
def both(loss, p, y, out):
    """Three lines compile in a second, where a loop over rows takes ten."""
    out[0] = value(loss, p, y)
    out[1] = slope(loss, p, y)
'''
