"""What a run proves about itself, and about every model that it did not play.

======================================= =====================================================================
:mod:`giftrl.certificates.certificate`  bounds on the regret, from the sums of a run and its trace
:mod:`giftrl.certificates.kept`         what a run leaves for :meth:`~giftrl.certificates.kept.Kept.best_loss`
:mod:`giftrl.certificates.best_loss`    the answer: what no linear model of a given size can go below
:mod:`giftrl.certificates.units`        the size of a model, with each feature in its own units
:mod:`giftrl.certificates.bound`        the bound that follows from any dual numbers, with an allowance for rounding
:mod:`giftrl.certificates.solver`       dual numbers for which that bound is nearly as high as it can be
:mod:`giftrl.certificates.problem`      the rows as that solver sees them, with :mod:`~giftrl.certificates.scaled`,
                                        :mod:`~giftrl.certificates.ball` and :mod:`~giftrl.certificates.loops`
:mod:`giftrl.certificates.passes`       the same for rows that do not fit in memory and are read again and again, with
                                        :mod:`~giftrl.certificates.blocks`, :mod:`~giftrl.certificates.one_pass` and
                                        :mod:`~giftrl.certificates.sampled`
:mod:`giftrl.certificates.moments`      the squared loss with few features: exact from second moments
:mod:`giftrl.certificates.witnesses`    what a learner remembers of its rows as they come, with
                                        :mod:`~giftrl.certificates.store`, :mod:`~giftrl.certificates.keeping`,
                                        :mod:`~giftrl.certificates.steering` and :mod:`~giftrl.certificates.summed`
:mod:`giftrl.certificates.evidence`     that memory at one moment, from which bounds follow
======================================= =====================================================================
"""

from giftrl.certificates.best_loss import BestLoss
from giftrl.certificates.certificate import Certificate
from giftrl.certificates.evidence import Evidence
from giftrl.certificates.kept import Kept
from giftrl.certificates.moments import Moments
from giftrl.certificates.theorem_terms import TheoremTerms
from giftrl.certificates.units import Units
from giftrl.certificates.witnesses import Witnesses

__all__ = ["BestLoss", "Certificate", "Evidence", "Kept", "Moments", "TheoremTerms", "Units", "Witnesses"]
