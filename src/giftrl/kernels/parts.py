"""What the loops get: the parts of a model, or of many models, and a batch of rows."""

from typing import Any, NamedTuple

from giftrl.compiled.registry import formula, operation
from giftrl.schedules.ada_implicit import AdaImplicit
from giftrl.schedules.adagrad_norm import AdaGradNorm
from giftrl.schedules.constant import Constant
from giftrl.schedules.contract import known_ahead, lam, uses_gamma
from giftrl.schedules.schedule_codes import AnySchedule, ScheduleCode
from giftrl.schedules.square_root import SquareRoot
from giftrl.schedules.temporal_variability import TemporalVariability


class Parts(NamedTuple):
    """What a model is made of."""

    loss: Any
    psi: Any
    update: Any
    schedule: Any
    ahead: Any  # whether the update uses H, or H'


class Batch(NamedTuple):
    """Rows of features with their labels and weights (empty where all are 1), and the array for the predictions."""

    rows: Any
    labels: Any
    weights: Any
    predictions: Any


class ManyParts(NamedTuple):
    """What models side by side are made of: all but the numbers of a built-in schedule is the same for all."""

    loss: Any
    psi: Any
    update: Any
    schedule: Any
    ahead: bool
    side: Any  # how many there are: see giftrl.kernels.sides


class Schedules(NamedTuple):
    """Built-in schedules of one kind. The rows of their parameters are beta, the gradient bound and the floor."""

    code: int
    parameters: Any

    def of_model(self, m: int) -> AnySchedule:
        return AnySchedule(self.code, self.parameters[0, m], self.parameters[1, m], self.parameters[2, m])

    def lams(self, t: int, totals: Any, out: Any) -> None:
        # Branches outside of the loops: these then run several models at a time.
        beta, bound, floor = self.parameters[0], self.parameters[1], self.parameters[2]
        if self.code == ScheduleCode.CONSTANT:
            for m in range(len(out)):
                out[m] = lam(Constant(beta[m]), t, totals[m])
        elif self.code == ScheduleCode.SQUARE_ROOT:
            for m in range(len(out)):
                out[m] = lam(SquareRoot(beta[m]), t, totals[m])
        elif self.code == ScheduleCode.ADAGRAD_NORM:
            for m in range(len(out)):
                out[m] = lam(AdaGradNorm(beta[m], bound[m]), t, totals[m])
        elif self.code == ScheduleCode.TEMPORAL_VARIABILITY:
            for m in range(len(out)):
                out[m] = lam(TemporalVariability(beta[m], bound[m], floor[m]), t, totals[m])
        else:
            for m in range(len(out)):
                out[m] = lam(AdaImplicit(beta[m], bound[m]), t, totals[m])

    def known_ahead(self) -> bool:
        return known_ahead(AnySchedule(self.code, 1.0, 1.0, 0.0))

    def uses_gamma(self) -> bool:
        return uses_gamma(AnySchedule(self.code, 1.0, 1.0, 0.0))


@operation
def lams(schedules: Any, t: int, totals: Any, out: Any) -> None:
    """lambda_t of each model, given the evidence so far."""
    for m in range(len(out)):
        out[m] = lam(schedules, t, totals[m])


@operation
def of_model(schedules: Any, m: int) -> Any:
    """The schedule of model m; one that is not built in is that of every model."""
    return schedules


@formula(fast=True)
def weight(weights: Any, i: int) -> float:
    """The weight of row i; none are given where all are 1."""
    return weights[i] if len(weights) > 0 else 1.0
