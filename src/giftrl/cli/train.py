"""``giftrl train``: learn a model from a stream."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from giftrl import losses, updates
from giftrl.cli.options import (
    VowpalWabbitHints,
    certificate_option,
    check_files,
    feature_options,
    input_options,
    label_list,
    parameter_list,
    quiet_option,
    radius_option,
    reading_of,
    schema_option,
)


def _beta(context: click.Context, parameter: click.Parameter, value: str) -> float | str:
    if value == "auto":
        return value
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor auto; write --beta 1.0 or --beta auto") from None


@click.command("train", cls=VowpalWabbitHints)
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--loss", default="auto", show_default=True,
    help=f"{', '.join(losses.BY_NAME)}; for several classes {' or '.join(losses.MULTICLASS)}. auto: by the labels of "
    "the first rows, logistic for two, softmax for a few, squared for numbers.",
)  # fmt: skip
@click.option(
    "--beta", default="auto", show_default=True, callback=_beta, metavar="NUMBER|auto",
    help="auto mixes many learners and needs no tuning; a number is the scale of the schedule of one learner.",
)  # fmt: skip
@click.option("--preset", default="default", show_default=True, help="What auto mixes: default, or light (quicker).")
@click.option("--update", help=f"With a number for beta: {', '.join(updates.BY_NAME)}. Default: proximal.")
@click.option(
    "--lookahead/--no-lookahead", default=None, help="With a number for beta: H or H'. Default: H if possible."
)
@click.option(
    "--regularizer",
    help="With a number for beta: squared_norm (the default), adagrad, elastic_net, centred, curvature.",
)
@click.option(
    "--schedule", help="With a number for beta: constant, sqrt, adagrad_norm, ada_implicit, temporal (the default)."
)
@click.option(
    "--set", "parameters", multiple=True, callback=parameter_list, metavar="NAME=NUMBER",
    help="A parameter of a part: tau, delta, epsilon, l1, l2, gradient_bound or floor; may be repeated.",
)  # fmt: skip
@click.option(
    "--labels", callback=label_list, metavar="A,B,...",
    help="The labels of all classes: no,yes or 0..9. Of two, the first stands for -1. Default: those of the first "
    "rows.",
)  # fmt: skip
@click.option(
    "--passes", type=click.IntRange(1), default=1, show_default=True, help="How many times to read DATA at most."
)
@click.option(
    "--holdout", type=click.IntRange(0), default=10, show_default=True, metavar="N",
    help="With more than one pass, every Nth row is held out (later ever fewer), and training stops when the loss on "
    "these rises. The best model is kept, and learns them in the end. 0: none.",
)  # fmt: skip
@feature_options
@click.option(
    "--normalize", type=click.Choice(["none", "unit"]), default="none", show_default=True, help="unit: rows of norm 1."
)
@click.option("--constant/--no-constant", default=True, show_default=True, help="Add a constant feature to each row.")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32", show_default=True)
@click.option("--model", "model_path", type=click.Path(), help="Write the model to this file.")
@click.option("--summary", "summary_path", type=click.Path(), help="Write a JSON summary to this file.")
@click.option(
    "--report", "report_path", type=click.Path(),
    help="Write a page about the run to this HTML file: learning curve, certificate, calibration, weights and more.",
)  # fmt: skip
@click.option(
    "-p", "--predictions", type=click.Path(),
    help="Write the prediction for each row to this file, made before its label was used; of the first pass.",
)  # fmt: skip
@click.option(
    "--witness-nonzeros", type=click.IntRange(0), default=1_000_000, show_default=True,
    help="The most nonzeros of examples to store for the certificate (12 bytes each). 0: no bound on the best loss.",
)  # fmt: skip
@certificate_option
@radius_option
@click.option(
    "--checkpoint-every", type=click.IntRange(1), metavar="N", help="Write a checkpoint after every N examples."
)
@click.option("--resume", is_flag=True, help="Continue from the checkpoint of an interrupted run.")
@click.option(
    "--from", "-i", "from_path", type=click.Path(dir_okay=False), metavar="MODEL",
    help="Go on learning from a model and its settings: with one worker, the same as one run over its data and DATA.",
)  # fmt: skip
@click.option(
    "--cluster", metavar="auto|simulation|ray://HOST:PORT",
    help="Learn on a Ray cluster: the one of this machine (auto), or another. DATA may be URLs such as s3://... too. "
    "simulation: the same model without Ray, one worker after the other.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1),
    help="Threads in the first pass; with --cluster, workers. Needs --beta auto. Each number gives a model of its own, "
    "the same in every run. Default: 1, with --cluster 16.",
)  # fmt: skip
@quiet_option("--quiet", help="Print no table and no progress bar.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output, and nothing else.")
@schema_option
@input_options
def train_command(
    data: tuple[str, ...], model_path: str | None, summary_path: str | None, radii: tuple[float, ...],
    passes: int, holdout: int, checkpoint_every: int | None, resume: bool, from_path: str | None,
    report_path: str | None, predictions: str | None, quiet: bool, as_json: bool, seconds: float,
    cluster: str | None, workers: int | None, **options: Any,
) -> None:  # fmt: skip
    """Learn a linear model from DATA: files, globs, directories, or - for standard input.

    \b
    Try it:
      giftrl demo churn
      giftrl train churn.csv --label churned --ignore customer_id --model churn.giftrl

    Formats: LIBSVM, Vowpal Wabbit, CSV, JSON lines, Parquet, Arrow and NumPy; plain or compressed with gzip, zstd, xz
    or bzip2. Memory does not grow with the data.

    There is nothing to tune: features and labels may be on any scale, and there is no learning rate. With a number for
    --beta, one learner of the paper is trained instead, with the parts that you name.

    \b
    More examples:
      giftrl train clicks.svm.gz --loss logistic --model clicks.giftrl
      giftrl train houses.csv --label price --loss squared --model houses.giftrl
      giftrl train reviews.csv --text review --date written --ignore id --model reviews.giftrl
      giftrl train digits.svm.xz --loss softmax --labels 0..9 --model digits.giftrl
      giftrl train clicks.svm.gz --beta 1 --update proximal --regularizer curvature
      giftrl train tuesday.vw.gz --from clicks.giftrl --model clicks.giftrl
      zcat day*.vw.gz | giftrl train - --format vw --checkpoint-every 1000000 --model day.giftrl
    """
    begun = time.perf_counter()
    from giftrl.cli.progression import Progression, about, call_all, notes, say_results
    from giftrl.cli.terminal import counted, json_text, proving, standard_error, standard_output
    from giftrl.cli.train import model_of
    from giftrl.errors import require
    from giftrl.files import Output
    from giftrl.streams.sources.source import find_sources, require_files
    from giftrl.training import Checkpoint, LinearModel, Settings, Trainer
    from giftrl.training.checkpoint import require_no_checkpoint
    from giftrl.training.choose_loss import chosen_by_rows, look, placeholder_target
    from giftrl.training.summary import best_losses, summary_of

    if cluster is not None:
        train_on_cluster(
            data, cluster, workers or 16, from_path=from_path, seconds=seconds, model_path=model_path,
            summary_path=summary_path, radii=radii, checkpoint_every=checkpoint_every, resume=resume, quiet=quiet,
            as_json=as_json, options=options,
            others={"passes": passes, "report_path": report_path, "predictions": predictions},
        )  # fmt: skip
        return
    workers = workers or 1
    kept = (checkpoint_every is not None or resume) and model_path is None
    require(not kept, "model", model_path, "is needed for checkpoints, which are written beside it", "add --model FILE")
    stdin_again = "-" in data and (resume or passes > 1)
    require(not stdin_again, "data", "-", "cannot be read twice", "give a file for --resume and --passes")
    checkpoint = None
    if model_path is not None and (checkpoint_every is not None or resume):
        checkpoint = Checkpoint(Path(model_path + ".checkpoint"), checkpoint_every or 10_000_000)
    require(report_path != "-", "report", report_path, "must be the name of a file", "write --report run.html")
    schema_path = options["schema"]
    reading = reading_of(options)
    schema = reading.pop("schema")
    check_files(
        {
            "data": data, "from": [] if from_path is None else [from_path],
            "schema": [] if schema_path is None else [schema_path],
        },
        {
            "model": model_path, "checkpoint": None if checkpoint is None else str(checkpoint.path),
            "summary": summary_path, "report": report_path, "rejects": reading["rejects"], "predictions": predictions,
        },
        files_only=["model", "checkpoint"],
        kept=[("from", "model")],
    )  # fmt: skip
    if model_path is not None and not resume:
        require_no_checkpoint(Path(model_path + ".checkpoint"))
    options["label_values"] = options.pop("labels")
    options["bits"] = None if options.pop("dictionary") else options["bits"]
    quiet = quiet or as_json
    console = standard_error(quiet)
    reason: str | None = None
    looked: dict[str, Any] = {}
    if from_path is not None:
        model = model_of(from_path, options)
    else:
        if passes > 1:
            require_files([source.name for source in find_sources(data)])
        given = options["loss"], options["label_values"]
        target, looked = (placeholder_target(*given), {}) if resume else look(data, *given, schema=schema, **reading)
        model = LinearModel(Settings(**options | {"loss": target.loss, "label_values": target.label_values}))
        reason = target.reason
    reading |= {"passes": passes, "holdout": holdout, "workers": workers, "predictions": predictions}
    trainer = Trainer(model, data, checkpoint=checkpoint, opened=looked, **reading)
    if report_path is not None:
        from giftrl.reports.record import Record

        trainer.record = Record(trainer.model.examples)
    if resume:
        trainer.resume(chosen_by_rows(*given) if from_path is None else ())
    if schema is not None:
        rule = "is not what the model was trained with"
        require(trainer.model.schema in (None, schema), "schema", schema_path, rule, "leave it out")
        trainer.model.schema = schema
    before = trainer.model.examples + trainer.model.repeated.examples
    if before and not quiet:
        console.print(f"continuing after {counted(before, 'example')}")
    if reason is not None and not quiet:
        console.print(reason)
    with contextlib.ExitStack() as opened:
        outputs: list[Any] = [standard_output()] if as_json else []
        if summary_path is not None:  # opened before the work, so that a problem shows before it
            outputs.append(Output(summary_path).open_in(opened))
        page = None if report_path is None else Output(report_path).open_in(opened)
        with Progression(console, quiet, trainer.model.settings.auto, about=about) as progression:
            progression.start(trainer.model)
            watched = [progression.watch] if trainer.record is None else [progression.watch, trainer.record.watch]
            model = trainer.run(call_all(watched), progression.passed)
        if model_path is not None:
            model.save(model_path)
        learnt = time.perf_counter()
        shown = seconds > 0.0 and (outputs or page or not quiet)
        with proving(console, seconds if shown else 0.0):
            best = best_losses(model.certificate, seconds) if shown else []
        summary = summary_of(model, radii, best)
        summary["seconds_total"] = learnt - begun
        summary["seconds_learning"] = trainer.seconds_learning
        summary["seconds_certificate"] = time.perf_counter() - learnt
        # A run that goes on has not read everything, and cannot say what matched nothing.
        if workers > 1:
            summary["workers"] = {"threads": workers, **model.team_times._asdict()}
        if passes > 1:
            course = trainer.course.passes
            summary["passes"] = {"done": course.done, "kept": course.kept, "held_out_losses": course.losses}
        summary["unmatched"] = [] if resume or trainer.reader is None else trainer.reader.unmatched
        summary["remarks"] = [] if trainer.reader is None else notes(trainer.reader.remarks)
        summary["order"] = trainer.order.note
        for file in outputs:
            file.write(json_text(summary).encode() + b"\n")
        if page is not None:
            page.write(_page(trainer, best))
    if checkpoint is not None:
        checkpoint.path.unlink(missing_ok=True)
    if not quiet:
        here = progression.learnt + trainer.course.rows
        files = {"model": model_path, "report": report_path}
        say_results(console, summary, trainer, here, before > 0, files, best, radii)


def _page(trainer: Any, best: Any) -> bytes:
    """The report of a run."""
    import shlex

    from giftrl.reports.run_page import run_of

    typed = click.get_current_context().meta.get("giftrl.arguments", ())
    command = shlex.join(["giftrl", *(each for each in typed if each != "--resume")])
    encoded: bytes = run_of(trainer, trainer.record, best, command).page.encoded()
    return encoded


# ``giftrl train --from``: the model to go on with.


def model_of(path: str, options: dict[str, Any]) -> Any:
    """The model of a file, if the options that were given agree with its settings."""
    from giftrl.errors import InvalidInput
    from giftrl.training import LinearModel, Settings

    model, more = LinearModel.load(path)
    if "position" in more:
        raise InvalidInput("from", path, "is the checkpoint of an unfinished run", "use --resume with its command")
    context = click.get_current_context()
    renamed = {"labels": "label_values", "dictionary": "bits"}
    names = {
        renamed.get(name, name)
        for name in context.params
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    }
    given = {name: value for name, value in options.items() if name in names and (name, value) != ("loss", "auto")}
    wanted = Settings.restore(model.settings.state() | given)
    different = wanted.differences(model.settings)
    if different:
        rule = f"was trained with other settings: {'; '.join(different)}"
        raise InvalidInput("from", path, rule, "leave these options out, or train anew")
    return model


# ``giftrl train --cluster``: learn a model on many machines.

#: Options of ``giftrl train`` that a run on a cluster does not have, what they are when they are not given, and why.
WITHOUT = {
    "passes": (1, "a cluster makes one pass", "leave it out"),
    "report_path": (None, "the page is about predictions, which workers do not send back", "leave it out"),
    "predictions": (None, "predictions come in no order from a cluster", "leave it out"),
    "rejects": (None, "a cluster counts rows that cannot be used", "leave it out, or mend the rows first"),
}

#: When to do without a cluster, and what then.
SELDOM, ALONE = "a cluster hardly pays below 100,000,000 rows", "without --cluster one machine does as well"


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
    from giftrl.cli.options import reading_of
    from giftrl.cli.terminal import counted, json_text, proving, standard_error, standard_output
    from giftrl.cli.train import model_of
    from giftrl.distributed import PAYS, train
    from giftrl.distributed.launch import require_place
    from giftrl.distributed.ray_crew import require_cluster
    from giftrl.distributed.shards import about_rows, find_files, source_of
    from giftrl.errors import require
    from giftrl.files import Output, check_outputs
    from giftrl.streams.sources.source import is_url
    from giftrl.training import Checkpoint, Settings
    from giftrl.training.choose_loss import look
    from giftrl.training.summary import best_losses, summary_of

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
        outputs: list[Any] = [standard_output()] if as_json else []
        if summary_path is not None:
            outputs.append(Output(summary_path).open_in(opened))
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
    from giftrl.cli.terminal import counted
    from giftrl.distributed.shards import deal, look_at_files

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
    from giftrl.cli.terminal import counted, decimals

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
