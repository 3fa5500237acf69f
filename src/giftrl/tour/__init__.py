"""The product on one page, on data that comes with scikit-learn: ``giftrl demo`` and ``make run``.

A :class:`Comparison` runs giftrl without settings and scikit-learn's SGD at every learning rate over one data set. A
:class:`Tour` has a comparison for each data set, and a page with them, the certificates, and the paper's figures.
"""

from giftrl.tour.comparison import TOUR_NAMES, Comparison
from giftrl.tour.tour_page import Tour, last_lines, short_table, steps, tour

__all__ = ["TOUR_NAMES", "Comparison", "Tour", "last_lines", "short_table", "steps", "tour"]
