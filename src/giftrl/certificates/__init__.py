"""Certificates: bounds that a run proves about itself and about every linear model, in one pass.

A learner's :class:`Certificate` bounds its regret. While it learns, a :class:`RowReservoir` stores examples within a
budget and *commits* the others: each gets a dual number, and only sums are left. From both, the :class:`Evidence` of
the run at one moment, a solver finds duals for the stored examples, and with them a lower bound on the loss of every
linear model up to a given size (:class:`Units`): the :class:`BestLoss`.

>>> from giftrl import FTRLRegressor
>>> model = FTRLRegressor().fit([[0.0], [1.0], [2.0], [3.0]], [1.0, 2.0, 3.0, 5.0])
>>> best = model.certificate_.best_loss(scale=10.0)  # no model up to 10 times this one's size has a lower loss
>>> round(best.lower_bound, 6), best.rows_kept
(0.15, 4)

========================================== ====================================================================
:mod:`giftrl.certificates.certificate`     bounds on the regret, from the sums of a run and its trace
:mod:`giftrl.certificates.bound`           sizes of models, the bound from any dual numbers, and the result
:mod:`giftrl.certificates.evidence`        stored examples and sums, from which bounds are computed
:mod:`giftrl.certificates.row_record`      the arrays of stored examples and sums
:mod:`giftrl.certificates.reservoir`       the random sample of stored examples, of one run or of several workers
:mod:`giftrl.certificates.dual_choice`     duals for committed examples
:mod:`giftrl.certificates.moments`         the squared loss with few features: exact bounds from second moments
:mod:`giftrl.certificates.problem`         the optimization problem behind the best bound
:mod:`giftrl.certificates.solver`          Newton's method and coordinate ascent for this problem
:mod:`giftrl.certificates.passes`          bounds for data beyond memory, which is read repeatedly
========================================== ====================================================================
"""

from giftrl.certificates.bound import BestLoss, Units
from giftrl.certificates.certificate import Certificate, TheoremTerms
from giftrl.certificates.evidence import Evidence
from giftrl.certificates.moments import Moments
from giftrl.certificates.reservoir import RowReservoir

__all__ = ["BestLoss", "Certificate", "Evidence", "Moments", "RowReservoir", "TheoremTerms", "Units"]
