"""Runs of ``giftrl train``: on this machine and on a cluster, with the progress bar and the table of losses."""

import contextlib
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from giftrl.cli.messages import about, notes
from giftrl.cli.options import reading_of
from giftrl.cli.terminal import (
    Bar,
    PlainConsole,
    counted,
    decimals,
    json_text,
    proving,
    standard_error,
    standard_output,
)
from giftrl.errors import InvalidInput, between, require
from giftrl.files import Output, check_outputs
from giftrl.streams.source import find_sources, is_url, require_files
from giftrl.training import Checkpoint, LinearModel, Settings, Trainer
from giftrl.training.checkpoint import require_no_checkpoint
from giftrl.training.choose_loss import chosen_by_rows, look, placeholder_target
from giftrl.training.predictions import shown
from giftrl.training.summary import best_losses, certified_in_words, summary_of

TABLE_HEADS = ("examples", "since last", "average", "label", "prediction", "nonzeros", "lambda")
STATE_COLUMN = TABLE_HEADS.index("lambda")
COLUMN_ENDS = (10, 22, 32, 42, 54, 64, 79)  # the last character of each column, within a terminal of 80


def in_columns(cells: Iterable[str]) -> str:
    """A line of the table. A cell that is too wide for its column uses blanks of the next column.

    >>> in_columns(["1,073,741,824", "0.250000", "0.250000", "1", "-0.4321", "7", "1.391e+04"])
    '1,073,741,824 0.250000  0.250000         1     -0.4321         7      1.391e+04'
    """
    line = ""
    for cell, end in zip(cells, COLUMN_ENDS, strict=True):
        blank = " " if line else ""
        line += blank + cell.rjust(end - len(line) - len(blank))
    return line


def narrow(number: float) -> str:
    """A number in at most 8 characters besides its sign.

    >>> narrow(0.25), narrow(1234.5678), narrow(12345678.9), narrow(-3.14e11)
    ('0.250000', '1234.57', '12345679', '-3.14e+11')
    """
    return decimals(number) if abs(number) < 1e6 else f"{number:.0f}" if abs(number) < 1e8 else f"{number:.2e}"


def cut(text: str) -> str:
    """A text on one line, in at most 10 characters.

    >>> cut("no"), cut("extraordinary"), cut("one\\ntwo")
    ('no', 'extraordi…', 'one\\\\ntwo')
    """
    text = shown(text)
    return text if len(text) <= 10 else f"{text[:9]}…"


def leader(experts: Iterable[tuple[str, float, float]]) -> str:
    """A short name of the expert with the largest share: c10/4 means curvature 10, rate 4.

    >>> leader([("curvature 10, rate 4", 0.2, 1.0), ("adagrad 0.3", -0.5, 2.0), ("coin betting", 0.1, 3.0)])
    'ada0.3'
    """
    name, _, _ = max(experts, key=lambda each: abs(each[1]))
    for long, short in (("curvature ", "c"), (", rate ", "/"), ("adagrad ", "ada"), (" betting", ""), ("full ", "")):
        name = name.replace(long, short)
    return name


def within_norm(radius: float, bound: float, model: Any) -> str:
    """The certificate against models of a Euclidean norm in words; nothing is proved if any loss is above the bound."""
    evidence, weight = model.certificate.evidence, max(model.certified_weight, 1e-300)
    least = 0.0 if evidence is None else evidence.least
    if bound <= least:
        return f"certificate: nothing is proved about linear models of Euclidean norm {radius:g} or less"
    proved = f"has an average loss below {decimals(bound / weight)} on these rows"
    return f"certificate: no linear model of Euclidean norm {radius:g} or less {proved}"


