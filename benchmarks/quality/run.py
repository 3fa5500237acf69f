"""``python -m benchmarks.quality``: compare our losses with the recorded ones of the rivals, or run the rivals."""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from rich.console import Console

from benchmarks.quality.contract import Rival
from benchmarks.quality.data import DATASETS, LOSSES, SCALINGS, SEEDS, Source, Task, cases
from benchmarks.quality.loss import progressive_loss
from benchmarks.quality.ours import predictions
from benchmarks.quality.record import PATH, Record
from benchmarks.quality.rivals import measure
from benchmarks.quality.river_models import River
from benchmarks.quality.scikit_learn import ScikitLearn
from benchmarks.quality.summary import lines
from benchmarks.quality.table import page, progress, summary_grid, task_grid
from benchmarks.quality.vowpal_wabbit import VowpalWabbit
from benchmarks.run import chosen
from benchmarks.table import write_region
from giftrl.errors import GiftrlError, InvalidInput, require

__all__ = ["RIVALS", "main", "our_losses", "read_losses", "write_losses"]

RIVALS: dict[str, Rival] = {rival.key: rival for rival in (VowpalWabbit(), ScikitLearn(), River())}

ALL_LOSSES = [loss for losses in LOSSES.values() for loss in losses]


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


def write_losses(path: Path, ours: Mapping[Task, Mapping[str, float]]) -> None:
    """Write our losses as JSON: ``{"a9a hinge raw": {"0": 0.34, ...}, ...}``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({str(task): dict(by_order) for task, by_order in ours.items()}, indent=1) + "\n")


def read_losses(path: Path) -> dict[Task, dict[str, float]]:
    """Read losses that :func:`write_losses` wrote.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ours.json"
    >>> write_losses(path, {Task("a9a", "hinge", "raw"): {"0": 0.34}})
    >>> read_losses(path)
    {Task(dataset='a9a', loss='hinge', scaling='raw'): {'0': 0.34}}
    """
    by_task: dict[str, dict[str, float]] = json.loads(path.read_text())
    return {Task(*name.rsplit(" ", 2)): by_order for name, by_order in by_task.items()}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument(
        "--tasks", default="*", help=f"data sets or patterns, separated by commas: {', '.join(DATASETS)}"
    )
    parser.add_argument(
        "--losses", default="*", help=f"names or patterns, separated by commas: {', '.join(ALL_LOSSES)}"
    )
    parser.add_argument(
        "--scalings", default="*", help=f"names or patterns, separated by commas: {', '.join(SCALINGS)}"
    )
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help=f"how many orders ({len(SEEDS)})")
    parser.add_argument("--solvers", default="*", help=f"rivals, separated by commas: {', '.join(RIVALS)}")
    parser.add_argument(
        "--rivals", choices=("recorded", "missing", "all"), default="recorded",
        help="run the rivals that are not in the record, or all of them again; then stop",
    )  # fmt: skip
    parser.add_argument("--record", type=Path, default=PATH, help="the CSV file with the losses of the rivals")
    parser.add_argument("--json", type=Path, help="where to write our losses")
    parser.add_argument("--ours", type=Path, help="read our losses from a file that --json wrote, and run nothing")
    parser.add_argument("--out", type=Path, help="a Markdown page whose quality region is replaced")
    parser.add_argument(
        "--figure", type=Path, help="the SVG or PNG file for the figure of our loss and the rivals' curves"
    )
    return parser.parse_args(argv)


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
        write_losses(options.json, ours)
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
    options = arguments(argv)
    console = Console()
    if not console.is_terminal:
        console.width = 220  # wide enough that no table is cut when it goes to a file
    try:
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
    except GiftrlError as problem:
        raise SystemExit(f"error: {problem}") from None
