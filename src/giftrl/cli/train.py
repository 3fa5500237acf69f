"""``giftrl train``: learn a model from a stream, on this machine or on a cluster."""

import contextlib
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from giftrl import losses, updates
from giftrl.cli.options import (
    VowpalWabbitHints,
    certificate_option,
    feature_options,
    input_options,
    label_list,
    parameter_list,
    quiet_option,
    radius_option,
    reading_of,
    schema_option,
)
from giftrl.cli.terminal import Progression, counted, decimals, json_text, proving, standard_error, standard_output
from giftrl.errors import InvalidInput, between, require
from giftrl.files import Output, check_outputs


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
    help="With more than one pass, hold out every Nth example (later ever fewer) for early stopping. The best model "
    "is kept, and learns them in the end. 0 disables it.",
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
    help="The maximum number of nonzeros to store for the certificate (12 bytes each). 0: no bound on the best loss.",
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
def train_command(data: tuple[str, ...], cluster: str | None, **options: Any) -> None:
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
    (TrainingRun if cluster is None else ClusterRun)(data, cluster, begun, options).execute()


EXAMPLES_BETWEEN_CHECKPOINTS = 10_000_000  # unless --checkpoint-every says otherwise


class TrainingRun:
    """One call of ``giftrl train``: sources and settings, outputs, and the lines that are printed.

    Args:
        data: the names of sources.
        cluster: the address of a cluster, or None.
        begun: the time at which the command began, start-up included.
        options: all other options, by name.
    """

    default_workers = 1
    #: A resumed run takes loss and labels from its checkpoint instead of the first rows.
    checkpoint_has_target = True

    def __init__(self, data: tuple[str, ...], cluster: str | None, begun: float, options: dict[str, Any]) -> None:
        from giftrl.training import Checkpoint, Settings

        self.data, self.cluster, self.begun = data, cluster, begun
        self.given: Any = SimpleNamespace(**options)
        given = self.given
        self.workers = given.workers or self.default_workers
        self.quiet = given.quiet or given.as_json
        self.console = standard_error(self.quiet)
        self.check_options()
        self.checkpoint: Checkpoint | None = None
        if given.checkpoint_every is not None or given.resume:
            rule = "is needed for checkpoints, which are written beside it"
            require(given.model_path is not None, "model", None, rule, "add --model FILE")
            every = given.checkpoint_every or EXAMPLES_BETWEEN_CHECKPOINTS
            self.checkpoint = Checkpoint(Path(f"{given.model_path}.checkpoint"), every)
        self.reading = reading_of(options)
        options |= {"label_values": given.labels} | ({"bits": None} if given.dictionary else {})
        self.settings = {field.name: options[field.name] for field in fields(Settings)}
        self.opened: dict[str, Any] = {}

    def execute(self) -> None:
        """Train, write the outputs, and print the results."""
        from giftrl.training.model import best_losses, summary_of

        given = self.given
        self.check_files()
        self.prepare()
        with contextlib.ExitStack() as opened:
            # Opened before training, to fail early.
            outputs: list[Any] = [standard_output()] if given.as_json else []
            if given.summary_path is not None:
                outputs.append(Output(given.summary_path).open_in(opened))
            page = None if given.report_path is None else Output(given.report_path).open_in(opened)
            model = self.learn()
            if given.model_path is not None:
                model.save(given.model_path)
            learned = time.perf_counter()
            shown = given.seconds > 0.0 and (outputs or page or not self.quiet)
            with proving(self.console, given.seconds if shown else 0.0):
                best = best_losses(model.certificate, given.seconds) if shown else []
            summary = summary_of(model, given.radii, best)
            summary["seconds_total"] = learned - self.begun
            summary["seconds_certificate"] = time.perf_counter() - learned
            summary |= self.facts()
            for file in outputs:
                file.write(json_text(summary).encode() + b"\n")
            if page is not None:
                page.write(self.page(best))
        if self.checkpoint is not None:
            self.checkpoint.path.unlink(missing_ok=True)
        self.tell("\n".join(["", *self.results(model, summary, best)]))

    def tell(self, text: str | None) -> None:
        """Print a message on standard error, if there is one."""
        if text is not None and not self.quiet:
            self.console.print(text)

    def check_options(self) -> None:
        """Raise an error for options that exclude each other."""
        twice = "-" in self.data and (self.given.resume or self.given.passes > 1)
        require(not twice, "data", "-", "cannot be read twice", "give a file for --resume and --passes")
        page = self.given.report_path
        require(page != "-", "report", page, "must be the name of a file", "write --report run.html")

    def check_files(self) -> None:
        """Raise an error for inputs that cannot be read, and for outputs that cannot be written."""
        from giftrl.streams.source import find_sources, require_files
        from giftrl.training.trainer import require_no_checkpoint

        self.sources = find_sources(self.data)
        self.check_outputs(["-" if source.path is None else str(source.path) for source in self.sources])
        if self.given.model_path is not None and not self.given.resume:
            require_no_checkpoint(Path(f"{self.given.model_path}.checkpoint"))
        if self.given.passes > 1:
            require_files([source.name for source in self.sources])

    def check_outputs(self, files: list[str]) -> None:
        """Raise an error if an output is one of these files, another input or output, or cannot be written."""
        given = self.given
        named = {"from": given.from_path, "schema": given.schema}
        inputs = {"data": files} | {name: [path] for name, path in named.items() if path is not None}
        outputs = {
            "model": given.model_path, "checkpoint": self.checkpoint and str(self.checkpoint.path),
            "summary": given.summary_path, "report": given.report_path, "rejects": given.rejects,
            "predictions": given.predictions,
        }  # fmt: skip
        check_outputs(inputs, outputs, files_only=["model", "checkpoint"], kept=[("from", "model")])

    def model(self, sources: Sequence[Any]) -> tuple[Any, str | None]:
        """The model to train, and an explanation if the loss was chosen from the first rows."""
        from giftrl.training import LinearModel, Settings
        from giftrl.training.settings import look, placeholder_target

        if self.given.from_path is not None:
            return self.earlier_model(), None
        loss, labels = self.settings["loss"], self.settings["label_values"]
        if self.given.resume and self.checkpoint_has_target:
            target = placeholder_target(loss, labels)
        else:
            target, self.opened = look(sources, loss, labels, **self.reading)
        chosen = {"loss": target.loss, "label_values": target.label_values}
        return LinearModel(Settings(**self.settings | chosen)), target.reason

    def earlier_model(self) -> Any:
        """The model of ``--from``; raises an error if given options contradict its settings."""
        from giftrl.training import LinearModel, Settings

        path = self.given.from_path
        model, more = LinearModel.load(path)
        if "position" in more:
            raise InvalidInput("from", path, "is the checkpoint of an unfinished run", "use --resume with its command")
        context, default = click.get_current_context(), click.core.ParameterSource.DEFAULT
        typed = {name for name in context.params if context.get_parameter_source(name) is not default}
        renamed = {"labels": "label_values", "dictionary": "bits"}
        names = {renamed.get(name, name) for name in typed}
        stated = {name: self.settings[name] for name in names & self.settings.keys()}
        if stated.get("loss") == "auto":
            del stated["loss"]
        different = Settings.restore(model.settings.state() | stated).differences(model.settings)
        rule = ["was trained with other settings: ", *between(different, "; ")]
        require(not different, "from", path, rule, "leave these options out, or train anew")
        return model

    def prepare(self) -> None:
        """Create the model and its trainer, and print how they start."""
        from giftrl.training import Trainer
        from giftrl.training.settings import chosen_by_rows

        given = self.given
        model, reason = self.model(self.sources)
        schema = self.reading.pop("schema")
        self.trainer = trainer = Trainer(
            model, self.data, found=self.sources, checkpoint=self.checkpoint, opened=self.opened, passes=given.passes,
            holdout=given.holdout, workers=self.workers, predictions=given.predictions, **self.reading,
        )  # fmt: skip
        if given.report_path is not None:
            from giftrl.reports.record import Record

            trainer.record = Record(model.examples)
        if given.resume:
            chosen = chosen_by_rows(given.loss, given.labels) if given.from_path is None else ()
            trainer.resume(chosen)
        if schema is not None:
            rule = "is not what the model was trained with"
            require(trainer.model.schema in (None, schema), "schema", given.schema, rule, "leave it out")
            trainer.model.schema = schema
        self.learned_before = trainer.learned
        if self.learned_before:
            self.tell(f"continuing after {counted(self.learned_before, 'example')}")
        self.tell(reason)

    def learn(self) -> Any:
        """Train the model, with a progress bar and a table, and return it."""
        trainer = self.trainer
        with Progression(self.console, self.quiet, trainer.model.settings.auto, about=about_data) as self.progression:
            self.progression.start(trainer.model)
            watches = [self.progression.watch] + ([] if trainer.record is None else [trainer.record.watch])

            def watch(*piece: Any) -> None:
                for each in watches:
                    each(*piece)

            return trainer.run(watch, self.progression.passed)

    def facts(self) -> dict[str, Any]:
        """The part of the summary about this run."""
        trainer = self.trainer
        facts: dict[str, Any] = {"seconds_learning": trainer.seconds_learning}
        if self.workers > 1:
            facts["workers"] = {"threads": self.workers, **asdict(trainer.model.team_times)}
        if trainer.multi_pass is not None:
            passes = trainer.multi_pass.passes
            facts["passes"] = {"done": passes.done, "kept": passes.kept, "held_out_losses": passes.losses}
        # A resumed run has not read all rows, so it cannot report unmatched options.
        facts["unmatched"] = [] if self.given.resume or trainer.reader is None else trainer.reader.unmatched
        facts["remarks"] = [] if trainer.reader is None else remarks_of(trainer.reader)
        facts["order"] = trainer.sorted_labels.note
        return facts

    def page(self, best: Any) -> bytes:
        """The report of the run."""
        from giftrl.reports.run_page import run_of

        typed = click.get_current_context().meta.get("giftrl.arguments", ())
        command = shlex.join(["giftrl", *(word for word in typed if word != "--resume")])
        encoded: bytes = run_of(self.trainer, self.trainer.record, best, command).page.encoded()
        return encoded

    def results(self, model: Any, summary: dict[str, Any], best: Any) -> list[str]:
        """The lines that are printed at the end."""
        from giftrl.training.model import certified_in_words

        seconds, passes, held = summary["seconds_total"], summary.get("passes"), self.trainer.multi_pass
        learned = self.progression.learned + (0 if held is None else held.rows)
        rate = f"{seconds:.1f} s ({learned / max(seconds, 1e-9):,.0f} a second, start-up included)"
        scope = f" in {counted(passes['done'], 'pass', 'passes')}" if passes else ""
        scope = " since going on" if self.learned_before else scope
        lines = [counts_of(summary), f"{counted(learned, 'example')}{' learned' if scope else ''}{scope} in {rate}"]
        if "workers" in summary:
            lines.append(_threads_in_words(**summary["workers"]))
        lines += _skipped(summary["rejected"])
        lines.append(f"average loss {decimals(summary['average_loss'])}{' in the first pass' if passes else ''}")
        if passes and passes["held_out_losses"]:
            loss, kept = decimals(min(passes["held_out_losses"])), passes["kept"]
            lines.append(f"held-out loss {loss} after pass {kept} of {passes['done']}, whose model is kept")
        if self.given.radii:
            for radius, bounds in summary["certificate"]["radius"].items():
                lines.append(within_norm(float(radius), bounds["best_loss_lower_bound"], model))
        names = model.features.report()
        if names.collided:
            share = f"{'' if names.exact else 'about '}{names.collided:,} of {names.names:,} names share a coordinate"
            remedy = f"(--bits {model.settings.bits}); more bits, or --dictionary, tell them apart"
            lines.append(f"{share} with another {remedy}")
        lines += [f"note: {note}" for note in (*summary["unmatched"], summary["order"]) if note is not None]
        files = {"model": self.given.model_path, "report": self.given.report_path}
        lines += [f"{name} written to {path}" for name, path in files.items() if path is not None]
        if best:
            lines.append(f"certificate: {best[0].in_words(best[1])} {certified_in_words(model)}".rstrip())
        return lines


