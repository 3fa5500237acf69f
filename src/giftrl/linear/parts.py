"""From the parameters of an estimator to what it learns with: a mixture, or the parts of one learner."""

from numbers import Real
from typing import Any, NamedTuple

from giftrl import regularizers, schedules, updates
from giftrl.errors import InvalidInput, require
from giftrl.mixtures.presets import preset as known_preset
from giftrl.ops.names import Names

__all__ = ["AUTO", "Mixed", "Parts", "make_parts"]

#: The beta of a learner that needs none.
AUTO = "auto"
#: What the parts are where a beta is given and they are not.
UPDATE, REGULARIZER, SCHEDULE = "proximal", "squared_norm", "temporal"


class Parts(NamedTuple):
    """The members that an estimator's parameters name, where beta is a number.

    >>> from giftrl import losses
    >>> make_parts(losses.BY_NAME, "logistic", beta=2.0).schedule
    TemporalVariability(beta=2.0, gradient_bound=1.0, floor=0.0)
    """

    loss: Any
    update: Any
    regularizer: Any
    schedule: Any


class Mixed(NamedTuple):
    """What a mixture is made of, where beta is "auto".

    >>> from giftrl import losses
    >>> make_parts(losses.BY_NAME, "logistic", preset="light")
    Mixed(loss=Logistic(), preset='light')
    """

    loss: Any
    preset: str


def make_parts(
    names: Names,
    loss: Any,
    update: Any = None,
    lookahead: bool | None = None,
    regularizer: Any = None,
    schedule: Any = None,
    beta: Any = AUTO,
    preset: str = "default",
    gradient_bound: float | None = None,
) -> Parts | Mixed:
    """The parts, made by name or taken as they are; two answers to one question are an error."""
    if isinstance(beta, str) and beta == AUTO:
        given = {
            "update": update, "lookahead": lookahead, "regularizer": regularizer, "schedule": schedule,
            "gradient_bound": gradient_bound,
        }  # fmt: skip
        for name, value in given.items():
            rule = f"must be None where beta={AUTO!r}, which chooses the parts as it learns"
            require(value is None, name, value, rule, "give a beta, such as beta=1.0, to choose the parts yourself")
        known_preset(preset)  # raises, with the nearest name
        return Mixed(names.member(loss, "slope"), preset)
    number = isinstance(beta, Real) and not isinstance(beta, bool)
    require(number, "beta", beta, f"must be {AUTO!r} or a positive number", f"beta={AUTO!r} needs no choice")
    require(
        preset == "default",
        "preset", preset, f"is of beta={AUTO!r}, and beta is {beta!r}", f"leave one of them out, or use beta={AUTO!r}",
    )  # fmt: skip
    schedule = SCHEDULE if schedule is None else schedule
    regularizer = REGULARIZER if regularizer is None else regularizer
    return Parts(
        loss=names.member(loss, "slope"),
        update=_update(UPDATE if update is None else update, lookahead),
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
        rule = f"must not contradict the schedule {found!r}, which has its own"
        require(beta == 1.0, "beta", beta, rule, "set it on the schedule, and give beta=1.0")
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
