"""Figures and pages of runs, for :mod:`giftrl.sweeps` and :mod:`giftrl.paper`.

==============================  =====================================================================
:mod:`giftrl.reports.summary`   means and confidence intervals of repeated runs, and their best beta
:mod:`giftrl.reports.figure`    how a figure looks, and its text as SVG
:mod:`giftrl.reports.panel`     loss against beta, drawn the way the paper does
:mod:`giftrl.reports.page`      an HTML page in one file
:mod:`giftrl.reports.words`     numbers and curves in words
==============================  =====================================================================
"""

from giftrl.reports.figure import INK, Look, inline, new_figure, save, style, svg
from giftrl.reports.page import Page
from giftrl.reports.panel import AXES, Panel, side_by_side
from giftrl.reports.summary import Range, Summary
from giftrl.reports.words import describe, number

__all__ = [
    "AXES",
    "INK",
    "Look",
    "Page",
    "Panel",
    "Range",
    "Summary",
    "describe",
    "inline",
    "new_figure",
    "number",
    "save",
    "side_by_side",
    "style",
    "svg",
]
