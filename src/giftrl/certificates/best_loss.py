"""What no linear model of a given size can go below."""

import math
from dataclasses import dataclass
from typing import Optional

from giftrl.certificates.units import EPS

#: How a bound was found from second moments.
MOMENTS = "second moments"
#: A bound for larger models is worth a word if it is lower by no more than this part.
CLOSE = 0.01


@dataclass(frozen=True)
class BestLoss:
    """A lower bound on the loss of every linear model of a given size, on the rows of a run.

    Attributes:
        lower_bound: the sum over all rows, by weight, of the losses of any such model is not below this number; with a
            ridge, the sum plus (ridge/2)|u|^2.
        loss_sum: what the run paid.
        weight: the sum of the weights of all rows.
        rows: the number of rows.
        rows_kept: how many of them were kept whole. The others were summed up, which makes the bound lower.
        units: how the size of a model is measured.
        radius: the size.
        solver: how the duals were found.
        ridge: the strength of the penalty, 0 for none.
        scale: the size as a multiple of that of the run's own model; NaN where the size was given otherwise.
        least: what no model at all goes below: the sum of the infima of the losses.
        passes: how many times the rows were read to find a dual for each of them; 0 where they were kept or summed up.

    >>> best = BestLoss(1565.4, 1694.7, 11055.0, 11055, 11055, "each feature in its own units", 5.0, "", scale=1.0)
    >>> round(best.average, 4), round(best.regret, 1)
    (0.1416, 129.3)
    >>> print(best.in_words())
    average loss 0.1533. No linear model with weights up to this one's size (each feature in its own units) has an
    average loss below 0.1416 on these rows; all rows were kept.
    """

    lower_bound: float
    loss_sum: float
    weight: float
    rows: int
    rows_kept: int
    units: str
    radius: float
    solver: str
    ridge: float = 0.0
    scale: float = math.nan
    least: float = 0.0
    passes: int = 0

    @property
    def average(self) -> float:
        """The lower bound per unit of weight."""
        return self.lower_bound / self.weight if self.weight > 0.0 else 0.0

    @property
    def average_loss(self) -> float:
        """What the run paid per unit of weight."""
        return self.loss_sum / self.weight if self.weight > 0.0 else 0.0

    @property
    def regret(self) -> float:
        """A number that the run's regret against every model of that size is not above; it can be negative.

        What rounding can do to the sum of the run's losses is added.
        """
        return self.loss_sum + (self.rows + 16.0) * EPS * abs(self.loss_sum) - self.lower_bound

    def in_words(self, wide: Optional["BestLoss"] = None) -> str:
        """What is proved, in a few sentences.

        Args:
            wide: the same for larger models; they are spoken of where nearly the same holds for them.
        """
        kept = f"{self.rows_kept:,} of {self.rows:,} rows were kept"
        if self.passes:
            kept = f"all rows were read {self.passes} time{'' if self.passes == 1 else 's'}"
        elif self.rows_kept >= self.rows:
            kept = "all rows were kept" if self.solver != MOMENTS else "second moments of all rows were kept"
        paid = "" if math.isnan(self.loss_sum) else f"average loss {self.average_loss:.4g}. "
        if self.rows == 0:
            return "No rows have been learnt."
        if not self.lower_bound > self.least:
            if self.rows_kept >= self.rows:
                return f"{paid}A linear model {self._size()} may have the least loss that is possible; {kept}."
            return f"{paid}Too few rows were kept to prove anything about linear models {self._size()}; {kept}."
        what = (
            f"an average loss plus {self.ridge:.4g}/2 times its squared size, per row,"
            if self.ridge > 0.0
            else ("an average loss")
        )
        words = f"{paid}No linear model {self._size()} has {what} below {self.average:.4g} on these rows; {kept}."
        if wide is not None and self.lower_bound - wide.lower_bound <= CLOSE * abs(self.lower_bound):
            words += f" None up to {wide.scale:.4g} times its size has one below {wide.average:.4g}."
        if self.regret < 0.0 and f"{self.average_loss:.4g}" != f"{self.average:.4g}":
            words += (
                " This run beat every fixed linear model of that size: it went on learning, or kept its predictions"
                " within the range of the labels, which no single set of weights can do."
            )
        return words

    def _size(self) -> str:
        """Which models are meant."""
        if self.ridge > 0.0:
            return f"(its size measured with {self.units})"
        if math.isnan(self.scale):
            return f"of size {self.radius:.4g} or less ({self.units})"
        if self.scale == 0.0:
            return "with all weights 0"
        times = "this one's size" if self.scale == 1.0 else f"{self.scale:.4g} times this one's size"
        return f"with weights up to {times} ({self.units})"
