"""The scalar part of a round for many models at once: :func:`giftrl.kernels.step.choose` over arrays.

What differs between models lies in rows of one array of fixed shape, models side by side, and every loop over models
is short and without a branch, so that it runs several models at a time.
"""

from typing import Any

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.kernels.step import Chosen
from giftrl.ops.line import Affine, energy
from giftrl.ops.loss import conjugate, curvature, land_all, slope, value
from giftrl.updates.contract import Lines, minimises, pick_all

__all__ = ["LABEL", "START", "STEP", "WIDTH", "P", "choose_all", "chosen", "work_array"]

#: The most models in one call; more are taken in turns.
WIDTH = 64

# The rows. In: the labels, the predictions, and p and c of each line. Out: the fields of Chosen.
LABEL, P, START, STEP = 0, 1, 2, 3
SLOPE, PHI, PHI_STAR, DELTA, LED, BEND = 4, 5, 6, 7, 8, 9
_G, _WORK = 10, 11
_ROWS = 15


@formula(fast=True)
def work_array() -> Any:
    """An array for these rows. Its shape is a constant, so a compiler can see that the rows do not overlap."""
    return np.zeros((_ROWS, WIDTH))


@formula(fast=True)
def chosen(w: Any, k: int) -> Chosen:
    """What was chosen for the k-th model."""
    return Chosen(w[SLOPE, k], w[PHI, k], w[PHI_STAR, k], w[DELTA, k], w[LED, k], w[BEND, k])


@formula(fast=True)
def choose_all(loss: Any, update: Any, h: float, w: Any, count: int) -> None:
    """``choose`` for the first ``count`` models, which share an update, on affine lines."""
    for m in range(count):
        w[PHI, m] = value(loss, w[P, m], w[LABEL, m])
        w[_G, m] = slope(loss, w[P, m], w[LABEL, m])
    if h == 0.0:
        for m in range(count):
            w[SLOPE, m], w[PHI_STAR, m], w[DELTA, m], w[LED, m], w[BEND, m] = 0.0, 0.0, 0.0, w[PHI, m], 0.0
        return
    if minimises(update):
        land_all(
            loss, w[START, :count], w[LABEL, :count], w[STEP, :count], w[SLOPE, :count],
            w[PHI_STAR, :count], w[LED, :count], w[BEND, :count], w[_WORK:, :count],
        )  # fmt: skip
    else:
        lines = Lines(w[LABEL, :count], w[P, :count], w[_G, :count], w[START, :count], w[STEP, :count])
        pick_all(update, loss, lines, w[SLOPE, :count])
        linear = True
        for m in range(count):
            linear &= w[SLOPE, m] == w[_G, m]
        if not linear:
            for m in range(count):
                w[PHI_STAR, m] = conjugate(loss, w[SLOPE, m], w[LABEL, m])
        for m in range(count):
            q = w[START, m] - w[SLOPE, m] * w[STEP, m]
            w[LED, m] = value(loss, q, w[LABEL, m])
            w[BEND, m] = curvature(loss, q, w[LABEL, m])
    for m in range(count):
        at_g = w[_G, m] * w[P, m] - w[PHI, m]  # phi*(g), since g is the slope at p
        line = Affine(w[START, m], w[STEP, m])
        same = w[SLOPE, m] == w[_G, m]
        delta = energy(line, w[_G, m]) + at_g - energy(line, w[SLOPE, m]) - w[PHI_STAR, m]
        w[PHI_STAR, m] = at_g if same else w[PHI_STAR, m]
        w[DELTA, m] = 0.0 if same else delta