class Progression:
    """The progress bar, and the table of progressive loss that Vowpal Wabbit also prints.

    *since last* is the mean loss since the previous line, and *average* the mean loss since the beginning. *label*,
    *prediction* and *nonzeros* are those of the last example; if labels have names, so has the prediction.
    For a mixture of experts, the column *expert*, in the place of *lambda*, names the
    expert with the largest share of the prediction.

    Args:
        console: where to print, from :func:`giftrl.cli.terminal.standard_error`; there is a bar if it is a terminal.
        quiet: print nothing.
        mixed: whether the learner is a mixture of experts.
        clock: the current time in seconds; tests replace it.
        about: what to print before the table, when the first rows have been learned; it is given the trainer.

    Attributes:
        learned: number of examples watched, those of each pass counted.
    """

    def __init__(
        self, console: Any, quiet: bool, mixed: bool = False, clock: Callable[[], float] = time.perf_counter,
        about: Callable[[Any], list[str]] | None = None,
    ) -> None:  # fmt: skip
        self._console = console
        self._quiet = quiet
        self._mixed = mixed
        self._clock = clock
        self._loss = 0.0
        self._weight = 0.0
        self._began: float | None = None
        self._before = 0  # examples learned before the clock started
        self._bar = Bar(PlainConsole() if quiet else console, "compiling, if this is the first run", clock=clock)
        self._about = about
        self._headed = quiet
        self.learned = 0

    def __enter__(self) -> "Progression":
        self._bar.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._bar.__exit__(*problem)

    def watch(self, trainer: Any, batch: Any, first: int, last: int, predictions: Any) -> None:
        """Update the bar, and add a line to the table when the number of examples is a power of two."""
        model = trainer.model
        self.learned += last - first
        if not self._headed:
            self._head(trainer)
        if self._bar.shown:
            self._move(trainer)
        # After the first pass the loss of rows that are learned says nothing about others.
        if not self._quiet and trainer.passes_done == 0 and model.examples & (model.examples - 1) == 0:
            self.line(model, batch, last - 1, predictions[-1:])

    def start(self, model: Any) -> None:
        """Count from here: what a model learned before is in its average, and not in what comes since."""
        self._loss, self._weight = model.average_loss * model.weight, model.weight

    def _head(self, trainer: Any) -> None:
        """Print what there is to say at the beginning, and the heads of the table."""
        self._headed = True
        heads = list(TABLE_HEADS)
        heads[STATE_COLUMN] = "expert" if self._mixed else heads[STATE_COLUMN]
        about = [] if self._about is None else self._about(trainer)
        self._console.print("\n".join([*about, *([""] if about else []), in_columns(heads)]))

    def passed(self, trainer: Any) -> None:
        """Print the loss on the rows held out, after a pass."""
        losses, held = trainer.held_out_losses, trainer.multi_pass
        if not self._quiet and losses:
            rows = counted(held.rows, "row")
            self._console.print(f"pass {trainer.passes_done}: held-out loss {decimals(losses[-1])} on {rows}")

    def _move(self, trainer: Any) -> None:
        examples, now = trainer.model.examples + trainer.model.repeated.examples, self._clock()
        rate = ""  # the clock starts after the first call, which includes compilation and the examples of a resumed run
        if self._began is None:
            self._began, self._before = now, examples
        else:
            rate = f"{(examples - self._before) / max(1e-9, now - self._began):,.0f}/s"
        fraction = trainer.reader.progress.fraction
        done = None if fraction is None else (trainer.passes_done + fraction) / trainer.passes
        self._bar.move(done, rate)

    def line(self, model: Any, batch: Any, row: int, score: Any) -> None:
        """Print a line of the table; ``score`` has those of the last example."""
        weight = model.weight
        loss = model.average_loss * weight
        since = (loss - self._loss) / (weight - self._weight) if weight > self._weight else 0.0
        self._loss, self._weight = loss, weight
        state = leader(model.learner.experts) if self._mixed else f"{model.learner.lam:.4g}"
        settings, label = model.settings, f"{batch.labels[row]:.7g}"
        if settings.label_values is None:
            shown = f"{score[0]:.4f}" if abs(score[0]) < 1e4 else narrow(score[0])
        else:
            predicted = model.decide(score)[0]
            shown = cut(predicted) if settings.label_names else f"{predicted:.7g}"
            label = cut(settings.class_names[int(batch.labels[row])]) if settings.label_names else label
        cells = (
            f"{model.examples:,}", narrow(since), narrow(model.average_loss), label, shown,
            f"{batch.indptr[row + 1] - batch.indptr[row]}", state,
        )  # fmt: skip
        self._console.print(in_columns(cells))


EXAMPLES_BETWEEN_CHECKPOINTS = 10_000_000  # unless --checkpoint-every says otherwise


