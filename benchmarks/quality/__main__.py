"""``python -m benchmarks.quality``: compare our losses with the recorded ones of the rivals, or run the rivals."""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy import sparse
from scipy.special import softmax

from benchmarks.quality.contract import Rival
from benchmarks.quality.data import DATASETS, LOSSES, SCALINGS, SEEDS, Source, Task, cases
from benchmarks.quality.loss import progressive_loss
from benchmarks.quality.record import PATH, Record, Run
from benchmarks.quality.river_models import River
from benchmarks.quality.scikit_learn import ScikitLearn
from benchmarks.quality.table import lines, page, progress, summary_grid, task_grid
from benchmarks.quality.vowpal_wabbit import VowpalWabbit
from benchmarks.table import PATTERNS, chosen, one_line_errors, parse, replaced, wide_console, write_region
from giftrl.errors import InvalidInput, require
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.mixture import MulticlassMixture

RIVALS: dict[str, Rival] = {rival.key: rival for rival in (VowpalWabbit(), ScikitLearn(), River())}

ALL_LOSSES = [loss for losses in LOSSES.values() for loss in losses]


def predictions(x: Any, y: NDArray[np.float64], loss: str, classes: int | None = None) -> NDArray[np.float64]:
    """The prediction of giftrl for each row of a :class:`benchmarks.quality.data.Case`, before it learns from the row.

    >>> predictions(np.eye(2), np.array([1.0, -1.0]), "logistic").shape
    (2,)
    """
    width = x.shape[1]
    rows = sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(x), np.ones((len(y), 1))]))
    if classes is None:
        return MixtureLearner(width + 1, loss, constant=width).learn(rows, y)
    return np.asarray(softmax(MulticlassMixture(width + 1, classes, "softmax", constant=width).learn(rows, y), axis=1))


def our_losses(
    sources: Sequence[Source],
    losses: Sequence[str],
    scalings: tuple[str, ...],
    seeds: int,
    done: Callable[[Task, Mapping[str, float]], None],
) -> dict[Task, dict[str, float]]:
    """Our losses, by task and order. ``done`` is called with each task when it is finished."""
    by_task: dict[Task, dict[str, float]] = {}
    for source in sources:
        wanted = [loss for loss in LOSSES[source.kind] if loss in losses]
        if not wanted:
            continue
        for case in cases(source, scalings, seeds):
            for loss in wanted:
                task = Task(source.name, loss, case.scaling)
                predicted = predictions(case.x, case.y, loss, case.classes)
                by_task.setdefault(task, {})[case.order] = progressive_loss(predicted, case.y, loss)
                if len(by_task[task]) == len(source.orders(seeds)):
                    done(task, by_task[task])
    return by_task


def read_losses(path: Path) -> dict[Task, dict[str, float]]:
    """Our losses from a file that ``--json`` wrote: ``{"a9a hinge raw": {"0": 0.34, ...}, ...}``."""
    by_task: dict[str, dict[str, float]] = json.loads(path.read_text())
    return {Task(*name.rsplit(" ", 2)): by_order for name, by_order in by_task.items()}


def measure(
    record: Record,
    sources: Sequence[Source],
    rivals: Sequence[Rival],
    say: Callable[[str], None],
    seeds: int = len(SEEDS),
    again: bool = False,
) -> None:
    """Run what is missing in the record. With ``again``, first remove the runs of these rivals on these data sets."""
    if again:
        names = {source.name for source in sources}
        keys = {rival.key for rival in rivals}
        record.forget(run for run in record.runs if run.task.dataset in names and run.solver in keys)
        for rival in rivals:
            if not any(run.solver == rival.key for run in record.runs):
                record.versions.pop(rival.package, None)
    record.begin({rival.package: metadata.version(rival.package) for rival in rivals})
    for source in sources:
        for case in cases(source, seeds=seeds):
            for rival in rivals:
                if not rival.covers(case):
                    continue
                wanted = [
                    Run(Task(source.name, loss, case.scaling), case.order, rival.key, setting)
                    for loss in LOSSES[source.kind]
                    for setting in rival.settings(loss)
                ]
                wanted = [run for run in wanted if run not in record.runs]
                if not wanted:
                    continue
                say(f"{rival.name}: {source.name} {case.scaling}, order {case.order}")
                with rival.prepared(case) as predict:
                    for run in wanted:
                        predictions = predict(run.task.loss, run.setting)
                        record.add(run, progressive_loss(predictions, case.y, run.task.loss))


