"""Run Figures 1 to 3, compare them with the published ones, and run the experiments beyond them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from giftrl.paper import beyond, temporal
from giftrl.paper.ablations import Ablation
from giftrl.paper.claims import Verdict, judge
from giftrl.paper.compare import Distance, compare
from giftrl.paper.panels import Panels, PaperPanel
from giftrl.paper.settings import READINGS, REPETITIONS, rules
from giftrl.sweeps import Curve, Data, Grid, Summary, repeat

__all__ = ["Plan", "Reproduction", "reproduce"]


@dataclass(frozen=True)
class Plan:
    """How much to run.

    Attributes:
        repetitions: how many random orders of each data set.
        beyond: whether to run the curves that the paper leaves out.
        rounds: the length of the temporal experiment.

    >>> Plan.quick().repetitions
    3
    """

    repetitions: int = REPETITIONS
    beyond: bool = True
    rounds: int = 4096

    @classmethod
    def quick(cls) -> "Plan":
        """A plan for a first look: 3 repetitions, a shorter temporal experiment, and nothing beyond the paper."""
        return cls(repetitions=3, beyond=False, rounds=512)


@dataclass
class Reproduction:
    """The results of a reproduction.

    Attributes:
        plan: how much was run.
        data: the number of rows, the number of features, and the fingerprint of each panel's data.
        readings: the losses, by reading of the paper and by panel.
        groups: the losses of the curves beyond the paper, by group and by panel.
        distances: the distances to the published curves.
        verdicts: the verdicts on the paper's claims, by reading.
        ablations: what each part of the found setting is worth; empty unless asked for.
        paths: the temporal experiment.
        seconds: the time that each stage took.
        read: how many repetitions were read from an earlier run, and how many there are in total.
    """

    plan: Plan
    data: dict[PaperPanel, tuple[int, int, str]] = field(default_factory=dict)
    readings: dict[str, dict[PaperPanel, Summary]] = field(default_factory=lambda: {name: {} for name in READINGS})
    groups: dict[str, dict[PaperPanel, Summary]] = field(default_factory=dict)
    distances: list[Distance] = field(default_factory=list)
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    ablations: list[Ablation] = field(default_factory=list)
    paths: list[temporal.Path] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    read: tuple[int, int] = (0, 0)


def reproduce(
    panels: Panels,
    plan: Plan,
    *,
    folder: Path | None = None,
    workers: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Reproduction:
    """Run the panels, stage by stage.

    Args:
        panels: the panels, each with a function that loads its data.
        plan: how much to run.
        folder: the folder in which finished repetitions are kept.
        workers: how many repetitions run at once; None means one for each core.
        tell: called with the name of each piece of work before it starts.
    """
    result = Reproduction(plan)
    loaded: dict[PaperPanel, Data] = {}
    counts = [0, 0]

    def count(known: bool) -> None:
        counts[0] += known
        counts[1] += 1

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        result.seconds[stage] = result.seconds.get(stage, 0.0) + time.perf_counter() - begun

    def run(stage: str, curves: Callable[[str], tuple[Curve, ...]]) -> dict[PaperPanel, Summary]:
        summaries = {}
        for panel, data in loaded.items():
            if tell:
                tell(f"{panel.title} ({stage})")
            grid = Grid(panel.loss, curves(panel.loss), panel.betas)
            with timed(stage):
                summaries[panel] = repeat(data, grid, plan.repetitions, folder=folder, workers=workers, done=count)
        return summaries

    for panel, load in panels:
        with timed("reading data"):
            data = loaded[panel] = load()
        result.data[panel] = (data.rows, data.features, data.fingerprint)
    for reading in READINGS:
        stage = "figures" if reading == "found" else f"{reading} reading"
        result.readings[reading] = run(stage, partial(rules, reading=reading))
    result.verdicts = {reading: judge(summaries) for reading, summaries in result.readings.items()}
    result.distances = [d for panel, summary in result.readings["found"].items() for d in compare(panel, summary)]
    if plan.beyond:
        result.groups = {name: run(name, curves) for name, (curves, _) in beyond.GROUPS.items()}
    if tell:
        tell("temporal variability")
    with timed("temporal variability"):
        result.paths = temporal.run(plan.rounds)
    result.read = (counts[0], counts[1])
    return result
