"""Ablations of the found setting: change one part, and measure the distance to the published curves."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.kernels.prepare import unit_rows
from giftrl.paper.curves import rules
from giftrl.paper.panels import PAPER, PaperPanel, locate
from giftrl.paper.published import Distance, compare
from giftrl.sweeps import Curve, Data, Grid, fingerprint, read_all, repeat, signed
from giftrl.sweeps.data import standard, with_constant
from giftrl.updates import TwoStep

Array = NDArray[np.float64]


class Variant(NamedTuple):
    """The found setting with one part changed, and the losses and rules that the change affects."""

    features: Callable[[Array], Array]  # prepares the features, a dense matrix
    curve: Callable[[Curve], Curve] = lambda curve: curve  # changes a rule
    losses: tuple[str, ...] = ("hinge", "logistic", "absolute")
    updates: tuple[str, ...] = ("linear", "truncated", "twostep", "proximal")


def as_found(x: Array) -> Array:
    """The preparation of the found setting."""
    return np.asarray(unit_rows(with_constant(unit_rows(standard(x)))))


def schedule(**parameters: float) -> Callable[[Curve], Curve]:
    """A change of parameters of the schedule."""
    return lambda curve: replace(curve, schedule=curve.schedule._replace(**parameters))


def scaled(scale: float) -> Callable[[Curve], Curve]:
    """A change of the factor between the label of the axis and beta."""
    return lambda curve: replace(curve, scale=scale)


TWO_STEP = ("twostep",)

VARIANTS = {
    "as found": Variant(as_found),
    "columns not standardised": Variant(lambda x: np.asarray(unit_rows(with_constant(unit_rows(x))))),
    "rows not scaled before the constant": Variant(lambda x: np.asarray(unit_rows(with_constant(standard(x))))),
    "rows not scaled after the constant": Variant(lambda x: np.asarray(with_constant(unit_rows(standard(x))))),
    "no constant": Variant(lambda x: np.asarray(unit_rows(standard(x)))),
    "G = 0.5": Variant(as_found, schedule(gradient_bound=0.5)),
    "G = 2": Variant(as_found, schedule(gradient_bound=2.0)),
    "two-step without a floor": Variant(as_found, schedule(floor=0.0), updates=TWO_STEP),
    "two-step with the floor 0.5": Variant(as_found, schedule(floor=0.5), updates=TWO_STEP),
    "two-step with the floor 2": Variant(as_found, schedule(floor=2.0), updates=TWO_STEP),
    "two-step with H'": Variant(as_found, lambda curve: replace(curve, update=TwoStep(False)), updates=TWO_STEP),
    "logistic betas as labelled": Variant(as_found, scaled(1.0), ("logistic",)),
    "logistic betas times 9.5": Variant(as_found, scaled(9.5), ("logistic",)),
    "logistic betas times 10.5": Variant(as_found, scaled(10.5), ("logistic",)),
}


class Ablation(NamedTuple):
    """The distance of the published curves to a variant."""

    variant: str
    mean: float  # the mean distance of a point
    largest: float  # the largest distance of a point
    reproduced: int  # the number of reproduced curves
    curves: int  # the number of curves
    before: float  # the mean distance of the same curves with the found setting


def ablate(
    folder: Path,
    repetitions: int,
    *,
    only: Sequence[str] | None = None,
    keep: Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[Ablation]:
    """Run every variant on the panels whose data is in a folder.

    Args:
        folder: the folder of the data sets.
        repetitions: the number of random orders.
        only: the names of the data sets; None for every one in the folder.
        keep: the folder of finished repetitions.
        tell: called with the name of each variant before its run.
    """
    names = dict.fromkeys(panel.dataset for panel in PAPER if only is None or panel.dataset in only)
    raw = {name: read_all(path) for name in names if (path := locate(folder, name))}
    results, original = [], dict[tuple[str, str], Distance]()
    for name, variant in VARIANTS.items():
        if tell:
            tell(name)
        panels = [panel for panel in PAPER if panel.dataset in raw and panel.loss in variant.losses]
        distances = [d for p in panels for d in _distances(p, raw[p.dataset], name, variant, repetitions, keep)]
        if name == "as found":
            original = {(d.panel, d.update): d for d in distances}
        before = [original[d.panel, d.update] for d in distances]
        largest, reproduced = max(d.largest for d in distances), sum(d.reproduced for d in distances)
        results.append(Ablation(name, _mean(distances), largest, reproduced, len(distances), _mean(before)))
    return results


def _distances(
    panel: PaperPanel, raw: tuple[Any, Array], name: str, variant: Variant, repetitions: int, keep: Path | None
) -> list[Distance]:
    x, y = raw
    curves = tuple(variant.curve(curve) for curve in rules(panel.loss) if curve.name in variant.updates)
    data = Data(panel.dataset, variant.features(x.toarray()), signed(y, panel.loss), fingerprint(x, y), name)
    return compare(panel, repeat(data, Grid(panel.loss, curves, panel.betas), repetitions, folder=keep))


def _mean(distances: list[Distance]) -> float:
    """The mean distance of a point over all curves."""
    return float(np.average([d.mean for d in distances], weights=[d.points for d in distances]))
