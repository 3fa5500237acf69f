"""Certificates: bounds that a run proves about itself and about every linear model, in one pass.

A learner's :class:`Certificate` bounds its regret. While it learns, a :class:`RowReservoir` stores examples within a
budget and *commits* the others: each gets a dual number, and only sums are left. From both, the :class:`Evidence` of
the run at one moment, a solver finds duals for the stored examples, and with them a lower bound on the loss of every
linear model up to a given size (:class:`Units`): the :class:`BestLoss`. With few features, the squared loss needs no
stored examples, but their :class:`Moments`.

>>> from giftrl import FTRLRegressor
>>> model = FTRLRegressor().fit([[0.0], [1.0], [2.0], [3.0]], [1.0, 2.0, 3.0, 5.0])
>>> best = model.certificate_.best_loss(scale=10.0)  # no model up to 10 times this one's size has a lower loss
>>> round(best.lower_bound, 6), best.rows_kept
(0.15, 4)
"""

from giftrl.certificates.bound import BestLoss, Units
from giftrl.certificates.certificate import Certificate, TheoremTerms
from giftrl.certificates.evidence import Evidence
from giftrl.certificates.moments import Moments
from giftrl.certificates.reservoir import RowReservoir

__all__ = ["BestLoss", "Certificate", "Evidence", "Moments", "RowReservoir", "TheoremTerms", "Units"]
