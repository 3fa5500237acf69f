"""States of earlier versions, as a mixture has them now.

Until version 2 one block held everything of a feature: five float64 (scale, centre, mean over the rows that have it,
how many have it, place among the dense), theta for each score, and then, in the type of weights, q_j, r_j, the place in
the full matrix, the weights of the experts and the numbers of the coin.

Their full matrix was up to date after every round: nothing of it was late.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.kernels.base import NonzeroRows
from giftrl.mixtures import feature_state as now
from giftrl.mixtures.combination import UNCOMPARED
from giftrl.mixtures.experts import lanes
from giftrl.mixtures.features import quick_scale
from giftrl.mixtures.full_matrix import Matrix
from giftrl.mixtures.late_updates import nothing_late
from giftrl.mixtures.layout import LINE, aligned, blocks
from giftrl.mixtures.limits import LARGEST_EXPERT_WEIGHT

Arrays = Mapping[str, NDArray[Any]]

SCALE, CENTRE, MEAN, COUNT, DENSE_PLACE, THETA = range(6)


def _columns(classes: int | None, experts: int, dtype: Any) -> tuple[int, int, int, int]:
    """Where q_j, the weights, the coin and the end of a block were, in the type of weights."""
    if classes is None:
        return 12, 16, 24, 32
    size = np.dtype(dtype).itemsize
    line, curve = LINE // size, (THETA + classes) * 8 // size
    first = -(-(curve + 3) // line) * line
    coin = first + classes * experts
    return curve, first, coin, -(-(coin + 3 * classes) // line) * line


def feature_arrays(learner: Any, old: NDArray[np.float64]) -> dict[str, NDArray[Any]] | None:
    """Record, blocks and theta from the blocks of an earlier version; None where these are not such blocks."""
    scores, dtype, places = learner.classes or 1, learner.dtype, learner.places
    curve, first, coin, total = _columns(learner.classes, lanes(learner.grid), dtype)
    if old.dtype != np.float64 or old.ndim != 2 or old.shape[1] * 8 != total * np.dtype(dtype).itemsize:
        return None
    weights = np.ascontiguousarray(old).view(dtype)
    record, x = np.zeros((len(old), now.RECORD)), blocks(len(old), places.total, dtype)
    dense = old[:, DENSE_PLACE] > 0.0
    record[:, now.SCALE], record[:, now.CENTRE] = old[:, SCALE], old[:, CENTRE]
    record[:, now.COUNT], record[:, now.DENSE_PLACE] = np.where(dense, old[:, COUNT], 0.0), old[:, DENSE_PLACE]
    record[:, now.PLACE] = weights[:, curve + 2]
    x[:, : int(places.curve)] = weights[:, first:coin]
    x[:, int(places.curve) : int(places.coin)] = weights[:, curve : curve + 2]
    x[:, int(places.coin) : int(places.per_scale)] = weights[:, coin : coin + 3 * scores]
    with np.errstate(all="ignore"):
        x[:, int(places.count)] = old[:, COUNT]
        added = np.nan_to_num(old[:, MEAN] / old[:, SCALE] * old[:, COUNT])
    x[:, int(places.added)] = np.clip(added, -LARGEST_EXPERT_WEIGHT, LARGEST_EXPERT_WEIGHT)
    still = ~dense & (old[:, CENTRE] == 0.0)
    x[:, int(places.per_scale)] = [
        quick_scale(m) if quick else 0.0 for m, quick in zip(old[:, SCALE], still, strict=True)
    ]
    theta = old[:, THETA : THETA + scores].copy()
    return {"features.record": record, "features.x": x, "features.theta": theta}


def unpickled(learner: Any, features: now.FeatureState) -> now.FeatureState:
    """The features of a pickle, in which arrays do not begin at a cache line, and an earlier version has one only."""
    given = {name: getattr(features, name) for name in now.BY_FEATURE}
    arrays = {name: each.array() if isinstance(each, NonzeroRows) else each for name, each in given.items()}
    if arrays["x"] is None:
        made = feature_arrays(learner, arrays["record"]) or {}
        arrays = {name: made[f"features.{name}"] for name in now.BY_FEATURE}
    return features._replace(**arrays | {"x": aligned(arrays["x"])})


def up_to_date(matrix: Matrix) -> Matrix:
    """The full matrix of a pickle, with nothing late if an earlier version made it."""
    return matrix if matrix.late is not None else matrix._replace(**nothing_late(matrix.inverse)._asdict())


def of_now(learner: Any, state: Arrays) -> dict[str, NDArray[Any]]:
    """A state in the form of this version."""
    made = dict(state)
    if "features.x" not in made and "features.record" in made:
        made |= feature_arrays(learner, made["features.record"]) or {}
    if "matrix.inverse" in made and "matrix.late" not in made:
        made |= {f"matrix.{name}": array for name, array in nothing_late(learner.matrix.inverse)._asdict().items()}
    if "mixing.sums" in made:
        made["mixing.sums"] = sums_of_now(learner, made["mixing.sums"])
    return made


def sums_of_now(learner: Any, sums: NDArray[Any]) -> NDArray[Any]:
    """The sums of an earlier version, in which real labels were always clipped, as a mixture has them now."""
    if learner.classes is not None or sums.shape != (UNCOMPARED + 1,):
        return sums
    return np.append(sums, [0.0, 0.0 if learner.pieces.margin else math.inf])
