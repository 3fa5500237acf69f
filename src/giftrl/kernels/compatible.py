"""Which parts go together in the compiled learners; no learner has to be built to ask."""

import math
from typing import Any

from giftrl.errors import Incompatible
from giftrl.ops.vector_loss import multiclass
from giftrl.regularizers.contract import centred, l1_strength, require_diagonal, strength
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.schedules.contract import known_ahead as lam_known_ahead
from giftrl.schedules.contract import uses_gamma
from giftrl.updates.contract import check_loss, check_scores

__all__ = ["check_parts"]


def check_parts(loss: Any, regularizer: Any, update: Any, schedule: Any) -> bool:
    """Whether the update of a learner made of these parts uses H; raise where they do not go together.

    >>> from giftrl import losses, regularizers, schedules, updates
    >>> check_parts(losses.Hinge(), regularizers.AdaGrad(), updates.Proximal(), schedules.Constant())
    False
    """
    require_diagonal("regularizer", regularizer)
    check_loss(update, loss, black_box=False)
    if multiclass(loss):
        check_scores(update)
        if l1_strength(regularizer) > 0.0:
            raise Incompatible(
                f"{loss!r} takes all scores in one step, which {regularizer!r} with its L1 term splits; use a "
                "regularizer without L1, or one class against the rest"
            )
    uniform = psi_known_ahead(regularizer)
    ahead = uniform and lam_known_ahead(schedule)
    wanted = getattr(update, "lookahead", None)
    if wanted and not ahead:
        raise Incompatible(
            f"lookahead=True uses the next regularizer, which is not known in time with {regularizer!r} and "
            f"{schedule!r}; use lookahead=False or None"
        )
    if uses_gamma(schedule) and not centred(regularizer):
        if not lam_known_ahead(schedule):
            raise Incompatible(
                f"{schedule!r} needs the next point before the next lambda, and with {regularizer!r} the next point "
                "depends on it; use Centred(...) around the regularizer, or TemporalVariability"
            )
        homogeneous = all(
            math.isclose(strength(regularizer, 2.0, q), 2.0 * strength(regularizer, 1.0, q)) for q in (0.0, 1.0, 100.0)
        )
        if not uniform and not homogeneous:
            raise Incompatible(
                f"{schedule!r} needs the distance that all coordinates move, which takes a walk over all of them when "
                f"{regularizer!r} does not scale with lambda; use l2=0, Centred(...), another schedule, or Learner"
            )
    return bool(ahead if wanted is None else wanted)
