"""What the loops get: the parts of a model, or of many models, and a batch of rows."""

from typing import Any, NamedTuple

from giftrl.compiled.registry import formula, operation
from giftrl.schedules.built_in import AnySchedule
from giftrl.updates.built_in import AnyUpdate


class Parts(NamedTuple):
    """What a model is made of. For many models ``ahead`` has an entry for each, and :func:`model` picks one model."""

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


class CodedUpdates(NamedTuple):
    """A built-in update for each of many models, by its number."""

    codes: Any

    def of_model(self, m: int) -> AnyUpdate:
        return AnyUpdate(self.codes[m])

    def end_of_run(self, low: int, models: int) -> int:
        high = low + 1
        while high < models and self.codes[high] == self.codes[low]:
            high += 1
        return high


class CodedSchedules(NamedTuple):
    """A built-in schedule for each of many models: the fields of its :class:`AnySchedule` as a row of numbers."""

    table: Any

    def of_model(self, m: int) -> AnySchedule:
        return AnySchedule(int(self.table[m, 0]), self.table[m, 1], self.table[m, 2], self.table[m, 3])


@operation
def of_model(choices: Any, m: int) -> Any:
    """The update or schedule of model m; one that is not coded is that of every model."""
    return choices


@operation
def end_of_run(updates: Any, low: int, models: int) -> int:
    """The end of the models from ``low`` on that have the same update, at most ``models``."""
    return models


@formula(fast=True)
def model(parts: Parts, m: int) -> Parts:
    """The parts of model m of many."""
    return Parts(parts.loss, parts.psi, of_model(parts.update, m), of_model(parts.schedule, m), parts.ahead[m])


@formula(fast=True)
def weight(weights: Any, i: int) -> float:
    """The weight of row i; none are given where all are 1."""
    return weights[i] if len(weights) > 0 else 1.0
