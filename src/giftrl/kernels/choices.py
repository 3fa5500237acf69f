"""The built-in updates and schedules as values: a number says which, so that one compiled loop serves them all.

A branch for each example costs nothing beside the loop over its features, and a specialisation costs seconds to
compile. An update or schedule that is not built in is passed to the loop as it is, and gets a specialisation of its
own.
"""

from typing import Any, NamedTuple

from giftrl.schedules import AdaGradNorm, AdaImplicit, Constant, SquareRoot, TemporalVariability
from giftrl.schedules import contract as schedule_ops
from giftrl.updates import ImportanceAware, Linear, Proximal, Truncated, TwoStep
from giftrl.updates.contract import pick

__all__ = ["AnySchedule", "AnyUpdate", "encode_schedule", "encode_update"]

LINEAR = Linear(False)
PROXIMAL = Proximal(False)
TWO_STEP = TwoStep(False, False)
TWO_STEP_SAFE = TwoStep(False, True)
TRUNCATED = Truncated(False)
IMPORTANCE_AWARE = ImportanceAware(False)
UPDATES = (LINEAR, PROXIMAL, TWO_STEP, TWO_STEP_SAFE, TRUNCATED, IMPORTANCE_AWARE)


class AnyUpdate(NamedTuple):
    """A built-in update by its number; look-ahead is the loop's business, which picks the line."""

    code: int

    def pick(self, loss: Any, y: float, p: float, line: Any) -> float:
        if self.code == 0:
            return pick(LINEAR, loss, y, p, line)
        if self.code == 1:
            return pick(PROXIMAL, loss, y, p, line)
        if self.code == 2:
            return pick(TWO_STEP, loss, y, p, line)
        if self.code == 3:
            return pick(TWO_STEP_SAFE, loss, y, p, line)
        if self.code == 4:
            return pick(TRUNCATED, loss, y, p, line)
        return pick(IMPORTANCE_AWARE, loss, y, p, line)

    def minimises(self) -> bool:
        return self.code == 1


class AnySchedule(NamedTuple):
    """A built-in schedule by its number and parameters."""

    code: int
    beta: float
    gradient_bound: float
    floor: float

    def lam(self, t: int, total: float) -> float:
        if self.code == 0:
            return schedule_ops.lam(Constant(self.beta), t, total)
        if self.code == 1:
            return schedule_ops.lam(SquareRoot(self.beta), t, total)
        if self.code == 2:
            return schedule_ops.lam(AdaGradNorm(self.beta, self.gradient_bound), t, total)
        if self.code == 3:
            return schedule_ops.lam(TemporalVariability(self.beta, self.gradient_bound, self.floor), t, total)
        return schedule_ops.lam(AdaImplicit(self.beta, self.gradient_bound), t, total)

    def evidence(self, gamma: float, z_norm_squared: float) -> float:
        if self.code == 2:
            bound = self.gradient_bound
            return schedule_ops.evidence(AdaGradNorm(self.beta, bound), gamma, z_norm_squared)
        if self.code == 3:
            temporal = TemporalVariability(self.beta, self.gradient_bound, self.floor)
            return schedule_ops.evidence(temporal, gamma, z_norm_squared)
        if self.code == 4:
            return schedule_ops.evidence(AdaImplicit(self.beta, self.gradient_bound), gamma, z_norm_squared)
        return 0.0

    def known_ahead(self) -> bool:
        return self.code not in (2, 4)

    def uses_gamma(self) -> bool:
        return self.code in (3, 4)


def encode_update(update: Any) -> Any:
    """A built-in update as :class:`AnyUpdate`; any other as it is.

    >>> encode_update(Truncated())
    AnyUpdate(code=4)
    """
    for code, known in enumerate(UPDATES):
        if type(update) is type(known) and getattr(update, "safeguard", None) == getattr(known, "safeguard", None):
            return AnyUpdate(code)
    return update


def encode_schedule(schedule: Any) -> Any:
    """A built-in schedule as :class:`AnySchedule`; any other as it is.

    >>> encode_schedule(SquareRoot(2.0))
    AnySchedule(code=1, beta=2.0, gradient_bound=1.0, floor=0.0)
    """
    kinds: tuple[Any, ...] = (Constant, SquareRoot, AdaGradNorm, TemporalVariability, AdaImplicit)
    for code, kind in enumerate(kinds):
        if type(schedule) is kind:
            bound, floor = getattr(schedule, "gradient_bound", 1.0), getattr(schedule, "floor", 0.0)
            return AnySchedule(code, float(schedule.beta), float(bound), float(floor))
    return schedule
