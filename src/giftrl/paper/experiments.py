"""Figures 1 to 3 run again, in three readings of the paper's settings; the experiments beyond them; and ablations."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.rows import unit_rows
from giftrl.paper import temporal
from giftrl.paper.claims import Verdict, judge
from giftrl.paper.curves import BEYOND_PAPER, READINGS, REPETITIONS, rules
from giftrl.paper.panels import PAPER, Distance, Panels, PaperPanel, compare, locate
from giftrl.sweeps import Curve, Data, Grid, Summary, fingerprint, read_all, repeat, signed
from giftrl.sweeps.data import standard, with_constant
from giftrl.updates import TwoStep

Array = NDArray[np.float64]


# Ablations: change one part of the setting that was found, and measure the distance to the published curves.


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
    "two-step with H'": Variant(as_found, partial(replace, update=TwoStep(False)), updates=TWO_STEP),
    "logistic betas as labelled": Variant(as_found, partial(replace, scale=1.0), ("logistic",)),
    "logistic betas times 9.5": Variant(as_found, partial(replace, scale=9.5), ("logistic",)),
    "logistic betas times 10.5": Variant(as_found, partial(replace, scale=10.5), ("logistic",)),
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
    """Run every variant on the panels whose data is in a folder, or on those of some data sets ``only``.

    ``keep`` is the folder of finished repetitions, and ``tell`` is called with the name of each variant before its run.
    """
    names = dict.fromkeys(panel.dataset for panel in PAPER if only is None or panel.dataset in only)
    raw = {name: read_all(path) for name in names if (path := locate(folder, name))}
    results, original = [], dict[tuple[str, str], Distance]()
    for name, variant in VARIANTS.items():
        if tell:
            tell(name)
        distances: list[Distance] = []
        for panel in PAPER:
            if panel.dataset in raw and panel.loss in variant.losses:
                x, y = raw[panel.dataset]
                curves = tuple(variant.curve(curve) for curve in rules(panel.loss) if curve.name in variant.updates)
                prepared, labels = variant.features(x.toarray()), signed(y, panel.loss)
                data = Data(panel.dataset, prepared, labels, fingerprint(x, y), name)
                runs = repeat(data, Grid(panel.loss, curves, panel.betas), repetitions, folder=keep)
                distances += compare(panel, runs)
        if name == "as found":
            original = {(d.panel, d.update): d for d in distances}
        before = mean_distance([original[d.panel, d.update] for d in distances])
        largest, reproduced = max(d.largest for d in distances), sum(d.reproduced for d in distances)
        results.append(Ablation(name, mean_distance(distances), largest, reproduced, len(distances), before))
    return results


def mean_distance(distances: Sequence[Distance]) -> float:
    """The mean distance of a point over all curves."""
    return float(np.average([d.mean for d in distances], weights=[d.points for d in distances]))


# Reproductions.


@dataclass(frozen=True)
class ReproductionPlan:
    """The size of a reproduction."""

    repetitions: int = REPETITIONS  # random orders of each data set
    beyond: bool = True  # run the curves that the paper leaves out too
    rounds: int = 4096  # the length of the temporal experiment

    @classmethod
    def quick(cls) -> "ReproductionPlan":
        """A plan for a first look: 3 repetitions, a shorter temporal experiment, and nothing beyond the paper."""
        return cls(repetitions=3, beyond=False, rounds=512)


@dataclass
class Reproduction:
    """The results of a reproduction."""

    plan: ReproductionPlan
    data: dict[PaperPanel, tuple[int, int, str]]  # rows, features and fingerprint of each panel's data
    summaries: dict[str, dict[PaperPanel, Summary]]  # the losses, by reading of the paper and by group beyond it
    paths: list[temporal.RegretPath]  # the temporal experiment
    seconds: dict[str, float]  # the time of each stage
    read: tuple[int, int]  # the repetitions read from an earlier run, and all of them
    ablations: list[Ablation] = field(default_factory=list)  # the found setting with one part changed, on request

    @cached_property
    def distances(self) -> list[Distance]:
        """The distances to the published curves."""
        return [distance for panel, summary in self.summaries["found"].items() for distance in compare(panel, summary)]

    @cached_property
    def verdicts(self) -> dict[str, list[Verdict]]:
        """The verdicts on the paper's claims, by reading."""
        return {reading: judge(self.summaries[reading]) for reading in READINGS}


def reproduce(
    panels: Panels,
    plan: ReproductionPlan,
    *,
    tell: Callable[[str], None],
    folder: Path | None = None,
    workers: int | None = None,
) -> Reproduction:
    """Run the panels, stage by stage; ``folder`` keeps finished repetitions.

    ``tell`` is called with the name of each piece of work before it starts. ``workers`` repetitions run at once, one on
    each core by default.
    """
    begun, seconds, known = time.perf_counter(), defaultdict[str, float](float), list[bool]()
    loaded = {panel: load() for panel, load in panels}
    seconds["reading data"] = time.perf_counter() - begun

    def run(stage: str, curves: Callable[[str], tuple[Curve, ...]]) -> dict[PaperPanel, Summary]:
        summaries = {}
        for panel, data in loaded.items():
            tell(f"{panel.title} ({stage})")
            begun, grid = time.perf_counter(), Grid(panel.loss, curves(panel.loss), panel.betas)
            summaries[panel] = repeat(data, grid, plan.repetitions, folder=folder, workers=workers, done=known.append)
            seconds[stage] += time.perf_counter() - begun
        return summaries

    summaries = {
        reading: run("figures" if reading == "found" else f"{reading} reading", partial(rules, reading=reading))
        for reading in READINGS
    }
    summaries |= {name: run(name, curves) for name, (curves, _) in BEYOND_PAPER.items() if plan.beyond}
    tell("temporal variability")
    begun = time.perf_counter()
    paths = temporal.run(plan.rounds)
    seconds["temporal variability"] = time.perf_counter() - begun
    data = {panel: (data.rows, data.features, data.fingerprint) for panel, data in loaded.items()}
    return Reproduction(plan, data, summaries, paths, seconds, (sum(known), len(known)))
