"""Learning from one row in memory that is kept from row to row, which takes no time to get ready."""

import math
from typing import Any, cast

from giftrl.errors import Overflowed
from giftrl.kernels.base import OneRow
from giftrl.training.model import LinearModel


def learn_row(model: LinearModel, row: OneRow, label: float) -> float:
    """Learn from one row of weight 1 as ``model.learn`` does from a batch of it; the prediction that was made before.

    Args:
        model: a model of one score.
        row: with the entries, the constant included, in memory that the learner made; all within its dimension.
        label: as the loss takes it.

    >>> from giftrl.kernels.base import sparse_row
    >>> from giftrl.training import Settings
    >>> model = LinearModel(Settings(loss="squared", bits=4))
    >>> row = model.learner.one_row(sparse_row(8))
    >>> row.values[:2], row.rows.value.indices[:2] = (1.0, 1.0), (3, 16)
    >>> row.end(2)
    >>> learn_row(model, row, 5.0), model.examples, model.nonzeros
    (0.0, 1, 2)
    """
    weight = model.weight + 1.0
    if not math.isfinite(weight):
        raise Overflowed("the sum of the weights leaves the range of float64; scale them")
    row.label[0], row.weight[0] = label, 1.0
    try:
        cast("Any", model.learner).learn_row(row)
    except Overflowed:
        rule = f"this row leads to numbers beyond the range of {model.settings.dtype}"
        raise Overflowed(f"{rule}; scale the features or the weights, or use beta='auto'") from None
    model.examples += 1
    model.nonzeros += row.width
    model.weight = weight
    return row.score.item()
