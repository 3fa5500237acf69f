"""The state of a learner as a file keeps it: without the features that it has not seen."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.kernels.base import NonzeroRows
from giftrl.kernels.engine import Engine
from giftrl.mixtures.feature_state import DENSE
from giftrl.models.upgrade import arrays_of_now
from giftrl.recipes.learners import Learner

Arrays = dict[str, NDArray[Any]]
#: What a mixture keeps for each dense feature.
OF_DENSE = ("features.dense", "features.stamps")
#: What it keeps for each feature in later passes.
CHANGES = "later.changes"
#: What witnesses keep for each feature, once there are rows that they do not keep.
WITNESSES = "witnesses.record"
#: What theta has more than the stored theta, after a merge.
AHEAD = "ahead"


def _names(learner: Learner) -> tuple[str, str, tuple[str, ...]]:
    """An array with a row for each feature; beside it in the file, which features those are; and others like it.

    No row of these others is written to unless one of the first is.
    """
    if isinstance(learner, Engine):
        return "coordinates", "coordinates.seen", ()
    return "features.x", "features.seen", ("features.record", "features.theta", CHANGES)


def pack(learner: Learner, dimension: int) -> Arrays:
    """The state of a learner of which this many features are in use; features that were never seen are left out.

    >>> from giftrl.mixtures import MixtureLearner
    >>> learner = MixtureLearner(1000, "squared", compiled=False)
    >>> _ = learner.learn(np.eye(2, 1000), [1.0, 2.0])
    >>> pack(learner, 1000)["features.seen"].tolist()
    [0, 1]
    """
    state = learner.state()
    name, seen, others = _names(learner)
    kept = NonzeroRows.of(state[name][: max(1, dimension)])
    if isinstance(learner, Engine):
        # When norms are counted anew depends on the number of rows, so the last one tells how many there are.
        last = kept.length - 1
        where = kept.where if last in kept.where[-1:] else np.append(kept.where, last)
        kept = NonzeroRows(state[name][where], where, kept.length)
    else:
        dense = int(state["features.counts"][DENSE])
        state |= {each: state[each][:dense] for each in OF_DENSE}
        state |= {each: state[each][kept.where] for each in others if each in state}
    for each in (WITNESSES, AHEAD):
        if each in state and len(state[each]):
            own = NonzeroRows.of(state[each][: kept.length])
            state |= {each: own.rows, f"{each}.seen": own.where}
    return state | {name: kept.rows, seen: kept.where}


def unpack(learner: Learner, dimension: int, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """What :func:`pack` was given, for ``learner.restore``.

    >>> from giftrl.mixtures import MixtureLearner
    >>> learner = MixtureLearner(1000, "squared", compiled=False)
    >>> _ = learner.learn(np.eye(2, 1000), [1.0, 2.0])
    >>> unpack(learner, 1000, pack(learner, 1000))["features.x"].shape
    (1000, 16)
    """
    state = arrays_of_now(learner, arrays)
    name, seen, others = _names(learner)
    where = state.pop(seen)
    rows = dimension if not isinstance(learner, Engine) or not len(where) else min(dimension, int(where[-1]) + 1)
    for each in (name, *others):
        if each in state:
            state[each] = NonzeroRows(state[each], where, rows).array()
    for each in (WITNESSES, AHEAD):
        if f"{each}.seen" in state:
            state[each] = NonzeroRows(state[each], state.pop(f"{each}.seen"), rows).array()
    return state