def run_rivals(options: argparse.Namespace, sources: Sequence[Source], console: Console) -> None:
    """Run the rivals and add their losses to the record."""
    begun = time.perf_counter()
    rivals = [RIVALS[key] for key in chosen("solvers", options.solvers, list(RIVALS))]
    for rival in rivals:
        reason = rival.unavailable()
        if reason is not None:
            raise InvalidInput("solvers", rival.key, reason, "or leave it out with --solvers")

    def say(text: str) -> None:
        console.print(f"{time.perf_counter() - begun:8.1f} s  {text}", markup=False, highlight=False)

    measure(Record(options.record), sources, rivals, say, options.seeds, again=options.rivals == "all")
    say(f"the record {options.record} is complete")


def compare(options: argparse.Namespace, sources: Sequence[Source], skipped: list[str], console: Console) -> None:
    """Run giftrl, print the tables, and write the page and the figure."""
    record = Record(options.record)
    rivals = [RIVALS[key] for key in chosen("solvers", options.solvers, list(RIVALS))]
    keys = {rival.key for rival in rivals}
    runs = {run: loss for run, loss in record.runs.items() if run.solver in keys}
    losses = chosen("losses", options.losses, ALL_LOSSES)
    scalings = tuple(chosen("scalings", options.scalings, SCALINGS))

    def done(task: Task, by_order: Mapping[str, float]) -> None:
        console.print(progress(lines({task: by_order}, runs)[0], rivals), markup=False, highlight=False)

    if options.ours is None:
        ours = our_losses(sources, losses, scalings, options.seeds, done)
    else:
        names = {source.name for source in sources}
        saved = read_losses(options.ours).items()
        ours = {t: v for t, v in saved if t.dataset in names and t.loss in losses and t.scaling in scalings}
    require(bool(ours), "tasks", options.tasks, "leaves no task", "see --help for the names")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({str(task): losses for task, losses in ours.items()}, indent=1) + "\n")
    table = lines(ours, runs)
    console.print(task_grid(table, rivals).rich(), "", summary_grid(table, rivals).rich(), "")
    if options.out is not None:
        versions = [f"{package} {version}" for package, version in sorted(record.versions.items())]
        made_with = ", ".join([f"giftrl {metadata.version('giftrl')}", *versions])
        write_region(options.out, "quality", page(table, rivals, options.seeds, made_with, skipped))
    if options.figure is not None:
        from benchmarks.quality.figure import draw

        draw(options.figure, table, rivals)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; a bad option gives a one-line message, not a traceback."""
    options = parse(
        argv, "benchmarks.quality", __doc__, out=replaced("quality"),
        tasks=("*", PATTERNS + ", ".join(DATASETS)), losses=("*", PATTERNS + ", ".join(ALL_LOSSES)),
        scalings=("*", PATTERNS + ", ".join(SCALINGS)), solvers=("*", PATTERNS + ", ".join(RIVALS)),
        seeds=(len(SEEDS), f"how many orders ({len(SEEDS)})"),
        rivals=(
            ("recorded", "missing", "all"),
            "run the rivals that are not in the record, or all of them again; then stop",
        ),
        record=(PATH, "the CSV file with the losses of the rivals"), json=(Path, "where to write our losses"),
        ours=(Path, "read our losses from a file that --json wrote, and run nothing"),
        figure=(Path, "the SVG or PNG file for the figure of our loss and the rivals' curves"),
    )  # fmt: skip
    console = wide_console(220)
    with one_line_errors():
        require(1 <= options.seeds <= len(SEEDS), "seeds", options.seeds, "must be 1, 2 or 3", "3 is the default")
        sources = [DATASETS[name] for name in chosen("tasks", options.tasks, list(DATASETS))]
        reasons = {source: source.unavailable() for source in sources if options.ours is None}
        skipped = [f"{source.name} skipped: {reason}" for source, reason in reasons.items() if reason is not None]
        for line in skipped:
            console.print(line, markup=False)
        sources = [source for source in sources if reasons.get(source) is None]
        if options.rivals == "recorded":
            compare(options, sources, skipped, console)
        else:
            run_rivals(options, sources, console)


if __name__ == "__main__":
    main()
