"""The state of a learner as a file keeps it: without the features that it has not seen."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.kernels.engine import Engine
from giftrl.kernels.touched import Touched
from giftrl.mixtures.features import DENSE
from giftrl.recipes.learners import Learner

Arrays = dict[str, NDArray[Any]]
#: What a mixture keeps for each dense feature.
OF_DENSE = ("features.dense", "features.stamps")
#: What it keeps for each feature in later passes.
CHANGES = "later.changes"
#: What witnesses keep for each feature, once there are rows that they do not keep.
WITNESSES = "witnesses.record"


def _names(learner: Learner) -> tuple[str, str]:
    """The array with a row for each feature; and, beside it in the file, which features those are."""
    return ("coordinates", "coordinates.seen") if isinstance(learner, Engine) else ("features.record", "features.seen")


def pack(learner: Learner, dimension: int) -> Arrays:
    """The state of a learner of which this many features are in use; features that were never seen are left out.

    >>> from giftrl.mixtures import MixtureLearner
    >>> learner = MixtureLearner(1000, "squared", compiled=False)
    >>> _ = learner.learn(np.eye(2, 1000), [1.0, 2.0])
    >>> pack(learner, 1000)["features.seen"].tolist()
    [0, 1]
    """
    state = learner.state()
    name, seen = _names(learner)
    kept = Touched.of(state[name][: max(1, dimension)])
    if isinstance(learner, Engine):
        # When norms are counted anew depends on the number of rows, so the last one tells how many there are.
        last = kept.length - 1
        where = kept.where if last in kept.where[-1:] else np.append(kept.where, last)
        kept = Touched(state[name][where], where, kept.length)
    else:
        dense = int(state["features.counts"][DENSE])
        state |= {each: state[each][:dense] for each in OF_DENSE}
        if CHANGES in state:  # a feature whose weights change has been seen
            state[CHANGES] = state[CHANGES][kept.where]
    if WITNESSES in state and len(state[WITNESSES]):
        committed = Touched.of(state[WITNESSES][: kept.length])
        state |= {WITNESSES: committed.rows, f"{WITNESSES}.seen": committed.where}
    return state | {name: kept.rows, seen: kept.where}


def unpack(learner: Learner, dimension: int, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """What :func:`pack` was given, for ``learner.restore``.

    >>> from giftrl.mixtures import MixtureLearner
    >>> learner = MixtureLearner(1000, "squared", compiled=False)
    >>> _ = learner.learn(np.eye(2, 1000), [1.0, 2.0])
    >>> unpack(learner, 1000, pack(learner, 1000))["features.record"].shape
    (1000, 16)
    """
    state = dict(arrays)
    name, seen = _names(learner)
    if seen in state or not isinstance(learner, Engine):  # version 1 kept the coordinates of every feature
        where = state.pop(seen)
        rows = dimension if not isinstance(learner, Engine) or not len(where) else min(dimension, int(where[-1]) + 1)
        state[name] = Touched(state[name], where, rows).array()
        if CHANGES in state:
            state[CHANGES] = Touched(state[CHANGES], where, rows).array()
        if f"{WITNESSES}.seen" in state:
            state[WITNESSES] = Touched(state[WITNESSES], state.pop(f"{WITNESSES}.seen"), rows).array()
    return state
