"""A page about one run: what was learnt, how well, and what is proved.

=================================  ==================================================================
:mod:`giftrl.reports.run.record`   what is kept of predictions in the course of a run
:mod:`giftrl.reports.run.sample`   rows that an estimator keeps until a report is asked for
:mod:`giftrl.reports.run.curve`    the learning curve, with the certified best loss
:mod:`giftrl.reports.run.shares`   shares of experts
:mod:`giftrl.reports.run.ranking`  ROC and calibration
:mod:`giftrl.reports.run.confusion`  which class was taken for which
:mod:`giftrl.reports.run.residuals`  predictions of real labels against the labels
:mod:`giftrl.reports.run.weights`  the largest weights, in the units of their features
:mod:`giftrl.reports.run.page`     the page
:mod:`giftrl.reports.run.svg`      charts as SVG text
=================================  ==================================================================
"""

from giftrl.reports.run.page import Run
from giftrl.reports.run.record import Record
from giftrl.reports.run.sample import Sample
from giftrl.reports.run.weights import TOP, Weighed, deviations

__all__ = ["TOP", "Record", "Run", "Sample", "Weighed", "deviations"]
