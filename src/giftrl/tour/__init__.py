"""The product on one page, on data that comes with scikit-learn: ``giftrl demo`` and ``make run``.

=============================  ==========================================================================
:mod:`giftrl.tour.sets`        the data sets
:mod:`giftrl.tour.rival`       scikit-learn's SGD at one learning rate
:mod:`giftrl.tour.comparison`  giftrl with nothing set, beside SGD at every learning rate
:mod:`giftrl.tour.picture`     both in one picture
:mod:`giftrl.tour.words`       what was found, in sentences and in a table
:mod:`giftrl.tour.page`        the page: picture, table, certificates, the paper's figures
:mod:`giftrl.tour.run`         all of it, one step after the other
=============================  ==========================================================================
"""

from giftrl.tour.run import Tour, steps, tour
from giftrl.tour.sets import SETS

__all__ = ["SETS", "Tour", "steps", "tour"]
