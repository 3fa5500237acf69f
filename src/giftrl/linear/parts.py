"""From the parameters of an estimator to the parts of a learner."""

from typing import Any

from giftrl import losses, regularizers, schedules, updates
from giftrl.errors import InvalidInput, require
from giftrl.ops.names import Names

__all__ = ["CLASSIFIER_LOSSES", "Parts", "make_parts"]

#: Every loss that a classifier can name: those of one score for labels -1 and +1, and those of a score for each class.
CLASSIFIER_LOSSES = Names("loss", **losses.BY_NAME, **losses.MULTICLASS)


class Parts:
    """The members that an estimator's parameters name.

    >>> parts = make_parts(losses.BY_NAME, "logistic", "proximal", None, "squared_norm", "temporal", 2.0, None)
    >>> parts.schedule
    TemporalVariability(beta=2.0, gradient_bound=1.0, floor=0.0)
    """

    def __init__(self, loss: Any, update: Any, regularizer: Any, schedule: Any) -> None:
        self.loss = loss
        self.update = update
        self.regularizer = regularizer
        self.schedule = schedule


def make_parts(
    names: Names,
    loss: Any,
    update: Any,
    lookahead: bool | None,
    regularizer: Any,
    schedule: Any,
    beta: float,
    gradient_bound: float | None,
) -> Parts:
    """The parts, made by name or taken as they are; two answers to one question are an error."""
    return Parts(
        loss=names.member(loss, "slope"),
        update=_update(update, lookahead),
        regularizer=_regularizer(regularizer, schedule, gradient_bound),
        schedule=_schedule(schedule, beta, gradient_bound),
    )


def _update(update: Any, lookahead: Any) -> Any:
    require(
        lookahead is None or isinstance(lookahead, bool),
        "lookahead", lookahead, "must be True, False or None", "None uses H where the next regularizer is known",
    )  # fmt: skip
    found = updates.BY_NAME.member(update, "pick")
    if lookahead is None or getattr(found, "lookahead", None) == lookahead:
        return found
    if isinstance(update, str):
        return found._replace(lookahead=lookahead)
    rule = f"must not contradict the update, which is {update!r}"
    raise InvalidInput("lookahead", lookahead, rule, "set it on the update alone")


def _schedule(schedule: Any, beta: float, gradient_bound: float | None) -> Any:
    if not isinstance(schedule, str):
        found = schedules.BY_NAME.member(schedule, "lam")
        require(beta == 1.0, "beta", beta, f"must not contradict the schedule {found!r}", "set it on the schedule")
        return found
    _known(schedules.BY_NAME, schedule)
    parameters = {"beta": beta}
    if gradient_bound is not None and _takes_bound(schedules.BY_NAME, schedule):
        parameters["gradient_bound"] = gradient_bound
    return schedules.BY_NAME.make(schedule, **parameters)


def _regularizer(regularizer: Any, schedule: Any, gradient_bound: float | None) -> Any:
    found = regularizers.BY_NAME.member(regularizer, "strength", "start")
    if gradient_bound is None:
        return found
    by_regularizer = _takes_bound(regularizers.BY_NAME, regularizer)
    require(
        by_regularizer or _takes_bound(schedules.BY_NAME, schedule),
        "gradient_bound", gradient_bound,
        f"must be left out where neither the schedule ({schedule!r}) nor the regularizer ({regularizer!r}) is the name "
        "of one that has a gradient bound",
        "leave it out, or set it on the object that you pass",
    )  # fmt: skip
    return found._replace(gradient_bound=gradient_bound) if by_regularizer else found


def _known(names: Names, name: str) -> None:
    if name not in names:
        names.make(name)  # raises, with the nearest name


def _takes_bound(names: Names, given: Any) -> bool:
    return isinstance(given, str) and given in names and "gradient_bound" in getattr(names[given], "_fields", ())
