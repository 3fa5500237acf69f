"""Which parts go together in the compiled learners; no learner has to be built to ask."""

from typing import Any

import numpy as np

from giftrl.errors import Incompatible
from giftrl.ops.vector_loss import multiclass
from giftrl.player import looks_ahead
from giftrl.regularizers.contract import centred, known_ahead, l1_strength, require_diagonal, strength
from giftrl.schedules.contract import uses_gamma
from giftrl.updates.contract import check_loss, check_scores

__all__ = ["check_parts"]


def check_parts(loss: Any, regularizer: Any, update: Any, schedule: Any) -> bool:
    """Whether the update of a learner made of these parts uses H; raise where they do not go together."""
    require_diagonal("regularizer", regularizer)
    check_loss(update, loss, black_box=False)
    if multiclass(loss):
        check_scores(update)
        if l1_strength(regularizer) > 0.0:
            raise Incompatible(
                f"{loss!r} takes all scores in one step, which {regularizer!r} with its L1 term splits; use a "
                "regularizer without L1, or one class against the rest"
            )
    ahead = looks_ahead(regularizer, update, schedule)
    if uses_gamma(schedule) and not centred(regularizer) and not known_ahead(regularizer):
        double = [strength(regularizer, 2.0, q) for q in (0.0, 1.0, 100.0)]
        if not np.allclose(double, [2.0 * strength(regularizer, 1.0, q) for q in (0.0, 1.0, 100.0)], 1e-9, 0.0):
            raise Incompatible(
                f"{schedule!r} needs the distance that all coordinates move, which takes a walk over all of them when "
                f"{regularizer!r} does not scale with lambda; use l2=0, Centred(...), another schedule, or Learner"
            )
    return ahead