def about_data(trainer: Any) -> list[str]:
    """The meaning of the columns of the data, and remarks about them."""
    reader, schema = trainer.reader, trainer.model.schema
    remarks = remarks_of(reader)
    if schema is None:
        return [f"note: {remark}" for remark in remarks]
    from giftrl.cli.messages import NO_FEATURES, in_lines

    json = set(reader.formats.values()) == {"json"}
    if not json and set(schema.kinds) <= {"label", "weight", "ignored"}:
        remarks.append(NO_FEATURES)
    return [*in_lines(schema, json), *(f"note: {remark}" for remark in remarks)]


def remarks_of(reader: Any) -> list[str]:
    """Remarks of a reader, with the options of this command."""
    if not reader.remarks:
        return []
    from giftrl.cli.messages import notes

    return notes(reader.remarks)


def within_norm(radius: float, bound: float, model: Any) -> str:
    """Describe the certificate against models of a Euclidean norm; a trivial bound proves nothing."""
    evidence, weight = model.certificate.evidence, max(model.certified_weight, 1e-300)
    least = 0.0 if evidence is None else evidence.least
    if bound <= least:
        return f"certificate: nothing is proved about linear models of Euclidean norm {radius:g} or less"
    proved = f"has an average loss below {decimals(bound / weight)} on these rows"
    return f"certificate: no linear model of Euclidean norm {radius:g} or less {proved}"


