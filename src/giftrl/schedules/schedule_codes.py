"""The built-in schedules as one type, so that one compiled loop serves them all.

The loops take a built-in schedule as an :class:`AnySchedule`, as they do updates (:mod:`giftrl.updates.update_codes`).
They are compiled for the type of any other.
"""

from enum import IntEnum
from typing import Any, NamedTuple

from giftrl.schedules.ada_implicit import AdaImplicit
from giftrl.schedules.adagrad_norm import AdaGradNorm
from giftrl.schedules.constant import Constant
from giftrl.schedules.contract import evidence, lam
from giftrl.schedules.square_root import SquareRoot
from giftrl.schedules.temporal_variability import TemporalVariability


class ScheduleCode(IntEnum):
    """The numbers of the built-in schedules."""

    CONSTANT = 0
    SQUARE_ROOT = 1
    ADAGRAD_NORM = 2
    TEMPORAL_VARIABILITY = 3
    ADA_IMPLICIT = 4


#: In the order of their numbers.
TYPES: tuple[type[Any], ...] = (Constant, SquareRoot, AdaGradNorm, TemporalVariability, AdaImplicit)


class AnySchedule(NamedTuple):
    """A built-in schedule by its number and parameters.

    >>> AnySchedule(int(ScheduleCode.SQUARE_ROOT), 2.0, 1.0, 0.0).lam(9, 0.0)
    1.5
    """

    code: int
    beta: float
    gradient_bound: float
    floor: float

    def lam(self, t: int, total: float) -> float:
        if self.code == ScheduleCode.CONSTANT:
            return lam(Constant(self.beta), t, total)
        if self.code == ScheduleCode.SQUARE_ROOT:
            return lam(SquareRoot(self.beta), t, total)
        if self.code == ScheduleCode.ADAGRAD_NORM:
            return lam(AdaGradNorm(self.beta, self.gradient_bound), t, total)
        if self.code == ScheduleCode.TEMPORAL_VARIABILITY:
            return lam(TemporalVariability(self.beta, self.gradient_bound, self.floor), t, total)
        return lam(AdaImplicit(self.beta, self.gradient_bound), t, total)

    def evidence(self, gamma: float, z_norm_squared: float) -> float:
        if self.code == ScheduleCode.ADAGRAD_NORM:
            return evidence(AdaGradNorm(self.beta, self.gradient_bound), gamma, z_norm_squared)
        if self.code == ScheduleCode.TEMPORAL_VARIABILITY:
            return evidence(TemporalVariability(self.beta, self.gradient_bound, self.floor), gamma, z_norm_squared)
        if self.code == ScheduleCode.ADA_IMPLICIT:
            return evidence(AdaImplicit(self.beta, self.gradient_bound), gamma, z_norm_squared)
        return 0.0

    def known_ahead(self) -> bool:
        return self.code != ScheduleCode.ADAGRAD_NORM and self.code != ScheduleCode.ADA_IMPLICIT

    def uses_gamma(self) -> bool:
        return self.code == ScheduleCode.TEMPORAL_VARIABILITY or self.code == ScheduleCode.ADA_IMPLICIT


def encode_schedule(schedule: Any) -> Any:
    """A built-in schedule as :class:`AnySchedule`, and any other as it is."""
    if type(schedule) not in TYPES:
        return schedule
    bound, floor = getattr(schedule, "gradient_bound", 1.0), getattr(schedule, "floor", 0.0)
    return AnySchedule(TYPES.index(type(schedule)), float(schedule.beta), float(bound), float(floor))
