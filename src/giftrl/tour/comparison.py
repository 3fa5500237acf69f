"""giftrl with nothing set, beside scikit-learn's SGD at every learning rate."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from giftrl.tour import rival
from giftrl.tour.sets import Set

#: How long to look for the proof of one data set, in seconds.
SECONDS = 4.0
#: A learning rate is good if its loss is within this part of giftrl's.
GOOD = 0.1


class Comparison(NamedTuple):
    """The average losses of one pass over a data set.

    Attributes:
        data: the data set.
        ours: the loss of giftrl.
        proof: its certificate in words.
        below: what no linear model of its size goes below; NaN where nothing was proved.
        default: the loss of SGD by default.
        swept: the losses of SGD at each of the rates.

    >>> one = Comparison(None, 1.0, "", 0.5, 3.0, (2.0, 0.8) + 7 * (4.0,))
    >>> one.best, one.good
    ((0.0032, 0.8), 1)
    """

    data: Set
    ours: float
    proof: str
    below: float
    default: float
    swept: tuple[float, ...]

    @property
    def best(self) -> tuple[float, float]:
        """The best rate in hindsight, and its loss."""
        loss, rate = min(zip(self.swept, rival.RATES, strict=True))
        return rate, loss

    @property
    def good(self) -> int:
        """How many of the rates are good."""
        return sum(loss <= (1.0 + GOOD) * self.ours for loss in self.swept)


def compare(data: Set, tell: Callable[[str], None]) -> Comparison:
    """Run giftrl and SGD over a data set.

    Args:
        data: the data set.
        tell: called with what comes next, before each of :data:`STEPS` steps.
    """
    from giftrl.linear import FTRLClassifier, FTRLRegressor

    tell(f"{data.name}: giftrl, nothing set")
    model = (FTRLClassifier if data.classes else FTRLRegressor)(shuffle=False).fit(data.x, data.y)
    tell(f"{data.name}: what the run proves")
    best, larger = _proofs(model.certificate_)
    proof = best.in_words(larger)
    below = best.average if best.lower_bound > best.least else float("nan")
    tell(f"{data.name}: SGD with its defaults")
    default, swept = rival.average_loss(data, None), []
    for rate in rival.RATES:
        tell(f"{data.name}: SGD at learning rate {rate:g}")
        swept.append(rival.average_loss(data, rate))
    return Comparison(data, float(model.average_loss_), proof, below, default, tuple(swept))


def _proofs(certificate: Any) -> tuple[Any, Any]:
    """What is proved about linear models up to 1 and up to 10 times the size of this one."""
    best = certificate.best_loss(1.0, 0.7 * SECONDS)
    if not best.lower_bound > best.least:  # the time may have gone into compiling, which is done now
        best = certificate.best_loss(1.0, 0.7 * SECONDS)
    return best, certificate.best_loss(10.0, 0.3 * SECONDS)


#: How many steps a comparison has.
STEPS = 3 + len(rival.RATES)


def mean_ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """The geometric mean of ratios.

    >>> round(mean_ratio([(1.0, 2.0), (1.0, 8.0)]), 6)
    0.25
    """
    return float(np.exp(np.mean([np.log(above / below) for above, below in pairs])))
