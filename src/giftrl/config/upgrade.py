"""Conversion of model files of earlier versions.

Version 1 (giftrl 0.1) kept the digest of a file in an entry of its own, the coordinates of every feature of a learner
with a fixed beta, and one block of memory for each feature of a mixture: five float64 (scale, centre, mean over the
rows that have it, number of these rows, place among the dense features), theta for each score, and then, in the type of
the weights, q_j, r_j, the place in the full matrix, the weights of the experts and the numbers of the coin. It applied
downdates of the full matrix at once, clipped all predictions of real labels, and stored no examples for certificates.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import lanes
from giftrl.kernels.base import CACHE_LINE, aligned_zeros
from giftrl.mixtures import feature_state as now
from giftrl.mixtures.clip_limits import LARGEST_EXPERT_WEIGHT
from giftrl.mixtures.experts import UNCOMPARED
from giftrl.mixtures.feature_state import quick_scale
from giftrl.mixtures.full_matrix import nothing_late
from giftrl.mixtures.mixture import Mixture

Arrays = dict[str, NDArray[Any]]

#: The float64 columns of a block of version 1.
SCALE, CENTRE, MEAN, COUNT, DENSE_PLACE, THETA = range(6)


def metadata_of_now(metadata: Mapping[str, str], entry: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Convert metadata: the digest moves into the entry of giftrl."""
    if entry.get("version") != 1 or "sha256" in entry or "sha256" not in metadata:
        return dict(metadata), entry
    rest = {name: value for name, value in metadata.items() if name != "sha256"}
    return rest, entry | {"sha256": metadata["sha256"]}


def settings_of_now(state: Mapping[str, Any]) -> dict[str, Any]:
    """Add settings of later versions with their neutral values: no stored examples, products or n-grams."""
    return {"witness_nonzeros": None, "interactions": (), "ngrams": ()} | dict(state)


def arrays_of_now(learner: Any, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Convert the arrays of a learner; ``learner`` is untrained and has the same settings."""
    state = dict(arrays)
    if not isinstance(learner, Mixture):
        if "coordinates" in state and "coordinates.seen" not in state:
            state["coordinates.seen"] = np.arange(len(state["coordinates"]))
        return state
    if "features.x" not in state and "features.record" in state:
        state |= _feature_arrays(learner, state["features.record"])
    if "matrix.inverse" in state and "matrix.late" not in state:
        state["matrix.late"], state["matrix.waiting"] = nothing_late(learner.matrix.inverse)
    sums = state.get("mixing.sums")
    if learner.classes is None and sums is not None and sums.shape == (UNCOMPARED + 1,):
        state["mixing.sums"] = np.append(sums, [0.0, 0.0 if learner.pieces.margin else math.inf])
    return state


def _feature_arrays(learner: Mixture, old: NDArray[np.float64]) -> Arrays:
    """Convert the blocks of version 1 to record, blocks and theta; empty if ``old`` has another type or width."""
    scores, dtype, places = learner.classes or 1, learner.dtype, learner.places
    curve, first, coin, total = _old_columns(learner.classes, lanes(learner.grid), dtype)
    if old.dtype != np.float64 or old.ndim != 2 or old.shape[1] * 8 != total * np.dtype(dtype).itemsize:
        return {}
    weights = np.ascontiguousarray(old).view(dtype)
    record, x = np.zeros((len(old), now.RECORD_WIDTH)), aligned_zeros(len(old), places.total, dtype)
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
    sparse = ~dense & (old[:, CENTRE] == 0.0)
    scales = zip(old[:, SCALE], sparse, strict=True)
    x[:, int(places.per_scale)] = [quick_scale(m) if quick else 0.0 for m, quick in scales]
    return {"features.record": record, "features.x": x, "features.theta": old[:, THETA : THETA + scores].copy()}


def _old_columns(classes: int | None, experts: int, dtype: Any) -> tuple[int, int, int, int]:
    """The columns of q_j, of the weights and of the coin in a block of version 1, and its width."""
    if classes is None:
        return 12, 16, 24, 32
    size = np.dtype(dtype).itemsize
    line, curve = CACHE_LINE // size, (THETA + classes) * 8 // size
    first = -(-(curve + 3) // line) * line
    coin = first + classes * experts
    return curve, first, coin, -(-(coin + 3 * classes) // line) * line
