"""The loop for many models with a strength for each coordinate, as :mod:`giftrl.kernels.coordinate` for one."""

import math
from typing import Any

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, end, longest
from giftrl.kernels import side_by_side as side
from giftrl.kernels.coordinate import Example, finish, round_coordinate
from giftrl.kernels.local import gather, measure, scatter
from giftrl.kernels.parts import Batch, Parts, end_of_run, model, weight
from giftrl.kernels.scalars import LAM, LOSS, ROUNDING, TIME
from giftrl.kernels.step import LONGEST
from giftrl.regularizers.contract import l1_strength


@formula(fast=True)
def learn_coordinate_many(parts: Parts, batch: Batch, coordinates: Any, states: Any) -> int:
    """Many models over a batch, side by side, as :func:`giftrl.kernels.many_uniform.learn_uniform_many`."""
    loss, psi, models = parts.loss, parts.psi, coordinates.shape[1]
    rows, labels, weights, predictions = batch
    w = np.empty((models, coordinates.shape[2], longest(rows)), coordinates.dtype)
    steps = np.empty((models, longest(rows)))
    c, n2 = np.empty(models), 0.0
    r = side.work_array()
    for i in range(labels.shape[0]):
        h = weight(weights, i)
        v = rows.data[begin(rows, i) : end(rows, i)]
        for m in range(models):
            gather(psi, rows, i, coordinates, m, w)
        low = 0
        while low < models:
            high = end_of_run(parts.update, low, min(models, low + side.WIDTH))
            for m in range(low, high):
                k = m - low
                r[side.LABEL, k] = labels[i, m] if labels.shape[1] > 1 else labels[i, 0]
                if l1_strength(psi) == 0.0:
                    r[side.P, k], c[m], n2 = measure(psi, v, w, m, steps, states[m, LAM])
                    r[side.START, k], r[side.STEP, k] = r[side.P, k], min(h * c[m], LONGEST)
            if l1_strength(psi) == 0.0:
                side.choose_all(loss, model(parts, low).update, h, r, high - low)
            for m in range(low, high):
                k, y = m - low, r[side.LABEL, m - low]
                if l1_strength(psi) == 0.0:
                    chosen = side.chosen(r, k)
                    predictions[i, m], a = r[side.P, k], h * chosen.b
                    if abs(a) < math.inf and states[m, LOSS] < math.inf:
                        finish(model(parts, m), Example(y, h, c[m], n2), v, w, m, steps, chosen, states)
                else:
                    predictions[i, m], a = round_coordinate(model(parts, m), y, h, v, w, m, steps, states)
                if not abs(a) < math.inf:
                    states[m, LOSS] = math.inf
                elif not states[m, ROUNDING] < math.inf and states[m, LOSS] < math.inf:
                    states[m, LOSS] = math.inf
                    states[m, TIME] -= 1.0
            low = high
        for m in range(models):
            scatter(psi, rows, i, coordinates, m, w)
    return len(labels)