def counts_of(summary: dict[str, Any]) -> str:
    """The examples, features and nonzeros of a summary."""
    return ", ".join(counted(summary[f"{noun}s"], noun) for noun in ("example", "feature", "nonzero"))


def _skipped(rows: int) -> list[str]:
    """A line about rows that were skipped, if there are any."""
    return [f"{counted(rows, 'row')} could not be used and {'was' if rows == 1 else 'were'} skipped"] if rows else []


def _threads_in_words(threads: int, merges: int, merging: float, together: float) -> str:
    """The work of several threads.

    >>> _threads_in_words(2, 20, 0.5, 1.5)
    '2 workers: 1.5 s of learning side by side, 0.5 s in 20 merges'
    """
    if merges == 0:
        return f"{threads} workers: too few rows to share, so one of them learned all"
    times = f"{together:.1f} s of learning side by side, {merging:.1f} s in {counted(merges, 'merge')}"
    return f"{threads} workers: {times}"


#: Options not available on a cluster, their defaults, and the reason.
NOT_ON_A_CLUSTER = {
    "passes": (1, "a cluster makes one pass", "leave it out"),
    "report_path": (None, "the page is about predictions, which workers do not send back", "leave it out"),
    "predictions": (None, "predictions come in no order from a cluster", "leave it out"),
    "rejects": (None, "a cluster counts rows that cannot be used", "leave it out, or mend the rows first"),
}
#: A hint when a cluster is unnecessary, and the alternative.
SELDOM, ALONE = "a cluster hardly pays below 100,000,000 rows", "without --cluster one machine does as well"


