"""The gap between a model and the best linear model of its size, on given rows."""

import os
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import BestLoss
from giftrl.certificates.passes import Watch, by_passes
from giftrl.certificates.problem import loss_sum
from giftrl.errors import InvalidInput, require
from giftrl.training.certify_rows import Rereading
from giftrl.training.model import LinearModel

Array = NDArray[np.float64]


def certify(
    data: Rereading,
    weights: Array,
    *,
    scale: float = 1.0,
    gap: float = 0.0,
    time_limit: float = 60.0,
    watch: Watch | None = None,
) -> BestLoss:
    """The loss of a model, and a lower bound for every linear model up to its size, on the same examples.

    If all examples are stored, the bound is nearly the least loss, given the time. Otherwise they are read repeatedly,
    and every pass gives a bound; the best one is returned.

    Args:
        data: rows, after their survey.
        weights: for each coordinate, one or a row of K; 0 for coordinates beyond.
        scale: how many times the size of the model the others may have.
        gap: stop when the model is proved to be within this part of the best; 0 for as near as possible.
        time_limit: in seconds, after which no step and no pass but the first begins.
        watch: called after each pass with the number of passes and the bound.

    >>> import pathlib, tempfile
    >>> from giftrl.streams.names.features import Dictionary
    >>> from giftrl.training import Settings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.svm")
    ...     _ = path.write_text("1 1:1\\n2 1:1\\n4 1:1\\n")
    ...     rows = Rereading([path], Settings(loss="absolute", constant=False), Dictionary())
    ...     rows.survey()
    ...     best = certify(rows, np.array([0.0, 2.5]))
    >>> print(in_words(best))
    average loss 1.167. Lower bound: no linear model with a weight norm up to this one's (scaled features) has an
    average loss below 1 on these examples. All examples were stored.
    This model is at most 17% from the best.
    """
    require(0.0 <= gap < np.inf, "gap", gap, "must be finite and not negative", "try gap=0.01")
    require(time_limit >= 0.0, "time_limit", time_limit, "must not be negative", "try time_limit=60")
    begun, known = time.monotonic(), data.coordinates < len(weights)
    empty = data.empty()
    u = np.zeros_like(empty.theta)
    u[known] = weights[data.coordinates[known]].reshape(-1, *u.shape[1:])
    if data.sample.share == 1.0:
        examples = data.sample.rows()
        p = np.asarray(examples.matrix(len(u)) @ u)
        with np.errstate(all="ignore"):
            paid = loss_sum(empty.loss, examples.labels, examples.weights, p)
        stored = replace(empty, examples=examples, loss_sum=paid)
        target = stored.least + (paid - stored.least) / (1.0 + gap) if gap > 0.0 else np.inf
        return stored.best_loss(u, scale, max(0.0, time_limit - (time.monotonic() - begun)), target)
    if not data.again:
        rule = f"has more than {data.sample.most:,} nonzeros, and cannot be read twice"
        raise InvalidInput("data", "-", rule, "give a file, or keep more rows with --witness-nonzeros")
    sample = data.sample.rows() if data.sample.entries else None
    limit = max(0.0, time_limit - (time.monotonic() - begun))
    return by_passes(empty, data.blocks, u, scale=scale, time_limit=limit, gap=gap, sample=sample, watch=watch)


def rows_for_model(path: str | os.PathLike[str], sources: Any, **reading: Any) -> tuple[Rereading, Array]:
    """The rows of sources as a model in a file reads them, after their survey, and the model's weights.

    Features that the model does not know have the weight 0, and count for the models that it is compared with.

    Args:
        path: of a model.
        sources: of rows with labels.
        reading: other arguments of :class:`Rereading`.
    """
    model, _ = LinearModel.load(path)
    rows = Rereading(sources, model.settings, model.features, schema=model.schema, **reading)
    rows.survey()
    return rows, np.asarray(model.freeze().weights, dtype=float)


def values_of(rows: Rereading, best: BestLoss) -> dict[str, Any]:
    """The result as plain values for JSON; the losses are averages."""
    return {
        "loss": rows.settings.loss,
        "average_loss": best.average_loss,
        "lower_bound": best.average,
        "least_possible": best.least / best.weight,
        "gap": gap_of(best),
        "scale": best.scale,
        "size": best.radius,
        "units": best.units,
        "rows": rows.rows,
        "features": len(rows.coordinates),
        "weight": rows.weight,
        "rejected": rows.rejected,
        "passes": best.passes,
        "solver": best.solver,
    }


def gap_of(best: BestLoss) -> float | None:
    """The gap as a part of the best loss; None if the best loss may be the infimum.

    Losses count from their infimum, which is 0 but for the Poisson loss.

    >>> gap_of(BestLoss(100.0, 101.0, 10.0, 10, 10, "", 1.0, "")), gap_of(BestLoss(0.0, 1.0, 1.0, 1, 1, "", 1.0, ""))
    (0.01, None)
    """
    excess = best.lower_bound - best.least
    return max(0.0, best.loss_sum - best.lower_bound) / excess if excess > 0.0 else None


def in_words(best: BestLoss) -> str:
    """The result in a few lines.

    >>> print(in_words(BestLoss(0.0, 0.0, 5.0, 5, 5, "scaled features", 1.0, "", scale=1.0)))
    average loss 0. No model can have a smaller one.
    """
    average = f"average loss {best.average_loss:.4g}. "
    if best.loss_sum <= best.least:
        return f"{average}No model can have a smaller one."
    said = replace(best, loss_sum=float("nan")).in_words()
    below = best.loss_sum - best.lower_bound
    gap = gap_of(best)
    if gap is None:
        more = f"Its average loss is at most {below / best.weight:.4g} above the best, which may be as low as "
        return f"{average}{said}\n{more}{best.least / best.weight:.4g}."
    if below < 0.0 and best.scale < 1.0:
        return f"{average}{said}\nThis model is better than every one of that size."
    the_best = "the best" if best.scale == 1.0 else "the best of these"
    if gap >= 1.0:
        last = f"The average loss of this model is at most {1.0 + gap:.3g} times that of {the_best}."
    elif gap < 1e-6:
        last = f"This model is {the_best}, to six digits."
    else:
        last = f"This model is at most {100.0 * gap:.2g}% from {the_best}."
    if best.least != 0.0:
        last = f"{last[:-1]}, counted from {best.least / best.weight:.4g}, which no predictions at all go below."
    return f"{average}{said}\n{last}"