class TrainingRun:
    """One call of ``giftrl train``: sources and settings, outputs, and the lines that are printed.

    Args:
        data: the names of sources.
        options: all other options.
        begun: the time at which the command began, start-up included.
    """

    workers = 1

    def __init__(self, data: tuple[str, ...], options: dict[str, Any], begun: float) -> None:
        self.begun = begun
        take = options.pop
        self.data, self.from_path, self.resume = data, take("from_path"), take("resume")
        self.model_path, self.summary_path = take("model_path"), take("summary_path")
        self.report_path, self.predictions = take("report_path"), take("predictions")
        self.workers = take("workers") or self.workers
        self.passes, self.holdout = take("passes"), take("holdout")
        self.radii, self.seconds, self.as_json = take("radii"), take("seconds"), take("as_json")
        self.quiet = take("quiet") or self.as_json
        self.console = standard_error(self.quiet)
        self._check(options)
        every = take("checkpoint_every")
        self.checkpoint: Checkpoint | None = None
        if every is not None or self.resume:
            rule = "is needed for checkpoints, which are written beside it"
            require(self.model_path is not None, "model", None, rule, "add --model FILE")
            self.checkpoint = Checkpoint(Path(f"{self.model_path}.checkpoint"), every or EXAMPLES_BETWEEN_CHECKPOINTS)
        self.schema_path = options["schema"]
        self.reading = reading_of(options)
        options["label_values"], dictionary = take("labels"), take("dictionary")
        self.settings = options | ({"bits": None} if dictionary else {})
        self.opened: dict[str, Any] = {}

    def execute(self) -> None:
        """Train, write the outputs, and print the results."""
        self.check_files()
        self.prepare()
        with contextlib.ExitStack() as opened:
            # Opened before the work, so that a problem shows before it.
            outputs: list[Any] = [standard_output()] if self.as_json else []
            if self.summary_path is not None:
                outputs.append(Output(self.summary_path).open_in(opened))
            page = None if self.report_path is None else Output(self.report_path).open_in(opened)
            model = self.learn()
            if self.model_path is not None:
                model.save(self.model_path)
            learned = time.perf_counter()
            shown = self.seconds > 0.0 and (outputs or page or not self.quiet)
            with proving(self.console, self.seconds if shown else 0.0):
                best = best_losses(model.certificate, self.seconds) if shown else []
            summary = summary_of(model, self.radii, best)
            summary["seconds_total"] = learned - self.begun
            summary["seconds_certificate"] = time.perf_counter() - learned
            summary |= self.facts()
            for file in outputs:
                file.write(json_text(summary).encode() + b"\n")
            if page is not None:
                page.write(self.page(best))
        if self.checkpoint is not None:
            self.checkpoint.path.unlink(missing_ok=True)
        self.tell("\n".join(self.results(summary, best)))

    def tell(self, text: str) -> None:
        """Print a message on standard error."""
        if not self.quiet:
            self.console.print(text)

    def _check(self, options: dict[str, Any]) -> None:
        """Raise an error for options that exclude each other."""
        twice = "-" in self.data and (self.resume or self.passes > 1)
        require(not twice, "data", "-", "cannot be read twice", "give a file for --resume and --passes")
        rule = "must be the name of a file"
        require(self.report_path != "-", "report", self.report_path, rule, "write --report run.html")

    def check_files(self) -> None:
        """Raise an error for inputs that cannot be read, and for outputs that cannot be written."""
        self.sources = find_sources(self.data)
        self._check_outputs(["-" if source.path is None else str(source.path) for source in self.sources])
        if self.model_path is not None and not self.resume:
            require_no_checkpoint(Path(f"{self.model_path}.checkpoint"))

    def _check_outputs(self, files: list[str]) -> None:
        inputs = {"data": files, "from": [self.from_path] if self.from_path else []}
        inputs["schema"] = [self.schema_path] if self.schema_path else []
        checkpoint = None if self.checkpoint is None else str(self.checkpoint.path)
        outputs = {
            "model": self.model_path, "checkpoint": checkpoint, "summary": self.summary_path,
            "report": self.report_path, "rejects": self.reading["rejects"], "predictions": self.predictions,
        }  # fmt: skip
        check_outputs(inputs, outputs, files_only=["model", "checkpoint"], kept=[("from", "model")])

    def model(self, sources: Sequence[Any]) -> tuple[Any, str | None]:
        """The model to train, and the reason for its loss if the first rows chose it."""
        if self.from_path is not None:
            return model_of(self.from_path, self.settings), None
        given = self.settings["loss"], self.settings["label_values"]
        if self.resume and self.checkpoint_has_target:
            target = placeholder_target(*given)
        else:
            target, self.opened = look(sources, *given, **self.reading)
        chosen = {"loss": target.loss, "label_values": target.label_values}
        return LinearModel(Settings(**self.settings | chosen)), target.reason

    #: A resumed run takes loss and labels from its checkpoint, and does not look at the first rows again.
    checkpoint_has_target = True

    def prepare(self) -> None:
        """Make the model and its trainer, and say how they begin."""
        if self.passes > 1:
            require_files([source.name for source in self.sources])
        model, reason = self.model(self.sources)
        schema = self.reading.pop("schema")
        self.trainer = trainer = Trainer(
            model, self.data, found=self.sources, checkpoint=self.checkpoint, opened=self.opened, passes=self.passes,
            holdout=self.holdout, workers=self.workers, predictions=self.predictions, **self.reading,
        )  # fmt: skip
        if self.report_path is not None:
            from giftrl.reports.record import Record

            trainer.record = Record(model.examples)
        if self.resume:
            given = self.settings["loss"], self.settings["label_values"]
            trainer.resume(chosen_by_rows(*given) if self.from_path is None else ())
        if schema is not None:
            rule = "is not what the model was trained with"
            require(trainer.model.schema in (None, schema), "schema", self.schema_path, rule, "leave it out")
            trainer.model.schema = schema
        self.learned_before = trainer.learned
        if self.learned_before:
            self.tell(f"continuing after {counted(self.learned_before, 'example')}")
        if reason is not None:
            self.tell(reason)

    def learn(self) -> Any:
        """Train the model, with a progress bar and a table."""
        trainer = self.trainer
        with Progression(self.console, self.quiet, trainer.model.settings.auto, about=about) as self.progression:
            self.progression.start(trainer.model)
            watches = [self.progression.watch] + ([] if trainer.record is None else [trainer.record.watch])

            def watch(*piece: Any) -> None:
                for each in watches:
                    each(*piece)

            return trainer.run(watch, self.progression.passed)

    def facts(self) -> dict[str, Any]:
        """The part of the summary that is about this run and not about the model."""
        trainer, facts = self.trainer, dict[str, Any]()
        facts["seconds_learning"] = trainer.seconds_learning
        if self.workers > 1:
            facts["workers"] = {"threads": self.workers, **trainer.model.team_times._asdict()}
        if trainer.multi_pass is not None:
            passes = trainer.multi_pass.passes
            facts["passes"] = {"done": passes.done, "kept": passes.kept, "held_out_losses": passes.losses}
        # A resumed run has not read everything, and cannot say what matched nothing.
        facts["unmatched"] = [] if self.resume or trainer.reader is None else trainer.reader.unmatched
        facts["remarks"] = [] if trainer.reader is None else notes(trainer.reader.remarks)
        facts["order"] = trainer.sorted_labels.note
        return facts

    def page(self, best: Any) -> bytes:
        """The report of the run."""
        from giftrl.reports.run_page import run_of

        typed = click.get_current_context().meta.get("giftrl.arguments", ())
        command = shlex.join(["giftrl", *(word for word in typed if word != "--resume")])
        encoded: bytes = run_of(self.trainer, self.trainer.record, best, command).page.encoded()
        return encoded

    def results(self, summary: dict[str, Any], best: Any) -> list[str]:
        """The lines that are printed at the end."""
        model, seconds, passes = self.trainer.model, summary["seconds_total"], summary.get("passes")
        held = 0 if self.trainer.multi_pass is None else self.trainer.multi_pass.rows
        learned = self.progression.learned + held
        rate = f"{seconds:.1f} s ({learned / max(seconds, 1e-9):,.0f} a second, start-up included)"
        since = " since going on" if self.learned_before else ""
        over = f" in {counted(passes['done'], 'pass', 'passes')}" if passes and not since else ""
        learnt = " learnt" if since or over else ""
        lines = [counts_of(summary), f"{counted(learned, 'example')}{learnt}{since}{over} in {rate}"]
        if "workers" in summary:
            lines.append(_threads_in_words(**summary["workers"]))
        if summary["rejected"]:
            was = "was" if summary["rejected"] == 1 else "were"
            lines.append(f"{counted(summary['rejected'], 'row')} could not be used and {was} skipped")
        first = " in the first pass" if passes else ""
        lines.append(f"average loss {decimals(summary['average_loss'])}{first}")
        if passes and passes["held_out_losses"]:
            loss, kept = decimals(min(passes["held_out_losses"])), passes["kept"]
            lines.append(f"held-out loss {loss} after pass {kept} of {passes['done']}, whose model is kept")
        if self.radii:
            for radius, bounds in summary["certificate"]["radius"].items():
                lines.append(within_norm(float(radius), bounds["best_loss_lower_bound"], model))
        names = model.features.report()
        if names.collided:
            share = f"{'' if names.exact else 'about '}{names.collided:,} of {names.names:,} names share a coordinate"
            remedy = f"(--bits {model.settings.bits}); more bits, or --dictionary, tell them apart"
            lines.append(f"{share} with another {remedy}")
        lines += [f"note: {note}" for note in (*summary["unmatched"], summary["order"]) if note is not None]
        files = {"model": self.model_path, "report": self.report_path}
        lines += [f"{name} written to {path}" for name, path in files.items() if path is not None]
        if best:
            lines.append(f"certificate: {best[0].in_words(best[1])} {certified_in_words(model)}".rstrip())
        return lines


