"""The largest weights, each in the units of its feature."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import Certificate
from giftrl.reports.page import Cell, table
from giftrl.reports.run.words import amount, plain

Array = NDArray[np.float64]

#: How many weights are shown.
TOP = 25


class Weighed(NamedTuple):
    """A feature: its weight, its standard deviation (NaN where it is not known), and the class that it speaks for."""

    name: str
    weight: float
    deviation: float
    of: str = ""


def deviations(certificate: Certificate) -> Array | None:
    """The standard deviation of each feature, from the sums that a certificate is computed from; None without them.

    >>> from giftrl.kernels import LinearLearner
    >>> learner = LinearLearner(2, "squared", compiled=False)
    >>> learner.keep_witnesses(100)
    >>> _ = learner.learn([[1.0, 4.0], [3.0, 4.0]], [0.0, 0.0])
    >>> deviations(learner.certificate).tolist()
    [1.0, 0.0]
    """
    evidence = certificate.evidence
    if evidence is None or not evidence.weight > 0.0:
        return None
    found = np.zeros(len(evidence.model))
    with np.errstate(over="ignore", invalid="ignore"):
        mean, square = evidence.sums / evidence.weight, evidence.squares / evidence.weight
        variance = square - mean * mean
    # The difference of numbers that are equal to 12 digits is rounding.
    variance = np.where(variance > 1e-12 * square, variance, 0.0)
    found[evidence.features] = np.sqrt(np.nan_to_num(variance, posinf=0.0))
    return found


def weights_table(weights: Sequence[Weighed]) -> str:
    """The table of weights, in the order in which they are given."""
    known = any(each.deviation == each.deviation for each in weights)
    classes = any(each.of for each in weights)
    effects = [each.weight * each.deviation if known else each.weight for each in weights]
    largest = max((abs(each) for each in effects), default=1.0) or 1.0
    rows = []
    for each, effect in zip(weights, effects, strict=True):
        row: list[str | Cell] = [plain(each.name)]
        row += [plain(each.of, 40)] if classes else []
        if known:
            row += [signed(each.weight), amount(each.deviation)]
        rows.append([*row, Cell(signed(effect), bar=effect / largest)])
    heads = ["feature", *(["class"] if classes else []), "weight"]
    heads += ["standard deviation", "weight times deviation"] if known else []
    what = "The largest weights by what one standard deviation of the feature adds to the score"
    return table(what if known else "The largest weights", heads, rows, text=[1] if classes else [])


def signed(value: float) -> str:
    """A number with its sign.

    >>> signed(0.5), signed(-2.0)
    ('+0.5000', '-2.0000')
    """
    return f"{'-' if value < 0.0 else '+'}{amount(abs(value))}"