class ClusterRun(TrainingRun):
    """One call of ``giftrl train --cluster``."""

    default_workers = 16
    checkpoint_has_target = False

    def check_options(self) -> None:
        from giftrl.distributed.ray_crew import require_cluster

        for name, (default, rule, remedy) in NOT_ON_A_CLUSTER.items():
            value = getattr(self.given, name)
            require(value == default, name.removesuffix("_path"), value, rule, remedy)
        require_cluster(self.cluster)

    def check_files(self) -> None:
        from giftrl.distributed.shards import find_files
        from giftrl.streams.source import is_url
        from giftrl.training.trainer import require_place

        if self.checkpoint is not None:
            require_place(self.checkpoint.path, self.given.resume)
        self.files = find_files(self.data)
        self.check_outputs([file.name for file in self.files if not is_url(file.name)])

    def prepare(self) -> None:
        from giftrl.distributed import PAYS
        from giftrl.distributed.shards import look_at_files, source_of

        reading = self.reading
        look = look_at_files(self.files, reading["format"], reading["columns"], reading["schema"])
        about = look.about
        self.small = about is not None and about.rows < PAYS
        if self.small:
            self.tell(f"note: {SELDOM}, and there are {about} here; {ALONE}")
        if not self.quiet and len(self.files) < self.workers:
            self.tell_idle_workers(look.files)
        self.trained, reason = self.model([source_of(file.name) for file in self.files])
        self.learned_before = self.trained.examples
        if self.given.from_path is not None:
            self.tell(f"continuing after {counted(self.learned_before, 'example')}")
        self.tell(reason)

    def tell_idle_workers(self, files: Sequence[Any]) -> None:
        """Report workers without data, if any."""
        from giftrl.distributed.shards import deal

        workers = self.workers
        busy = sum(map(bool, deal(files, workers)))
        if busy == workers:
            return
        have = "has" if workers - busy == 1 else "have"
        whole = all(not file.lines for file in files)
        why = "files of this kind are read as a whole" if whole else "the data is too small to be cut into more parts"
        are = f"there {'is' if len(files) == 1 else 'are'} {counted(len(files), 'file')}"
        idle = f"{workers - busy} of {workers} workers {have} nothing to read"
        self.tell(f"note: {idle}: {are}, and {why}; --workers {busy} does as well")

    def learn(self) -> Any:
        from giftrl.distributed import train

        costs: dict[str, Any] = {}
        next_line = 0

        def merged(driver: Any) -> None:
            """Print a line whenever the number of rows has doubled, and store the costs of the run."""
            nonlocal costs, next_line
            costs = asdict(driver.costs) | {"rows_a_second_and_worker": driver.costs.rows_a_second}
            rows = driver.model.examples
            if rows >= next_line:
                next_line = 2 * rows
                self.tell(f"{rows:>15,} examples, average loss {driver.model.average_loss:.6f}")

        del self.reading["rejects"]
        model = train(
            self.trained, self.data, workers=self.workers, cluster=self.cluster, checkpoint=self.checkpoint,
            resume=self.given.resume, after=merged, **self.reading,
        )  # fmt: skip
        self.costs = costs
        return model

    def facts(self) -> dict[str, Any]:
        return {"cluster": {"workers": self.workers} | self.costs}

    def results(self, model: Any, summary: dict[str, Any], best: Any) -> list[str]:
        from giftrl.distributed import PAYS

        costs, seconds = summary["cluster"], summary["seconds_total"]
        lines = [
            counts_of(summary), *_skipped(summary["rejected"]), f"average loss {decimals(summary['average_loss'])}",
            f"{seconds:.1f} s with {counted(costs['workers'], 'worker')}, start-up included",
        ]  # fmt: skip
        if costs.get("rounds"):
            rate, merging = costs["rows_a_second_and_worker"], costs["seconds_merging"]
            moved = f"{costs['bytes_moved'] / 1e6:,.1f} MB moved"
            rounds = counted(costs["rounds"], "round")
            lines.append(f"{rounds}: {rate:,.0f} rows a second and worker, {merging:.1f} s in merging, {moved}")
            if costs["repeated"]:
                lines.append(f"{counted(costs['repeated'], 'order')} carried out twice, as workers died or were slow")
        if not self.small and model.examples - self.learned_before < PAYS:
            lines.append(f"note: {SELDOM}; {ALONE}")
        if self.given.model_path is not None:
            lines.append(f"model written to {self.given.model_path}")
        if best:
            lines.append(f"certificate: {best[0].in_words(best[1])}")
        return lines
