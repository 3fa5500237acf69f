"""The built-in updates as one type, so that one compiled loop serves them all.

Compiling a loop takes seconds, and a branch for each example costs nothing next to the loop over its features. So the
loops take a built-in update as an :class:`AnyUpdate`, which has its number. An update of your own is passed to the
loops as it is, and they are compiled for its type.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from giftrl.ops.lookup import by_code
from giftrl.updates import BY_NAME
from giftrl.updates.contract import minimises, pick, pick_scores

__all__ = ["AnyUpdate", "encode_update", "minimises", "pick", "pick_scores"]


def _switches(update: Any) -> tuple[str, ...]:
    """The fields that are True or False. A loop chooses the line by ``lookahead``, and needs no other field."""
    fields = type(update)._field_defaults
    return tuple(name for name, default in fields.items() if isinstance(default, bool) and name != "lookahead")


def _variants() -> Iterator[Any]:
    """Every built-in update with every combination of its switches."""
    for cls in BY_NAME.values():
        switches = _switches(cls())
        for values in itertools.product((False, True), repeat=len(switches)):
            yield cls(lookahead=False, **dict(zip(switches, values, strict=True)))


def _key(update: Any) -> Any:
    """The type and the switches of an update."""
    return type(update), *(getattr(update, name) for name in _switches(update))


#: The names of the variants in the order of their codes, and the codes.
NAMES = [f"VARIANT_{code}" for code, _ in enumerate(_variants())]
CODES = {_key(update): code for code, update in enumerate(_variants())}
globals().update(zip(NAMES, _variants(), strict=True))


class AnyUpdate(NamedTuple):
    """A built-in update by its number."""

    code: int


by_code(AnyUpdate, "minimises(self)", "return minimises({})", NAMES, globals())
by_code(AnyUpdate, "pick(self, loss, y, p, line)", "return pick({}, loss, y, p, line)", NAMES, globals())
_PICK_SCORES = "pick_scores(self, loss, problem, out, work)", "pick_scores({}, loss, problem, out, work)"
by_code(AnyUpdate, *_PICK_SCORES, NAMES, globals())


def encode_update(update: Any) -> Any:
    """A built-in update as :class:`AnyUpdate`, and any other as it is."""
    if type(update) not in BY_NAME.values():
        return update
    return AnyUpdate(CODES[_key(update)])
