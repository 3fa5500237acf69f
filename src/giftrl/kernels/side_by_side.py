"""The scalar part of a round for many models at once: :func:`giftrl.kernels.step.choose` over arrays.

What differs between models lies in rows of one array of fixed shape, models side by side, and every loop over models
is short and without a branch, so that it runs several models at a time.
"""

from typing import Any

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.kernels.choices import TRUNCATED, AnyUpdate
from giftrl.ops.line import Affine, energy
from giftrl.ops.loss import conjugate, curvature, land_all, slope, value
from giftrl.updates.contract import pick

__all__ = [
    "BEND",
    "DELTA",
    "LED",
    "PHI",
    "PHI_STAR",
    "SLOPE",
    "START",
    "STEP",
    "WIDTH",
    "P",
    "Y",
    "choose_all",
    "room",
    "same_update",
]

#: The most models in one call; more are taken in turns.
WIDTH = 64

# The rows. In: the labels, the predictions, and p and c of each line. Out: what choose returns.
Y, P, START, STEP = 0, 1, 2, 3
SLOPE, PHI, PHI_STAR, DELTA, LED, BEND = 4, 5, 6, 7, 8, 9
_G, _WORK = 10, 11
_ROWS = 15


@formula(fast=True)
def room() -> Any:
    """A place for the rows. Its shape is a constant, so a compiler can see that they do not overlap."""
    return np.zeros((_ROWS, WIDTH))


@formula(fast=True)
def same_update(codes: Any, low: int) -> int:
    """The end of the models from ``low`` on that share an update, at most WIDTH of them."""
    high = low + 1
    while high < len(codes) and codes[high] == codes[low] and high - low < WIDTH:
        high += 1
    return high


@formula(fast=True)
def choose_all(loss: Any, code: int, h: float, w: Any, count: int, arrival: bool) -> None:
    """``choose`` for the first ``count`` models, which all use the update of this number, on affine lines."""
    for m in range(count):
        w[PHI, m] = value(loss, w[P, m], w[Y, m])
        w[_G, m] = slope(loss, w[P, m], w[Y, m])
    if h == 0.0:
        for m in range(count):
            w[SLOPE, m], w[PHI_STAR, m], w[DELTA, m], w[LED, m], w[BEND, m] = 0.0, 0.0, 0.0, w[PHI, m], 0.0
        return
    if code == 1:
        land_all(
            loss, w[START, :count], w[Y, :count], w[STEP, :count], w[SLOPE, :count],
            w[PHI_STAR, :count], w[LED, :count], w[BEND, :count], w[_WORK:, :count],
        )  # fmt: skip
    else:
        if code == 0:
            for m in range(count):
                w[SLOPE, m] = w[_G, m]
        elif code == 4:
            for m in range(count):
                w[SLOPE, m] = pick(TRUNCATED, loss, w[Y, m], w[P, m], Affine(w[START, m], w[STEP, m]))
        else:
            for m in range(count):
                w[SLOPE, m] = pick(AnyUpdate(code), loss, w[Y, m], w[P, m], Affine(w[START, m], w[STEP, m]))
        if code != 0:
            for m in range(count):
                w[PHI_STAR, m] = conjugate(loss, w[SLOPE, m], w[Y, m])
        if arrival:
            for m in range(count):
                q = w[START, m] - w[SLOPE, m] * w[STEP, m]
                w[LED, m] = value(loss, q, w[Y, m])
                w[BEND, m] = curvature(loss, q, w[Y, m])
    for m in range(count):
        at_g = w[_G, m] * w[P, m] - w[PHI, m]  # phi*(g), since g is the slope at p
        line = Affine(w[START, m], w[STEP, m])
        same = w[SLOPE, m] == w[_G, m]
        delta = energy(line, w[_G, m]) + at_g - energy(line, w[SLOPE, m]) - w[PHI_STAR, m]
        w[PHI_STAR, m] = at_g if same else w[PHI_STAR, m]
        w[DELTA, m] = 0.0 if same else delta
