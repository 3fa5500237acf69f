"""Ten million rounds: compare the norm of theta that rounds update with the one computed from the coordinates.

``python -m benchmarks.drift [ROUNDS]``
"""

import sys

import numpy as np

from benchmarks.rcv1_like import rcv1_like
from giftrl.kernels import LinearLearner, scalar_round

__all__ = ["drift"]


def drift(rounds: int, dtype: str, update: str) -> float:
    """The relative difference of the two norms after so many rounds.

    >>> drift(2_000, "float64", "proximal") < 1e-12
    True
    """
    x, y = rcv1_like(rows=min(rounds, 200_000))
    learner = LinearLearner(x.shape[1], "logistic", "squared_norm", update, "temporal", dtype=dtype)
    while learner.t <= rounds:
        left = rounds + 1 - learner.t
        learner.learn(x[:left], y[:left])
    updated = float(np.sqrt(learner.states[0, scalar_round.THETA2]))
    return abs(updated / float(np.linalg.norm(learner.theta)) - 1.0)


if __name__ == "__main__":
    rounds = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    for dtype in ("float32", "float64"):
        for update in ("linear", "proximal"):
            print(f"{rounds:,} rounds, {dtype}, {update}: {drift(rounds, dtype, update):.1e}", flush=True)
