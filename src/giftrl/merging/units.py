"""The units of labels and the sums of a mixture after a merge."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.merging.sums import added, mean
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.combination import CLIPPED, LINEAR, MOST_WEIGHT, WEIGHT
from giftrl.ops.loss_scale import offset

Array = NDArray[np.float64]


def merge_units(loss: Any, base: Array, workers: list[Array], margin: bool, centred: bool) -> Array:
    """The units of the labels of all rows: means by weight, and the widest range."""
    every, units = [base, *workers], base.copy()
    if not margin:
        weights = [each[unit.WEIGHT] for each in every]
        for entry in (unit.LABEL, unit.SPREAD, unit.SLOPE):
            units[entry] = mean([each[entry] for each in every], weights)
        units[unit.WEIGHT] = added(*weights)
        units[unit.LOW] = min(each[unit.LOW] for each in every)
        units[unit.HIGH] = max(each[unit.HIGH] for each in every)
        if centred:
            units[unit.OFFSET] = offset(loss, units[unit.LABEL], units[unit.WEIGHT])
            begun = [each[unit.ORIGIN] for each in every if each[unit.WEIGHT] > 0.0]
            units[unit.ORIGIN] = begun[0] if begun else 0.0
    judged = [each[unit.JUDGED] for each in every]
    for entry in (unit.RESIDUAL, unit.STEEP, unit.PRODUCT):
        units[entry] = mean([each[entry] for each in every], judged)
    units[unit.JUDGED] = added(*judged)
    return units


def merge_sums(base: Array, workers: list[Array], rows: list[float]) -> Array:
    """The sums of a mixture: they add up, but for the recent losses, which are means."""
    sums = np.array(added(base, *workers))
    sums[WEIGHT] = min(sums[WEIGHT], MOST_WEIGHT)
    total = sum(rows)
    for entry in (CLIPPED, LINEAR) if len(base) > LINEAR and total > 0.0 else ():
        sums[entry] = sum(each[entry] * part for each, part in zip(workers, rows, strict=True)) / total
    return sums
