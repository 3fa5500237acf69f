"""The loop for many models with one strength for all coordinates, as :mod:`giftrl.kernels.uniform` for one."""

import math
from typing import Any

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.kernels import side_by_side as side
from giftrl.kernels.parts import Batch, Parts, end_of_run, model, weight
from giftrl.kernels.scalars import LOSS, ROUNDING, TIME
from giftrl.kernels.uniform import Example, begin_affine, finish_affine, recount


@formula(fast=True)
def learn_uniform_many(parts: Parts, batch: Batch, theta: Any, states: Any) -> int:
    """Many models over a batch, side by side: one walk over a row serves all of them. Without an L1 term.

    ``batch.labels`` has one column for all models or one for each. A model that overflows stays where it is, and its
    loss is infinite from there on.
    """
    rows, labels, weights, predictions = batch
    models = np.uint64(theta.shape[1])
    ts, a, next_lam = np.empty(models), np.empty(models), np.empty(models)
    w = side.work_array()
    for i in range(labels.shape[0]):
        first, last = begin(rows, i), end(rows, i)
        h, n2 = weight(weights, i), 0.0
        for m in range(models):
            ts[m] = 0.0
        for k in range(first, last):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            n2 += s * s
            for m in range(models):
                ts[m] += s * np.float64(theta[j, m])
        low = 0
        while low < theta.shape[1]:
            high = end_of_run(parts.update, low, min(theta.shape[1], low + side.WIDTH))
            for m in range(low, high):
                k = m - low
                w[side.LABEL, k] = labels[i, m] if labels.shape[1] > 1 else labels[i, 0]
                example = Example(w[side.LABEL, k], h, ts[m], n2)
                w[side.P, k], w[side.START, k], w[side.STEP, k], next_lam[m] = begin_affine(
                    model(parts, m), example, states, m
                )
            side.choose_all(parts.loss, model(parts, low).update, h, w, high - low)
            for m in range(low, high):
                k = m - low
                chosen = side.chosen(w, k)
                predictions[i, m], a[m] = w[side.P, k], h * chosen.b
                if abs(a[m]) < math.inf and states[m, LOSS] < math.inf:
                    example = Example(w[side.LABEL, k], h, ts[m], n2)
                    finish_affine(model(parts, m), example, chosen, next_lam[m], states, m)
                    if not states[m, ROUNDING] < math.inf:
                        a[m], states[m, LOSS] = 0.0, math.inf
                        states[m, TIME] -= 1.0
                else:
                    a[m], states[m, LOSS] = 0.0, math.inf
            low = high
        for k in range(first, last):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            for m in range(models):
                theta[j, m] = np.float64(theta[j, m]) - a[m] * s
        recount(theta, states, float(last - first))
    return len(labels)
