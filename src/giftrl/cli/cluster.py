"""``giftrl train --cluster``: learn a model on many machines."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

#: Options of ``giftrl train`` that a run on a cluster does not have, what they are when they are not given, and why.
WITHOUT = {
    "passes": (1, "a cluster makes one pass", "leave it out"),
    "report_path": (None, "the page is about predictions, which workers do not send back", "leave it out"),
    "predictions": (None, "predictions come in no order from a cluster", "leave it out"),
    "rejects": (None, "a cluster counts rows that cannot be used", "leave it out, or mend the rows first"),
}

#: When to do without a cluster, and what then.
SELDOM, ALONE = "a cluster hardly pays below 100,000,000 rows", "without --cluster one machine does as well"

cluster_option = click.option(
    "--cluster", metavar="auto|simulation|ray://HOST:PORT",
    help="Learn on a Ray cluster: the one of this machine (auto), or another. DATA may be URLs such as s3://... too. "
    "simulation: the same model without Ray, one worker after the other.",
)  # fmt: skip
workers_option = click.option(
    "--workers", type=click.IntRange(1),
    help="How many threads learn in the first pass; with --cluster, how many workers. Each number gives a model of its "
    "own, the same in every run. Default: 1, with --cluster 16.",
)  # fmt: skip


def cluster_options(function: F) -> F:
    """Add the options of a cluster to a command."""
    return cluster_option(workers_option(function))


def train_on_cluster(
    data: tuple[str, ...],
    cluster: str,
    workers: int,
    *,
    from_path: str | None,
    seconds: float,
    model_path: str | None,
    summary_path: str | None,
    radii: tuple[float, ...],
    checkpoint_every: int | None,
    resume: bool,
    quiet: bool,
    as_json: bool,
    options: dict[str, Any],
    others: dict[str, Any],
) -> None:
    """Learn a model on a cluster, write it and say what it cost.

    Args:
        data, cluster, workers: as given.
        from_path, seconds, model_path, summary_path, radii, checkpoint_every, resume, quiet, as_json: as for
            ``giftrl train``.
        options: of reading and of settings.
        others: those of :data:`WITHOUT`.
    """
    begun = time.perf_counter()
    from giftrl.cli.bar import proving
    from giftrl.cli.going_on import model_of
    from giftrl.cli.options import reading_of
    from giftrl.cli.progress import counted, standard_error
    from giftrl.cli.terminal import json_text, standard_output
    from giftrl.distributed import PAYS, train
    from giftrl.distributed.cluster import require_cluster
    from giftrl.distributed.files import about_rows, find_files, source_of
    from giftrl.distributed.run import require_place
    from giftrl.errors import require
    from giftrl.files import check_outputs, writing
    from giftrl.streams.sources.source import is_url
    from giftrl.training import Checkpoint, Settings
    from giftrl.training.summary import best_losses, summary_of
    from giftrl.training.target import look

    for name, (usual, why, remedy) in WITHOUT.items():
        value = others[name] if name in others else options[name]
        require(value == usual, name.removesuffix("_path"), value, why, remedy)
    kept = checkpoint_every is not None or resume
    require(not (kept and model_path is None), "model", None, "is needed for checkpoints", "add --model FILE")
    require_cluster(cluster)
    reading = reading_of(options)
    reading.pop("rejects")
    checkpoint = Checkpoint(Path(f"{model_path}.checkpoint"), checkpoint_every or 10_000_000) if kept else None
    if checkpoint is not None:
        require_place(checkpoint.path, resume)
    files = find_files(data)
    check_outputs(
        {
            "data": [file.name for file in files if not is_url(file.name)],
            "from": [] if from_path is None else [from_path],
        },
        {"model": model_path, "checkpoint": checkpoint and str(checkpoint.path), "summary": summary_path},
        files_only=["model", "checkpoint"],
        kept=[("from", "model")],
    )
    options["label_values"] = options.pop("labels")
    options["bits"] = None if options.pop("dictionary") else options["bits"]
    quiet = quiet or as_json
    console = standard_error(quiet)
    say: Callable[[str], None] = (lambda _: None) if quiet else console.print
    about = about_rows(files, reading["format"])
    early = about is not None and about.rows < PAYS
    if early:
        say(f"note: {SELDOM}, and there are {about} here; {ALONE}")
    if not quiet:
        say_idle(say, files, workers, reading)
    begin: Any
    if from_path is not None:
        begin = model_of(from_path, options)
        before = begin.examples
        say(f"continuing after {counted(before, 'example')}")
    else:
        given = options["loss"], options["label_values"]
        target, _ = look([source_of(file.name) for file in files], *given, **reading)
        begin, before = Settings(**options | {"loss": target.loss, "label_values": target.label_values}), 0
        if target.reason is not None:
            say(target.reason)
    progress = Watching(say)
    with contextlib.ExitStack() as opened:
        outputs = [standard_output()] if as_json else []
        if summary_path is not None:
            outputs.append(opened.enter_context(writing(summary_path)))
        model = train(
            begin, data, workers=workers, cluster=cluster, checkpoint=checkpoint, resume=resume,
            after=progress, **reading,
        )  # fmt: skip
        if model_path is not None:
            model.save(model_path)
        learnt = time.perf_counter()
        shown = seconds > 0.0 and (outputs or not quiet)
        with proving(console, seconds if shown else 0.0):
            best = best_losses(model.certificate, seconds) if shown else []
        summary = summary_of(model, radii, best) | {
            "seconds_total": learnt - begun,
            "seconds_certificate": time.perf_counter() - learnt,
            "cluster": {"workers": workers} | progress.costs,
        }
        for file in outputs:
            file.write(json_text(summary).encode() + b"\n")
    if checkpoint is not None:
        checkpoint.path.unlink(missing_ok=True)
    said = early or model.examples - before >= PAYS
    say_costs(say, summary, model_path, best, "" if said else f"note: {SELDOM}; {ALONE}")


def say_idle(say: Callable[[str], None], files: Any, workers: int, reading: dict[str, Any]) -> None:
    """Say how many workers have nothing to read, if any."""
    from giftrl.cli.progress import counted
    from giftrl.distributed.files import look_at_files
    from giftrl.distributed.shards import deal

    if len(files) >= workers:
        return
    looked = look_at_files(files, reading["format"], reading["columns"], reading.get("schema")).files
    busy = sum(map(bool, deal(looked, workers)))
    if busy == workers:
        return
    have = "has" if workers - busy == 1 else "have"
    whole = all(not file.lines for file in looked)
    why = "files of this kind are read as a whole" if whole else "the data is too small to be cut into more parts"
    said = f"{workers - busy} of {workers} workers {have} nothing to read: there {'is' if len(files) == 1 else 'are'} "
    say(f"note: {said}{counted(len(files), 'file')}, and {why}; --workers {busy} does as well")


class Watching:
    """Prints a line each time the number of rows has doubled, and keeps what the run has cost."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.costs: dict[str, Any] = {}
        self._next = 0

    def __call__(self, driver: Any) -> None:
        """Look at a run after a merge."""
        from dataclasses import asdict

        self.costs = asdict(driver.costs) | {"rows_a_second_and_worker": driver.costs.rows_a_second}
        rows = driver.model.examples
        if rows >= self._next:
            self._next = 2 * rows
            self._say(f"{rows:>15,} examples, average loss {driver.model.average_loss:.6f}")


