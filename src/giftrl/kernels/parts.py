"""What the loops get: the parts of a model, or of many models, and a batch of rows."""

from typing import Any, NamedTuple

from giftrl.compiled.registry import formula, operation
from giftrl.schedules.built_in import AnySchedule, ScheduleCode
from giftrl.schedules.contract import known_ahead, lam, uses_gamma


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
        # A branch outside of the loop: the loop then runs several models at a time.
        if self.code == ScheduleCode.CONSTANT:
            lams_of_code(ScheduleCode.CONSTANT, self.parameters, t, totals, out)
        elif self.code == ScheduleCode.SQUARE_ROOT:
            lams_of_code(ScheduleCode.SQUARE_ROOT, self.parameters, t, totals, out)
        elif self.code == ScheduleCode.ADAGRAD_NORM:
            lams_of_code(ScheduleCode.ADAGRAD_NORM, self.parameters, t, totals, out)
        elif self.code == ScheduleCode.TEMPORAL_VARIABILITY:
            lams_of_code(ScheduleCode.TEMPORAL_VARIABILITY, self.parameters, t, totals, out)
        else:
            lams_of_code(ScheduleCode.ADA_IMPLICIT, self.parameters, t, totals, out)

    def known_ahead(self) -> bool:
        return known_ahead(AnySchedule(self.code, 1.0, 1.0, 0.0))

    def uses_gamma(self) -> bool:
        return uses_gamma(AnySchedule(self.code, 1.0, 1.0, 0.0))


@formula(fast=True)
def lams_of_code(code: int, parameters: Any, t: int, totals: Any, out: Any) -> None:
    """lambda_t of built-in schedules of this number."""
    for m in range(len(out)):
        out[m] = lam(AnySchedule(code, parameters[0, m], parameters[1, m], parameters[2, m]), t, totals[m])


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
