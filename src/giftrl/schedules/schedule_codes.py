"""The built-in schedules as one type, so that one compiled loop serves them all.

The loops take a built-in schedule as an :class:`AnySchedule`, as they do updates (:mod:`giftrl.updates.update_codes`).
They are compiled for the type of any other.
"""

from typing import Any, NamedTuple

from giftrl.compiled.registry import operation
from giftrl.ops.lookup import by_code
from giftrl.schedules import BY_NAME
from giftrl.schedules.contract import evidence, known_ahead, lam, uses_gamma

__all__ = ["AnySchedule", "Schedules", "encode_schedule", "evidence", "known_ahead", "lams", "of_model", "uses_gamma"]

#: The built-in schedules, in the order of their codes. All their fields are numbers.
TYPES: tuple[type[Any], ...] = tuple(BY_NAME.values())
globals().update({cls.__name__: cls for cls in TYPES})
#: How many numbers the schedule with the most fields has.
MAX_FIELDS = max(len(cls._fields) for cls in TYPES)


def _members(number: str) -> list[str]:
    """An expression of each schedule, from one of its k-th number."""
    return [f"{cls.__name__}({', '.join(number.format(k) for k in range(len(cls._fields)))})" for cls in TYPES]


class AnySchedule(NamedTuple):
    """A built-in schedule by its code and the numbers of its fields, filled up with 1."""

    code: int
    numbers: tuple[float, ...]


class Schedules(NamedTuple):
    """Built-in schedules of one kind, for models side by side: a column of numbers for each."""

    code: int
    numbers: Any


for _cls in (AnySchedule, Schedules):
    by_code(_cls, "known_ahead(self)", "return known_ahead({})", _members("1.0"), globals())
    by_code(_cls, "uses_gamma(self)", "return uses_gamma({})", _members("1.0"), globals())
_ONE, _EACH = _members("self.numbers[{}]"), _members("self.numbers[{}, m]")
by_code(AnySchedule, "lam(self, t, total)", "return lam({}, t, total)", _ONE, globals())
by_code(AnySchedule, "evidence(self, gamma, z2)", "return evidence({}, gamma, z2)", _ONE, globals())
# Branches outside of the loop: it then runs several models at a time.
_LOOP = "for m in range(len(out)):\n    out[m] = lam({}, t, totals[m])"
by_code(Schedules, "lams(self, t, totals, out)", _LOOP, _EACH, globals())
_COLUMN = f"({', '.join(f'self.numbers[{k}, m]' for k in range(MAX_FIELDS))},)"
by_code(Schedules, "of_model(self, m)", "return AnySchedule(self.code, {})", [_COLUMN] * len(TYPES), globals())


@operation
def lams(schedules: Any, t: int, totals: Any, out: Any) -> None:
    """lambda_t of each model, given the evidence so far."""
    for m in range(len(out)):
        out[m] = lam(schedules, t, totals[m])


@operation
def of_model(schedules: Any, m: int) -> Any:
    """The schedule of model m; a schedule of your own serves every model."""
    return schedules


def encode_schedule(schedule: Any) -> Any:
    """A built-in schedule as :class:`AnySchedule`, and any other as it is."""
    if type(schedule) not in TYPES:
        return schedule
    numbers = [float(number) for number in schedule]
    return AnySchedule(TYPES.index(type(schedule)), tuple(numbers + [1.0] * (MAX_FIELDS - len(numbers))))
