"""The page about a run, of the command line or of an estimator: results, diagnostics, weights, data and settings."""

import math
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, cast

import numpy as np

from giftrl.certificates import BestLoss
from giftrl.config.predictor import link_of, losses_of
from giftrl.ops.vector_loss import multiclass
from giftrl.reports import diagnostics
from giftrl.reports import page as html
from giftrl.reports.diagnostics import Confusion, FeatureWeight, LearningCurve, Ranking, Residuals
from giftrl.reports.page import Page
from giftrl.reports.record import Record
from giftrl.reports.wording import amount, counted, listed, loss_in_words, loss_name, printable, quoted
from giftrl.streams.columns import Kind
from giftrl.training import Trainer
from giftrl.training.model import certified_in_words, largest_weights, summary_of

#: The libraries whose versions a page names.
LIBRARIES = ("giftrl", "numpy", "numba", "scipy", "pyarrow")
#: The largest number of columns of real labels with figures.
MAX_TARGETS = 3
#: The kinds of columns in words, in the order of the page.
COLUMN_KINDS = {
    Kind.LABEL: "label", Kind.WEIGHT: "weight of the row", Kind.NUMBER: "columns of numbers",
    Kind.CATEGORY: "columns of categories", Kind.NUMBERS: "columns of lists of numbers",
    Kind.CATEGORIES: "columns of lists of categories", Kind.DATE: "columns of dates", Kind.TEXT: "columns of text",
    Kind.IGNORED: "ignored columns",
}  # fmt: skip
CALIBRATION_CAPTION = "A dot for each group of examples with similar probabilities, of about the same size."


