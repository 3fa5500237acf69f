"""Whether a stored state can be gone on from: compiled loops believe what it says about places."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require
from giftrl.mixtures import labels as unit
from giftrl.mixtures import rounds
from giftrl.mixtures.features import COUNT, DENSE, SCALE
from giftrl.mixtures.features import PLACE as DENSE_PLACE
from giftrl.mixtures.layout import COIN, PLACE, THETA

__all__ = ["check_state"]

#: Arrays of which only the last dimensions, this many, must have the length that they have in a new learner.
FREE = {"features.record": 1, "features.dense": 0, "features.stamps": 0}
#: Where a number may be infinite: ranges, the totals of experts that are not there, sums beyond float64.
MAY_BE_INFINITE = ("mixing.units", "mixing.totals", "mixing.candidates", "mixing.sums")


def check_state(learner: Any, state: Mapping[str, NDArray[Any]]) -> None:
    """Raise unless these are the arrays of a learner with the parts of this one."""
    for name, mine in learner.state().items():
        _require(learner, name in state, name)
        found = state[name]
        kept = FREE.get(name, mine.ndim)
        fits = found.dtype == mine.dtype and found.ndim == mine.ndim
        _require(learner, fits and found.shape[mine.ndim - kept :] == mine.shape[mine.ndim - kept :], name)
        if name == "features.record":
            continue
        bad = np.isnan(found) if name in MAY_BE_INFINITE else ~np.isfinite(found)
        _require(learner, not bool(bad.any()), name)
    _require(learner, _sound_record(learner, state), "features.record")
    totals, candidates, sums = (state[f"mixing.{name}"] for name in ("totals", "candidates", "sums"))
    counted = bool(np.isfinite(sums[[rounds.GAP, rounds.LAST_GAP, rounds.ROUNDS, rounds.WEIGHT]]).all())
    there = bool(np.isfinite(totals).any() and np.isfinite(candidates[:1]).all())
    _require(learner, counted and there, "mixing.totals")
    known = np.delete(state["mixing.units"], [unit.LOW, unit.HIGH])
    _require(learner, bool(np.isfinite(known).all()), "mixing.units")


def _require(learner: Any, good: bool, name: str) -> None:
    require(good, "state", name, f"must be that of {learner!r}", "use the parts that it was made with")


def _sound_record(learner: Any, state: Mapping[str, NDArray[Any]]) -> bool:
    record, dense, stamps = (state[f"features.{name}"] for name in ("record", "dense", "stamps"))
    total = float(state["features.counts"][DENSE])
    if len(record) <= (learner.constant or 0) or not np.isfinite(record[:, :THETA]).all():
        return False
    if np.isnan(record[:, THETA]).any() or (record[:, [SCALE, COUNT]] < 0.0).any():
        return False
    if total != int(total) or not 0 <= total <= len(dense) or len(dense) != len(stamps):
        return False
    n = int(total)
    places = np.flatnonzero(record[:, DENSE_PLACE])
    if len(places) != n or bool((dense[:n] >= len(record)).any()):
        return False
    if not np.array_equal(record[dense[:n].astype(np.int64), DENSE_PLACE], np.arange(1.0, n + 1.0)):
        return False
    weights = np.ascontiguousarray(record).view(learner.dtype)
    if not np.isfinite(weights[:, PLACE - 2 : COIN + 3]).all():
        return False
    taken = weights[:, PLACE]
    taken = taken[taken != 0.0]
    most = len(learner.matrix.x)
    size = int(state["matrix.size"][0])
    whole = bool((taken == np.floor(taken)).all()) and len(np.unique(taken)) == len(taken)
    return (
        whole
        and -1 <= size <= most
        and (len(taken) == 0 or bool(taken.min() >= 1 and taken.max() <= most))
        and (size < 0 or len(taken) == size)
    )
