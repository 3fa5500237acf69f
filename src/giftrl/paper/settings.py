"""The settings of the paper's experiments: as printed, as its figures need them, and the same for every rule.

The paper leaves out how rows are prepared, what G is, how the runs differ, and two things without which its figures
cannot be had. ``docs/reproduction.md`` has the evidence for each.
"""

from typing import Any, NamedTuple

from giftrl.errors import UnknownName
from giftrl.schedules import TemporalVariability
from giftrl.sweeps import Curve
from giftrl.updates import Linear, Proximal, Truncated, TwoStep

__all__ = ["PREPARATION", "READINGS", "REPETITIONS", "Reading", "rules"]

PREPARATION = "standard"
REPETITIONS = 15

#: H' for truncated and H for proximal, as printed. For linear z = g either way; for two-step see the page.
UPDATES: dict[str, Any] = {
    "linear": Linear(lookahead=False),
    "truncated": Truncated(lookahead=False),
    "twostep": TwoStep(lookahead=True),
    "proximal": Proximal(lookahead=True),
}


class Reading(NamedTuple):
    """One way to read the paper.

    two_step_floor: the least lambda_1 of the two-step rule; 1 is the largest norm(s)^2.
    floor: the least lambda_1 of the other rules.
    logistic_scale: the true beta of the logistic figure, in units of its axis label.
    """

    two_step_floor: float
    floor: float
    logistic_scale: float
    text: str


READINGS = {
    "found": Reading(1.0, 0.0, 10.0, "what the published figures need: a floor for two-step, logistic betas times 10"),
    "literal": Reading(0.0, 0.0, 1.0, "the paper as printed: no floor, betas as labelled"),
    "fair": Reading(1.0, 1.0, 10.0, "as found, and every rule gets the floor that two-step gets"),
}


def rules(loss: str, reading: str = "found") -> tuple[Curve, ...]:
    """The rules of a figure; the paper has no proximal curve for the logistic loss.

    >>> [curve.name for curve in rules("logistic")]
    ['linear', 'truncated', 'twostep']
    >>> rules("hinge")[2].schedule.lam(1, 0.0), rules("hinge", "literal")[2].model(100.0)[1].lam(1, 0.0)
    (1.0, 0.01)
    """
    if reading not in READINGS:
        raise UnknownName("reading", reading, READINGS)
    how = READINGS[reading]
    found = []
    for name, update in UPDATES.items():
        if name == "proximal" and loss == "logistic":
            continue
        floor = how.two_step_floor if name == "twostep" else how.floor
        scale = how.logistic_scale if loss == "logistic" else 1.0
        found.append(Curve(name, update, TemporalVariability(1.0, 1.0, floor), scale=scale))
    return tuple(found)