def counts_of(summary: dict[str, Any]) -> str:
    """The examples, features and nonzeros of a summary, after an empty line."""
    return "\n" + ", ".join(counted(summary[f"{noun}s"], noun) for noun in ("example", "feature", "nonzero"))


def _threads_in_words(threads: int, merges: int, merging: float, together: float) -> str:
    """The work of several threads.

    >>> _threads_in_words(2, 0, 0.0, 0.0)
    '2 workers: too few rows to share, so one of them learnt all'
    >>> _threads_in_words(2, 20, 0.5, 1.5)
    '2 workers: 1.5 s of learning side by side, 0.5 s in 20 merges'
    """
    if merges == 0:
        return f"{threads} workers: too few rows to share, so one of them learnt all"
    times = f"{together:.1f} s of learning side by side, {merging:.1f} s in {counted(merges, 'merge')}"
    return f"{threads} workers: {times}"


def model_of(path: str, settings: dict[str, Any]) -> Any:
    """The model of ``--from``, if the options that were given agree with its settings."""
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
    given = {name: value for name, value in settings.items() if name in names and (name, value) != ("loss", "auto")}
    different = Settings.restore(model.settings.state() | given).differences(model.settings)
    if different:
        rule = ["was trained with other settings: ", *between(different, "; ")]
        raise InvalidInput("from", path, rule, "leave these options out, or train anew")
    return model


