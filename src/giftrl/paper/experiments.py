"""Run Figures 1 to 3, compare them with the published ones, and run the experiments beyond them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from giftrl.paper import temporal
from giftrl.paper.ablations import Ablation
from giftrl.paper.claims import Verdict, judge
from giftrl.paper.curves import BEYOND, READINGS, REPETITIONS, rules
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
    readings: dict[str, dict[PaperPanel, Summary]]  # the losses, by reading of the paper
    groups: dict[str, dict[PaperPanel, Summary]]  # the losses of the curves beyond the paper
    distances: list[Distance]  # to the published curves
    verdicts: dict[str, list[Verdict]]  # on the paper's claims, by reading
    paths: list[temporal.RegretPath]  # the temporal experiment
    seconds: dict[str, float]  # the time of each stage
    read: tuple[int, int]  # the repetitions read from an earlier run, and all of them
    ablations: list[Ablation] = field(default_factory=list)  # the found setting with one part changed, on request


def reproduce(
    panels: Panels,
    plan: ReproductionPlan,
    *,
    folder: Path | None = None,
    workers: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Reproduction:
    """Run the panels, stage by stage.

    Args:
        panels: the panels, each with a function that loads its data.
        plan: the size of the reproduction.
        folder: the folder of finished repetitions.
        workers: the number of repetitions that run at once; None for one on each core.
        tell: called with the name of each piece of work before it starts.
    """
    seconds: dict[str, float] = {}
    counts = [0, 0]

    def count(known: bool) -> None:
        counts[0] += known
        counts[1] += 1

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - begun

    def run(stage: str, curves: Callable[[str], tuple[Curve, ...]]) -> dict[PaperPanel, Summary]:
        summaries = {}
        for panel, data in loaded.items():
            if tell:
                tell(f"{panel.title} ({stage})")
            grid = Grid(panel.loss, curves(panel.loss), panel.betas)
            with timed(stage):
                summaries[panel] = repeat(data, grid, plan.repetitions, folder=folder, workers=workers, done=count)
        return summaries

    with timed("reading data"):
        loaded = {panel: load() for panel, load in panels}
    readings = {
        reading: run("figures" if reading == "found" else f"{reading} reading", partial(rules, reading=reading))
        for reading in READINGS
    }
    groups = {name: run(name, curves) for name, (curves, _) in BEYOND.items()} if plan.beyond else {}
    if tell:
        tell("temporal variability")
    with timed("temporal variability"):
        paths = temporal.run(plan.rounds)
    return Reproduction(
        plan=plan,
        data={panel: (data.rows, data.features, data.fingerprint) for panel, data in loaded.items()},
        readings=readings,
        groups=groups,
        distances=[d for panel, summary in readings["found"].items() for d in compare(panel, summary)],
        verdicts={reading: judge(summaries) for reading, summaries in readings.items()},
        paths=paths,
        seconds=seconds,
        read=(counts[0], counts[1]),
    )
