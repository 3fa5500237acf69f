"""Examples for the tests of sweeps."""

import numpy as np


def examples(rows=40, features=5, seed=0, density=0.6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)) * (rng.random((rows, features)) < density)
    return x, np.where(rng.random(rows) < 0.5, -1.0, 1.0)
