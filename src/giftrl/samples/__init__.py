"""Small data sets to try commands on: written by ``giftrl demo NAME``, the same bytes each time.

==============================  =============================================================
:mod:`giftrl.samples.churn`     a made-up table of customers
:mod:`giftrl.samples.clicks`    a made-up stream of clicks whose users change their habits
:mod:`giftrl.samples.text`      real text: documentation of the installed packages
:mod:`giftrl.samples.bundled`   the real tables that come with scikit-learn
:mod:`giftrl.samples.sample`    what a data set is, and how it is written
==============================  =============================================================

>>> sorted(SAMPLES)
['cancer', 'churn', 'clicks', 'diabetes', 'digits', 'iris', 'text', 'wine']
"""

from giftrl.samples.bundled import CANCER, DIABETES, DIGITS, IRIS, WINE
from giftrl.samples.churn import CHURN
from giftrl.samples.clicks import CLICKS
from giftrl.samples.sample import Sample
from giftrl.samples.text import TEXT

#: Every data set by its name, in the order in which they are shown.
SAMPLES = {sample.name: sample for sample in (CHURN, TEXT, CLICKS, CANCER, WINE, IRIS, DIGITS, DIABETES)}

__all__ = ["SAMPLES", "Sample"]