#: Options that a run on a cluster does not have, their values when they are not given, and the reason.
NOT_ON_A_CLUSTER = {
    "passes": (1, "a cluster makes one pass", "leave it out"),
    "report_path": (None, "the page is about predictions, which workers do not send back", "leave it out"),
    "predictions": (None, "predictions come in no order from a cluster", "leave it out"),
    "rejects": (None, "a cluster counts rows that cannot be used", "leave it out, or mend the rows first"),
}
#: When to do without a cluster, and the alternative.
SELDOM, ALONE = "a cluster hardly pays below 100,000,000 rows", "without --cluster one machine does as well"


class ClusterRun(TrainingRun):
    """One call of ``giftrl train --cluster``."""

    workers = 16
    checkpoint_has_target = False

    def __init__(self, data: tuple[str, ...], options: dict[str, Any], begun: float, cluster: str) -> None:
        self.cluster = cluster
        super().__init__(data, options, begun)
        self.reading.pop("rejects")
        self.costs: dict[str, Any] = {}
        self._next_line = 0

    def _check(self, options: dict[str, Any]) -> None:
        from giftrl.distributed.ray_crew import require_cluster

        given = {"passes": self.passes, "report_path": self.report_path, "predictions": self.predictions}
        given["rejects"] = options["rejects"]
        for name, (default, rule, remedy) in NOT_ON_A_CLUSTER.items():
            require(given[name] == default, name.removesuffix("_path"), given[name], rule, remedy)
        require_cluster(self.cluster)

    def check_files(self) -> None:
        from giftrl.distributed.launch import require_place
        from giftrl.distributed.shards import find_files

        if self.checkpoint is not None:
            require_place(self.checkpoint.path, self.resume)
        self.files = find_files(self.data)
        self.reading["rejects"] = None
        self._check_outputs([file.name for file in self.files if not is_url(file.name)])
        del self.reading["rejects"]

    def prepare(self) -> None:
        from giftrl.distributed import PAYS
        from giftrl.distributed.shards import about_rows, source_of

        about = about_rows(self.files, self.reading["format"])
        self.small = about is not None and about.rows < PAYS
        if self.small:
            self.tell(f"note: {SELDOM}, and there are {about} here; {ALONE}")
        if not self.quiet:
            self._tell_idle_workers()
        self.trained, reason = self.model([source_of(file.name) for file in self.files])
        self.learned_before = self.trained.examples
        if self.from_path is not None:
            self.tell(f"continuing after {counted(self.learned_before, 'example')}")
        if reason is not None:
            self.tell(reason)

    def _tell_idle_workers(self) -> None:
        from giftrl.distributed.shards import deal, look_at_files

        files, workers = self.files, self.workers
        if len(files) >= workers:
            return
        shards = look_at_files(files, self.reading["format"], self.reading["columns"], self.reading["schema"]).files
        busy = sum(map(bool, deal(shards, workers)))
        if busy == workers:
            return
        have = "has" if workers - busy == 1 else "have"
        whole = all(not file.lines for file in shards)
        why = "files of this kind are read as a whole" if whole else "the data is too small to be cut into more parts"
        are = f"there {'is' if len(files) == 1 else 'are'} {counted(len(files), 'file')}"
        idle = f"{workers - busy} of {workers} workers {have} nothing to read"
        self.tell(f"note: {idle}: {are}, and {why}; --workers {busy} does as well")

    def learn(self) -> Any:
        from giftrl.distributed import train

        self.trained = train(
            self.trained, self.data, workers=self.workers, cluster=self.cluster, checkpoint=self.checkpoint,
            resume=self.resume, after=self._watch, **self.reading,
        )  # fmt: skip
        return self.trained

    def _watch(self, driver: Any) -> None:
        """Print a line each time the number of rows has doubled, and keep the costs of the run."""
        self.costs = asdict(driver.costs) | {"rows_a_second_and_worker": driver.costs.rows_a_second}
        rows = driver.model.examples
        if rows >= self._next_line:
            self._next_line = 2 * rows
            self.tell(f"{rows:>15,} examples, average loss {driver.model.average_loss:.6f}")

    def facts(self) -> dict[str, Any]:
        return {"cluster": {"workers": self.workers} | self.costs}

    def results(self, summary: dict[str, Any], best: Any) -> list[str]:
        from giftrl.distributed import PAYS

        costs, seconds = summary["cluster"], summary["seconds_total"]
        lines = [counts_of(summary)]
        if summary["rejected"]:
            lines.append(f"{counted(summary['rejected'], 'row')} could not be used and were skipped")
        lines += [
            f"average loss {decimals(summary['average_loss'])}",
            f"{seconds:.1f} s with {counted(costs['workers'], 'worker')}, start-up included",
        ]
        if costs.get("rounds"):
            rate, merging = costs["rows_a_second_and_worker"], costs["seconds_merging"]
            moved = f"{costs['bytes_moved'] / 1e6:,.1f} MB moved"
            rounds = counted(costs["rounds"], "round")
            lines.append(f"{rounds}: {rate:,.0f} rows a second and worker, {merging:.1f} s in merging, {moved}")
            if costs["repeated"]:
                lines.append(f"{counted(costs['repeated'], 'order')} carried out twice, as workers died or were slow")
        if not self.small and self.trained.examples - self.learned_before < PAYS:
            lines.append(f"note: {SELDOM}; {ALONE}")
        if self.model_path is not None:
            lines.append(f"model written to {self.model_path}")
        if best:
            lines.append(f"certificate: {best[0].in_words(best[1])}")
        return lines
