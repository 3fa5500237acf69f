"""Figures 1 to 3 run again, in three readings of the paper's settings, and the experiments beyond them."""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from giftrl.paper import temporal
from giftrl.paper.ablations import Ablation
from giftrl.paper.claims import Verdict, judge
from giftrl.paper.curves import BEYOND_PAPER, READINGS, REPETITIONS, rules
from giftrl.paper.panels import Panels, PaperPanel
from giftrl.paper.published import Distance, compare
from giftrl.sweeps import Curve, Grid, Summary, repeat


@dataclass(frozen=True)
class ReproductionPlan:
    """The size of a reproduction.

    >>> ReproductionPlan.quick().repetitions
    3
    """

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
    """Run the panels, stage by stage.

    Args:
        panels: the panels, each with a function that loads its data.
        plan: the size of the reproduction.
        tell: called with the name of each piece of work before it starts.
        folder: the folder of finished repetitions.
        workers: the number of repetitions that run at once; None for one on each core.
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
