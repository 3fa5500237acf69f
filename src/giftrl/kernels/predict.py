"""Predictions from stored coordinates, without learning: O(nonzeros), and nothing is written to."""

from typing import Any

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.kernels.local import Q, X
from giftrl.kernels.step import soft
from giftrl.regularizers.contract import centred, l1_strength, strength

__all__ = ["predict_coordinate", "predict_uniform"]


@formula(fast=True)
def predict_uniform(psi: Any, lam_now: float, rows: Any, theta: Any, scores: Any) -> int:
    """<s, x> with x_j = soft(theta_j, l1)/L."""
    per = 1.0 / strength(psi, lam_now, 0.0)
    for i in range(len(scores)):
        p = 0.0
        for k in range(begin(rows, i), end(rows, i)):
            p += np.float64(rows.data[k]) * soft(np.float64(theta[column(rows, i, k), 0]), l1_strength(psi))
        scores[i] = p * per
    return len(scores)


@formula(fast=True)
def predict_coordinate(psi: Any, lam_now: float, rows: Any, coordinates: Any, scores: Any) -> int:
    """<s, x> with x_j stored where psi is centred, and soft(theta_j, l1)/L_j where it is not."""
    for i in range(len(scores)):
        p = 0.0
        for k in range(begin(rows, i), end(rows, i)):
            j = column(rows, i, k)
            x = np.float64(coordinates[j, 0, X])
            if not centred(psi):
                x = soft(x, l1_strength(psi)) / strength(psi, lam_now, np.float64(coordinates[j, 0, Q]))
            p += np.float64(rows.data[k]) * x
        scores[i] = p
    return len(scores)
