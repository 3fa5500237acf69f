"""Certificates: regret bounds of a run, and lower bounds on the loss of every linear model, in one pass.

A learner's :class:`Certificate` bounds its regret. While it learns, a :class:`RowReservoir` stores examples within a
budget and *commits* the others: each gets a dual number and is reduced to sums. Both together are the :class:`Evidence`
of the run. From it, a solver finds duals for the stored examples, which give a lower bound on the loss of every linear
model up to a given norm (:class:`Units`): the :class:`BestLoss`. With few features and the squared loss, second
:class:`Moments` replace stored examples.

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
