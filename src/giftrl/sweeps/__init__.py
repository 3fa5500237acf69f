"""Sweeps: every beta and update on one data set, in one pass for each random order of its rows.

A :class:`Grid` is a set of models: each :class:`Curve` at each beta. :func:`repeat` runs it over :class:`Data` in
several orders, and returns a :class:`Summary` of the losses.

>>> from giftrl.sweeps import parse_betas
>>> parse_betas("0.1:10:3")
(0.1, 1.0, 10.0)
"""

from giftrl.reports.loss_summary import Range, Summary
from giftrl.sweeps.data import PREPARATIONS, Data, fingerprint, load, prepare, read_all, signed
from giftrl.sweeps.grid import Curve, Grid, parse_betas, parse_updates
from giftrl.sweeps.repetitions import key, repeat
from giftrl.system import cores

__all__ = [
    "PREPARATIONS", "Curve", "Data", "Grid", "Range", "Summary", "cores", "fingerprint", "key", "load", "parse_betas",
    "parse_updates", "prepare", "read_all", "repeat", "signed",
]  # fmt: skip
