"""Built-in updates and schedules as one type each, so that one compiled loop handles all.

Compiling a loop takes seconds, while a branch per example is cheap. So loops take a built-in update as an
:class:`AnyUpdate` and a built-in schedule as an :class:`AnySchedule`, selected by a code. Custom parts are passed
unchanged, and loops are compiled for their types.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from giftrl import schedules, updates
from giftrl.compiled.registry import operation
from giftrl.schedules.contract import evidence, known_ahead, lam, uses_gamma
from giftrl.updates.contract import minimises, pick, pick_scores

__all__ = [
    "AnySchedule", "AnyUpdate", "Schedules", "encode_schedule", "encode_update", "evidence", "known_ahead", "lam",
    "minimises", "of_model", "pick", "pick_scores", "uses_gamma",
]  # fmt: skip


def by_code(cls: type[Any], header: str, body: str, parts: Sequence[str]) -> None:
    """Add a method that dispatches to one of several parts by ``self.code`` from 0. It is generated as source, because
    each part has its own type: ``body`` is a line with ``{}`` in the place of the
    part, and ``parts`` are expressions in the order of their codes.
    """
    lines = [f"def {header}:", *(f"    if self.code == {code}: {body.format(part)}" for code, part in enumerate(parts))]
    lines[-1] = f"    {body.format(parts[-1])}"
    made: dict[str, Any] = {}
    exec(compile("\n".join(lines), __file__, "exec"), globals(), made)
    for name, method in made.items():
        setattr(cls, name, method)


def _switches(update: Any) -> tuple[str, ...]:
    """The Boolean fields except ``lookahead``, which selects the line."""
    fields = type(update)._field_defaults
    return tuple(name for name, default in fields.items() if isinstance(default, bool) and name != "lookahead")


def _variants() -> Iterator[Any]:
    """Every built-in update with every combination of its switches."""
    for cls in updates.BY_NAME.values():
        switches = _switches(cls())
        for values in itertools.product((False, True), repeat=len(switches)):
            yield cls(lookahead=False, **dict(zip(switches, values, strict=True)))


def _key(update: Any) -> Any:
    """The type and the switches of an update."""
    return type(update), *(getattr(update, name) for name in _switches(update))


#: The names of the variants in the order of their codes, and the codes.
VARIANTS = [f"VARIANT_{code}" for code, _ in enumerate(_variants())]
CODES = {_key(update): code for code, update in enumerate(_variants())}
globals().update(zip(VARIANTS, _variants(), strict=True))


class AnyUpdate(NamedTuple):
    """A built-in update by its code."""

    code: int


by_code(AnyUpdate, "minimises(self)", "return minimises({})", VARIANTS)
by_code(AnyUpdate, "pick(self, loss, y, p, line)", "return pick({}, loss, y, p, line)", VARIANTS)
_SCORES = "loss, problem, out, work"
by_code(AnyUpdate, f"pick_scores(self, {_SCORES})", f"return pick_scores({{}}, {_SCORES})", VARIANTS)


def encode_update(update: Any) -> Any:
    """Convert a built-in update to :class:`AnyUpdate`; others are returned unchanged."""
    return AnyUpdate(CODES[_key(update)]) if type(update) in updates.BY_NAME.values() else update


#: The built-in schedules, in the order of their codes. All their fields are numbers.
SCHEDULE_TYPES: tuple[type[Any], ...] = tuple(schedules.BY_NAME.values())
globals().update({cls.__name__: cls for cls in SCHEDULE_TYPES})
#: The largest number of fields of a schedule.
MAX_FIELDS = max(len(cls._fields) for cls in SCHEDULE_TYPES)


class AnySchedule(NamedTuple):
    """A built-in schedule by its code and its fields, padded with 1."""

    code: int
    numbers: tuple[float, ...]


class Schedules(NamedTuple):
    """Built-in schedules of one kind for several models: a column of parameters for each."""

    code: int
    numbers: Any


def _schedules(number: str) -> list[str]:
    """Source expressions that create each schedule; takes the expression of its k-th parameter."""
    calls = ((cls.__name__, ", ".join(number.format(k) for k in range(len(cls._fields)))) for cls in SCHEDULE_TYPES)
    return [f"{name}({numbers})" for name, numbers in calls]


for _cls in (AnySchedule, Schedules):
    by_code(_cls, "known_ahead(self)", "return known_ahead({})", _schedules("1.0"))
    by_code(_cls, "uses_gamma(self)", "return uses_gamma({})", _schedules("1.0"))
by_code(AnySchedule, "lam(self, t, total)", "return lam({}, t, total)", _schedules("self.numbers[{}]"))
by_code(AnySchedule, "evidence(self, gamma, z2)", "return evidence({}, gamma, z2)", _schedules("self.numbers[{}]"))
_COLUMN = ", ".join(f"self.numbers[{k}, m]" for k in range(MAX_FIELDS))
by_code(Schedules, "of_model(self, m)", "return {}", [f"AnySchedule(self.code, ({_COLUMN},))"])


@operation
def of_model(schedules: Any, m: int) -> Any:
    """The schedule of model m; a custom schedule is shared by all models."""
    return schedules


def encode_schedule(schedule: Any) -> Any:
    """Convert a built-in schedule to :class:`AnySchedule`; others are returned unchanged."""
    if type(schedule) not in SCHEDULE_TYPES:
        return schedule
    numbers = [float(number) for number in schedule]
    return AnySchedule(SCHEDULE_TYPES.index(type(schedule)), tuple(numbers + [1.0] * (MAX_FIELDS - len(numbers))))