@dataclass
class Run:
    """The facts of a run, and its page."""

    title: str
    loss: Any
    record: Record  # of the predictions
    rows: int  # the number of rows learned, those before the record began included
    average_loss: float  # the progressive loss over these rows, in the first pass
    names: Sequence[str] = ()  # of the classes; none if labels are numbers
    passes: int = 1
    held_out_losses: Sequence[float] = ()  # after each pass; empty if no rows were held out
    best: Sequence[BestLoss] = ()  # lower bounds for models of this size and of larger ones
    each: bool = False  # True if ``best`` has one bound for each of several models
    experts: Sequence[tuple[str, float, float]] = ()  # name, share and average loss of each base learner at the end
    weights: Sequence[FeatureWeight] = ()  # the largest, in order
    data: Sequence[tuple[str, str]] = ()  # names and values of facts about the data
    columns: Sequence[tuple[str, Sequence[str]]] = ()  # the names of columns by their kind
    settings: Sequence[tuple[str, Any]] = ()
    command: str = ""  # repeats the run
    notes: Sequence[str] = ()  # further remarks on the figures

    def __post_init__(self) -> None:
        """Compute the statistics of the predictions."""
        self.link = link_of(self.loss)
        self.ranking: Ranking | None = None  # of binary outcomes: the positive class, or the predicted one being right
        self.confusion: Confusion | None = None
        self.residuals: list[Residuals] = []
        if not self.record.kept or not self.record.weights.any():
            return
        used = self.record.weights > 0.0
        scores, labels = self.record.scores[used], self.record.labels[used]
        weights = (self.record.weights * self.record.standing_for)[used]
        if len(self.names) > 2 or multiclass(self.loss):
            # Labels are class numbers, or columns of -1 and +1.
            codes = labels.argmax(axis=1) if labels.ndim == 2 else labels.astype(np.int64)
            predicted = scores.argmax(axis=1)
            self.confusion = Confusion(codes, predicted, weights, len(self.names))
            if self.link.probable:
                chances = self.link.probabilities(scores)[np.arange(len(scores)), predicted]
                self.ranking = Ranking(chances, codes == predicted, weights)
        elif self.names:
            self.ranking = Ranking(scores.reshape(len(weights)), labels.reshape(len(weights)) > 0.0, weights)
        else:
            means, labels = self.link.means(scores.reshape(len(weights), -1)), labels.reshape(len(weights), -1)
            self.residuals = [Residuals(y, p, weights) for y, p in zip(means.T, labels.T, strict=True)][:MAX_TARGETS]

    @property
    def page(self) -> Page:
        """The page."""
        made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        page = Page(self.title, self._introduction(), f"Made by giftrl on {made}.")
        page.section("Result", *self._result())
        if self.record.kept:
            page.section("Predictions before each label was seen", *self._predictions())
        if len(self.experts):
            page.section("Base learners", *self._base_learners())
        if self.weights:
            text = (
                "A weight is the change of the score for one unit of its feature. Units differ, so features are ranked "
                "by weight times standard deviation: the effect of a usual change of the feature."
            )
            page.section("Largest weights", html.paragraph(text), diagnostics.weights_table(self.weights))
        columns = [(printable(kind), listed(names, 40)) for kind, names in self.columns if names]
        page.section("Data", html.definitions([*self.data, *columns], short=True))
        settings = [(name, printable(value, 400)) for name, value in self.settings]
        page.section("Settings", html.definitions(settings, short=True))
        again = [html.code(self.command)] if self.command else []
        versions = [("Python", f"{platform.python_version()} on {sys.platform}, {platform.machine()}")]
        versions += [(name, version(name)) for name in LIBRARIES]
        page.section("To repeat it", *again, html.definitions(versions, short=True))
        return page

    def _introduction(self) -> str:
        if len(self.names) == 2:
            what = f"two classes, {quoted(self.names[0])} and {quoted(self.names[1])}"
        else:
            what = f"{len(self.names):,} classes" if self.names else "real numbers"
        earlier = f", {self.record.start:,} of them earlier" if self.record.start else ""
        return (
            f"A linear model of {what}, learned from {counted(self.rows, 'example')}{earlier}. Each example was "
            f"predicted before its label was used. The loss is the {loss_name(self.loss)} loss: "
            f"{loss_in_words(self.loss)}."
        )

    @property
    def _bound(self) -> BestLoss | None:
        """The lower bound for models of this size, if it says anything."""
        best = self.best[0] if self.best and not self.each else None
        return best if best is not None and best.lower_bound > best.least else None

    def _result(self) -> list[str]:
        if self.each:
            words = [each.in_words() for each in self.best[:10]]
        else:
            words = [self.best[0].in_words(*self.best[1:2])] if self.best else []
        told = [html.callout(f"Certificate: {each}") for each in words]
        unproved = "No certificate was asked for, or no examples were kept for one."
        told += [html.paragraph(note) for note in ([] if self.best else [unproved]) + self._notes()]
        tiles, record = html.tiles(self._tiles()), self.record
        if record.kept:
            curve = LearningCurve.of(record, losses_of(self.loss, record.scores, record.labels))
            if np.isfinite(curve.average[-1]):
                # The bound is about all rows: a curve of the last ones may well go below it.
                best = None if record.start else self._bound
                drawn = curve.draw(loss_name(self.loss), best)
                caption = "The loss of each prediction before its label was used, so this is the loss on new examples."
                if best is not None:
                    caption += (
                        " The hatched part: no linear model of this size has an average below "
                        f"{amount(best.average)} on the certificate's examples."
                    )
                    caption += " This run beat every one of them." if best.regret < 0.0 else ""
                return [tiles, html.beside(html.figure(*drawn, "curve", caption), *told)]
        return [tiles, *told]

    def _notes(self) -> list[str]:
        """Remarks on the rows behind the figures, and the notes of the run."""
        record, notes = self.record, list(self.notes)
        if record.start:
            notes.append(
                f"The model had learned {counted(record.start, 'example')} before; the figures begin with example "
                f"{record.start + 1:,}."
            )
        if record.step > 1:
            notes.append(
                f"The figures are computed from all of the first {record.capacity:,} examples, and from a sample of "
                f"the later ones: one in two, one in four, and so on, up to one in {record.step}."
            )
        if self.passes > 1:
            said = f"The figures are about the first of {self.passes} passes, as later passes reuse examples."
            if len(self.held_out_losses):
                kept = int(np.argmin(self.held_out_losses))
                said += f" The loss on the examples held out is {self.held_out_losses[kept]:.4g} after pass {kept + 1}."
            notes.append(said)
        return notes

    def _tiles(self) -> list[tuple[str, str, str]]:
        record, start = self.record, self.record.start
        # A note on the rows used for a number, if not all.
        first_pass = "first pass" if self.passes > 1 else ""
        scope = f"since example {start + 1:,}" if start else first_pass
        of_all = "since example 1" if start else first_pass
        tiles = [("average loss", amount(self.average_loss), _joined(f"{loss_name(self.loss)} loss", of_all, ", "))]
        if self._bound is not None:
            tiles.append(("lower bound", amount(self._bound.average), self._distance(self._bound)))
        if not record.kept:
            return tiles
        if self.confusion is not None:
            usual = f"{self.confusion.most_frequent:.2%} for the most frequent class"
            tiles.append(("accuracy", f"{self.confusion.accuracy:.2%}", _joined(scope, usual)))
        elif self.ranking is not None:
            no, yes = sum(self.ranking.at_zero[:2]), sum(self.ranking.at_zero[2:])
            usual = f"{max(no, yes) / (no + yes):.2%} for the most frequent class"
            tiles.append(("accuracy", f"{self.ranking.accuracy:.2%}", _joined(scope, usual)))
            if self.ranking.both:
                tiles.append(("area under ROC", amount(self.ranking.auc), _joined(scope, "0.5 is chance")))
        for k, each in enumerate(self.residuals):
            of = f" of target {k + 1}" if len(self.residuals) > 1 else ""
            r_squared = each.r_squared
            told = ("-", "all labels are the same") if math.isnan(r_squared) else (amount(r_squared), "1 is perfect")
            tiles.append((f"R²{of}", told[0], _joined(scope, told[1])))
            if len(self.residuals) == 1:
                bias = _joined(scope, f"bias {amount(each.mean_error)}")
                tiles.append(("mean absolute error", amount(each.mean_absolute), bias))
                tiles.append(("root mean square", amount(each.root_mean_square), _joined(scope, "of the residuals")))
        return tiles

    def _distance(self, best: BestLoss) -> str:
        """The distance of the run to the lower bound, to the digits shown."""
        paid, least = amount(best.average_loss), amount(best.average)
        gap = float(paid.replace(",", "")) - float(least.replace(",", ""))
        run = "the run" if paid == amount(self.average_loss) else f"the run, with {paid} on the certificate's examples,"
        if gap == 0.0:
            return f"of linear models; {run} is as good, to these digits"
        return f"of linear models; {run} is {amount(abs(gap))} {'above' if gap > 0.0 else 'below'} it"

    def _predictions(self) -> list[str]:
        ranking, drawn = self.ranking, []
        if self.confusion is not None:
            table = self.confusion.table(tuple(printable(name, 24) for name in self.names))
            if ranking is None:
                return [table]
            axes = "probability of the predicted class", "how often it was right"
            calibration = ranking.draw_calibration(ranking.values, *axes)
            return [html.beside(html.figure(*calibration, "calibration", CALIBRATION_CAPTION), table)]
        if ranking is not None:
            if not ranking.both:
                return [html.paragraph("All examples have the same label, so there is nothing to compare scores with.")]
            yes = printable(self.names[1], 24)
            if self.link.probable:
                chances = self.link.probabilities(ranking.values[:, None])[:, 1]
                axes = f"predicted probability of {yes}", f"observed share of {yes}"
                calibration = ranking.draw_calibration(chances, *axes)
                drawn.append(html.figure(*calibration, "calibration", CALIBRATION_CAPTION))
            caption = f"True and false positive rates of the label {quoted(yes, 24)} for each threshold of the score."
            if ranking.share_at_ends > 0.1:
                caption += f" {ranking.share_at_ends:.0%} of the examples have the lowest or the highest score of all."
            drawn.append(html.figure(*ranking.draw(yes), "roc", caption))
        for k, each in enumerate(self.residuals):
            if math.isnan(each.r_squared):
                continue
            of = f"Target {k + 1}. " if len(self.residuals) > 1 else ""
            shades = f"{of}The stronger the colour, the more examples: the central 99% of labels and predictions."
            drawn.append(html.figure(*each.draw_pairs(), f"pairs{k}", shades))
            drawn.append(html.figure(*each.draw_errors(), f"residuals{k}", f"{of}The central 99% of the residuals."))
        if not drawn:
            return [html.paragraph(f"All {'labels are the same' if self.residuals else 'examples have the weight 0'}.")]
        return [html.figures(*drawn, two=True)]

    def _base_learners(self) -> list[str]:
        most = max(abs(share) for _, share, _ in self.experts) or 1.0
        rows: list[list[str | html.Cell]] = [
            [name, html.Cell(f"{round(share, 3) + 0.0:.3f}", bar=share / most), amount(loss)]
            for name, share, loss in sorted(self.experts, key=lambda each: -abs(each[1]))
        ]
        text = (
            "The model mixes base learners (experts) of several kinds and rates. The share of a base learner is the "
            "factor of its prediction in the prediction of the model. Shares need not sum to 1, and can be negative."
        )
        heads = ("base learner", "share at the end", "average loss alone")
        table = html.table("The base learners at the end of the run", heads, rows)
        if len(self.record.shares) > 1:
            caption = "Shares by the number of examples. Base learners with low losses gain."
            figure = html.figure(*diagnostics.draw_shares(self.record.shares), "shares", caption)
            return [html.paragraph(text), html.beside(figure, table)]
        return [html.paragraph(text), table]


