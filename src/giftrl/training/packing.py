"""The state of a learner as a file keeps it: without the room that it has for features that are yet to come."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require
from giftrl.kernels.engine import Engine
from giftrl.memory import zeros
from giftrl.mixtures.features import DENSE
from giftrl.recipes.learners import Learner

Arrays = dict[str, NDArray[Any]]
#: What a mixture keeps for every feature; and, beside it in the file, the features that it is kept for.
RECORD, SEEN = "features.record", "features.seen"
#: What it keeps for each dense feature.
OF_DENSE = ("features.dense", "features.stamps")


def pack(learner: Learner, dimension: int) -> Arrays:
    """The state of a learner of which this many features are in use.

    A mixture has 128 bytes or more for each coordinate, and most that hashing offers are never seen: they are left out.

    >>> from giftrl.mixtures import MixtureLearner
    >>> learner = MixtureLearner(1000, "squared", compiled=False)
    >>> _ = learner.learn(np.eye(2, 1000), [1.0, 2.0])
    >>> pack(learner, 1000)["features.seen"].tolist()
    [0, 1]
    """
    state = learner.state()
    if isinstance(learner, Engine):
        return state | {"coordinates": state["coordinates"][: max(1, dimension)]}
    record = state[RECORD][: max(1, dimension)]
    seen = np.flatnonzero(record.view(np.uint64).any(axis=1))
    dense = int(state["features.counts"][DENSE])
    return state | {name: state[name][:dense] for name in OF_DENSE} | {RECORD: record[seen], SEEN: seen}


def unpack(learner: Learner, dimension: int, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """What :func:`pack` was given, for ``learner.restore``.

    >>> from giftrl.mixtures import MixtureLearner
    >>> learner = MixtureLearner(1000, "squared", compiled=False)
    >>> _ = learner.learn(np.eye(2, 1000), [1.0, 2.0])
    >>> unpack(learner, 1000, pack(learner, 1000))["features.record"].shape
    (1000, 16)
    """
    state = dict(arrays)
    if isinstance(learner, Engine):
        return state
    seen, record = state.pop(SEEN), state[RECORD]
    sound = (
        seen.dtype == np.int64 and record.dtype == np.float64 and record.ndim == 2 and seen.shape == record.shape[:1]
    )
    inside = sound and bool((np.diff(seen, prepend=-1) > 0).all()) and bool((seen < dimension).all())
    require(inside, "state", SEEN, "must name features that are there, in order", "use another copy of the file")
    state[RECORD] = zeros((max(1, dimension), record.shape[1]))
    state[RECORD][seen] = record
    return state
