"""The experiments of *Generalized Implicit Follow-The-Regularized-Leader* (ICML 2023), and a test of its claims.

>>> from giftrl.paper import rules
>>> [curve.name for curve in rules("hinge")]
['linear', 'truncated', 'twostep', 'proximal']
"""

from giftrl.paper.curves import READINGS, Reading, rules
from giftrl.paper.panels import BUNDLED, PAPER, Distance, PaperPanel, compare, points

__all__ = ["BUNDLED", "PAPER", "READINGS", "Distance", "PaperPanel", "Reading", "compare", "points", "rules"]
