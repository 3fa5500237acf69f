"""Sweeps: many settings of beta and update over one data set, one pass for each order, and what they say together.

>>> from giftrl.sweeps import parse_betas
>>> parse_betas("0.1:10:3")
(0.1, 1.0, 10.0)
"""

from giftrl.sweeps.data import PREPARATIONS, Data, fingerprint, load, prepare, read_all, signed
from giftrl.sweeps.grid import Curve, Grid, parse_betas, parse_updates
from giftrl.sweeps.run import cores, key, repeat
from giftrl.sweeps.summary import Range, Summary

__all__ = [
    "PREPARATIONS",
    "Curve",
    "Data",
    "Grid",
    "Range",
    "Summary",
    "cores",
    "fingerprint",
    "key",
    "load",
    "parse_betas",
    "parse_updates",
    "prepare",
    "read_all",
    "repeat",
    "signed",
]