def say_costs(
    say: Callable[[str], None], summary: dict[str, Any], model_path: str | None, best: Any, note: str
) -> None:
    """Print what a run has come to, what is proved about it, and what it has cost."""
    from giftrl.cli.progress import counted, decimals

    costs, seconds = summary["cluster"], summary["seconds_total"]
    lines = ["\n" + ", ".join(counted(summary[f"{noun}s"], noun) for noun in ("example", "feature", "nonzero"))]
    if summary["rejected"]:
        lines.append(f"{counted(summary['rejected'], 'row')} could not be used and were skipped")
    lines += [
        f"average loss {decimals(summary['average_loss'])}",
        f"{seconds:.1f} s with {counted(costs['workers'], 'worker')}, start-up included",
    ]
    if costs.get("rounds"):
        rate, merging = costs["rows_a_second_and_worker"], costs["seconds_merging"]
        moved = f"{costs['bytes_moved'] / 1e6:,.1f} MB moved"
        lines.append(
            f"{counted(costs['rounds'], 'round')}: {rate:,.0f} rows a second and worker, {merging:.1f} s in merging, "
            f"{moved}"
        )
        if costs["repeated"]:
            lines.append(f"{counted(costs['repeated'], 'order')} carried out twice, as workers died or were slow")
    if note:
        lines.append(note)
    if model_path is not None:
        lines.append(f"model written to {model_path}")
    if best:
        lines.append(f"certificate: {best[0].in_words(best[1])}")
    say("\n".join(lines))