def _joined(first: str, second: str, between: str = "; ") -> str:
    """Two remarks, of which one may be empty."""
    return between.join(each for each in (first, second) if each)


def run_of(trainer: Trainer, record: Record, best: Sequence[BestLoss], command: str) -> Run:
    """The facts of a finished run of a command line; ``best`` has lower bounds on the loss of linear models."""
    model, reader = trainer.model, trainer.reader
    summary, settings, learner = summary_of(model), model.settings, cast("Any", model.learner)
    if settings.auto:
        record.note_shares(lambda: learner.experts, last=True)
    if reader is None:
        files = [str(source) for source in trainer.sources]
    else:
        files = ["standard input" if source.path is None else source.name for source in reader.sources]
    data = [
        ("file" if len(files) == 1 else f"{len(files):,} files", listed(files)),
        ("format", ", ".join(dict.fromkeys(reader.formats.values() if reader else ())) or "not read again"),
        ("examples learned", f"{model.examples:,}" + (f", {record.start:,} of them earlier" if record.start else "")),
        *((f"{name}", f"{summary[key]:,}") for name, key in
          (("rows rejected", "rejected"), ("nonzeros", "nonzeros"), ("features", "features"))),
    ]  # fmt: skip
    names = model.features.report()
    if names.collided:
        about = "" if names.exact else "about "
        data.append(("hash collisions", f"{about}{names.collided:,} of {names.names:,} names"))
    if settings.class_names:
        meaning = "" if settings.many else "; scores above 0 stand for the second"
        data.append(("labels", listed(settings.class_names) + meaning))
    spread = diagnostics.deviations(model.certificate)
    classes = settings.class_names if settings.many else ("",)
    shown = summary["settings"] | {"on_error": trainer.on_error}
    if trainer.passes > 1:
        shown |= {"passes": trainer.passes, "holdout": trainer.holdout}
    notes = [
        certified_in_words(model) if best else "",
        f"Note: {trainer.sorted_labels.note}." if trainer.sorted_labels.note else "",
    ]
    notes += [f"Note: {quoted(each, 200)}." for each in (reader.unmatched if reader else ())]
    pairs = [] if model.schema is None else list(zip(model.schema.names, model.schema.kinds, strict=True))
    kinds = [(words, [name for name, own in pairs if own == kind]) for kind, words in COLUMN_KINDS.items()]
    columns = [(f"{words} ({len(names):,})" if len(names) > 1 else words, names) for words, names in kinds if names]
    return Run(
        title=f"Run on {listed(files, 1)}",
        loss=learner.loss,
        record=record,
        rows=model.examples,
        average_loss=model.average_loss,
        names=settings.class_names,
        passes=trainer.passes_done,
        held_out_losses=trainer.held_out_losses,
        best=best,
        experts=[(each["name"], each["share"], each["average_loss"]) for each in summary.get("experts", ())],
        weights=[
            FeatureWeight(w.name, w.weight, math.nan if spread is None else float(spread[w.slot]), classes[w.column])
            for w in largest_weights(model, diagnostics.SHOWN_WEIGHTS, spread)
        ],
        data=data,
        columns=columns,
        settings=[(name, value) for name, value in shown.items() if value not in (None, {}, [])],
        command=command,
        notes=list(filter(None, notes)),
    )
