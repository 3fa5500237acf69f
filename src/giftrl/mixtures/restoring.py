"""The check of a stored state before a learner goes on from it: compiled loops use its numbers as indices."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.mixtures import labels as unit
from giftrl.mixtures.combination import GAP, LAST_GAP, ROUNDS, WEIGHT
from giftrl.mixtures.feature_state import COUNT, DENSE, DENSE_PLACE, PLACE, SCALE
from giftrl.mixtures.late_updates import LATE
from giftrl.mixtures.later import Later

Arrays = Mapping[str, NDArray[Any]]

#: Arrays whose length may differ from that of a new learner: they grow with the features.
OF_FEATURES = ("features.record", "features.x", "features.theta")
GROWING = (*OF_FEATURES, "features.dense", "features.stamps")
#: Arrays with entries that may be infinite, and the entries that may not: a range of labels without end, the totals of
#: what is not in the mixture, and sums beyond float64 are infinite.
MUST_BE_FINITE: dict[str, list[int]] = {
    "mixing.units": [entry for entry in range(unit.SIZE) if entry not in (unit.LOW, unit.HIGH)],
    "mixing.totals": [],
    "mixing.candidates": [0],
    "mixing.sums": [GAP, LAST_GAP, ROUNDS, WEIGHT],
}


def unsound(learner: Any, state: Arrays) -> str | None:
    """The name of an array with which a mixture cannot go on, or None."""
    own: Arrays = learner.own_state()
    for name in own:
        if name not in state or not _fits(name, own[name], state[name]):
            return name
    if not np.isfinite(state["mixing.totals"]).any():
        return "mixing.totals"
    if len({len(state[name]) for name in OF_FEATURES}) > 1 or not _sound_record(learner, state):
        return "features.record"
    if not 0 <= state["matrix.waiting"][0] < LATE:
        return "matrix.waiting"
    if not _sound_dense(learner, state):
        return "features.dense"
    return None if _sound_later(learner, state) else "later.changes"


def _fits(name: str, mine: NDArray[Any], given: NDArray[Any]) -> bool:
    """Whether an array has the type and shape that it has in a new learner, and no number that it must not have."""
    first = 1 if name in GROWING else 0
    if given.dtype != mine.dtype or given.ndim != mine.ndim or given.shape[first:] != mine.shape[first:]:
        return False
    if name == "features.theta":  # infinite where it is no longer certified
        return not np.isnan(given).any()
    if name in MUST_BE_FINITE:
        return not np.isnan(given).any() and bool(np.isfinite(given[MUST_BE_FINITE[name]]).all())
    return bool(np.isfinite(given).all())


def _sound_later(learner: Any, state: Arrays) -> bool:
    """Whether the sums of later passes, if there are any, are numbers, and as many as there are weights."""
    given = {name: state[f"later.{name}"] for name in Later._fields if f"later.{name}" in state}
    if not given:
        return True
    shapes = {
        "changes": (len(state["features.record"]), int(learner.places.curve) - int(learner.places.lanes)),
        "matrix": learner.matrix.x.shape,
        "rounds": (1,),
    }
    types = {"changes": learner.dtype, "matrix": np.float64, "rounds": np.float64}
    fit = {name: array.shape == shapes[name] and array.dtype == types[name] for name, array in given.items()}
    return len(fit) == len(shapes) and all(fit.values()) and all(not np.isnan(array).any() for array in given.values())


def _sound_dense(learner: Any, state: Arrays) -> bool:
    """Whether the list of dense features and the records of features agree about who is in it."""
    record, dense, stamps = (state[f"features.{name}"] for name in ("record", "dense", "stamps"))
    total = float(state["features.counts"][DENSE])
    if total != int(total) or not 0 <= total <= len(dense) == len(stamps) or len(record) <= (learner.constant or 0):
        return False
    listed = dense[: int(total)]
    if len(np.flatnonzero(record[:, DENSE_PLACE])) != len(listed) or bool((listed >= len(record)).any()):
        return False
    return np.array_equal(record[listed.astype(np.int64), DENSE_PLACE], np.arange(1.0, total + 1.0))


def _sound_record(learner: Any, state: Arrays) -> bool:
    """Whether scales and counts are not negative, and features have places that the full matrix has."""
    record, size, places = state["features.record"], int(state["matrix.size"][0]), len(learner.matrix.x)
    count = state["features.x"][:, int(learner.places.count)]
    if (record[:, [SCALE, COUNT]] < 0.0).any() or (count < 0.0).any():
        return False
    taken = record[record[:, PLACE] != 0.0, PLACE]
    inside = bool(((taken >= 1) & (taken <= places) & (taken == np.floor(taken))).all())
    whole = -1 <= size <= places and (size < 0 or size == len(taken))
    return inside and whole and bool((np.diff(np.sort(taken)) > 0.0).all())
