"""The page about a run."""

import math
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from giftrl.certificates import BestLoss
from giftrl.reports import page as html
from giftrl.reports.page import Page
from giftrl.reports.run import curve, ranking, residuals, shares
from giftrl.reports.run.record import Record
from giftrl.reports.run.weights import Weighed, weights_table
from giftrl.reports.run.words import amount, listed, loss_in_words, loss_name, plain, quoted

#: The libraries whose versions a page names.
LIBRARIES = ("giftrl", "numpy", "numba", "scipy", "pyarrow")


@dataclass
class Run:
    """Everything that a page says about a run.

    Attributes:
        title: of the page.
        loss: of the run.
        record: what was kept of its predictions.
        rows: how many rows were learnt, those before the record began too.
        average_loss: over these rows; over the first pass, where there were several.
        passes: how often the rows were read.
        best: what is proved, for models of this size and of larger ones; for several models, one entry each.
        each: whether those entries are about several models, one for each class or target.
        experts: (name, share, average loss) of each, at the end; none without a mixture.
        weights: the largest, in order.
        data: the data as it was read: names and values.
        columns: the names of columns by their kind.
        settings: names and values.
        command: what to type to run it again; empty where there is no such command.
        notes: what else must be said about the figures.
    """

    title: str
    loss: Any
    record: Record
    rows: int
    average_loss: float
    passes: int = 1
    best: Sequence[BestLoss] = ()
    each: bool = False
    experts: Sequence[tuple[str, float, float]] = ()
    weights: Sequence[Weighed] = ()
    data: Sequence[tuple[str, str]] = ()
    columns: Sequence[tuple[str, Sequence[str]]] = ()
    settings: Sequence[tuple[str, str]] = ()
    command: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def page(self) -> Page:
        """The page."""
        made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        page = Page(self.title, self._introduction(), f"Made by giftrl on {made}.")
        page.section("Result", *self._result())
        if self.record.curve.rows > self.record.curve.start:
            page.section("Predictions before each label was seen", *self._predictions())
        if len(self.experts):
            page.section("Experts", *self._experts())
        if self.weights:
            text = (
                "A weight is what one unit of its feature adds to the score. Units differ, so features are ranked by "
                "weight times standard deviation: what a usual change of the feature adds."
            )
            page.section("Largest weights", html.paragraph(text), weights_table(self.weights))
        columns = [(plain(kind), listed(names, 40)) for kind, names in self.columns if names]
        page.section("Data", html.definitions([*self.data, *columns], short=True))
        page.section(
            "Settings", html.definitions([(name, plain(value, 400)) for name, value in self.settings], short=True)
        )
        again = [html.code(self.command)] if self.command else []
        versions = [("Python", f"{platform.python_version()} on {sys.platform}, {platform.machine()}")]
        versions += [(name, version(name)) for name in LIBRARIES]
        page.section("To repeat it", *again, html.definitions(versions, short=True))
        return page

    def _introduction(self) -> str:
        names = self.record.names
        if len(names) == 2:
            what = f"two classes, {quoted(names[0])} and {quoted(names[1])}"
        else:
            what = f"{len(names):,} classes" if names else "real numbers"
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        rows += f", {self.record.curve.start:,} of them earlier" if self.record.curve.start else ""
        return (
            f"A linear model of {what}, learnt from {rows}. Each row was predicted before its label was used. The loss "
            f"is the {loss_name(self.loss)} loss: {loss_in_words(self.loss)}."
        )

    def _result(self) -> list[str]:
        parts = [html.tiles(self._tiles())]
        words = [each.in_words() for each in self.best[:10]] if self.each else []
        if self.best and not self.each:
            words = [self.best[0].in_words(*self.best[1:2])]
        told = [html.callout(f"Certificate: {each}") for each in words]
        if not self.best:
            told = [html.paragraph("No certificate was asked for, or no rows were kept for one.")]
        told += [html.paragraph(note) for note in self.notes]
        points = self.record.curve.points
        if np.isfinite(points.average[-1:]).any():
            # What is proved is about all rows: a curve of the last ones may well go below it.
            best = None if self.each or not self.best or self.record.curve.start else self.best[0]
            drawn, words_of = curve.draw(points, loss_name(self.loss), best)
            caption = "The loss of each prediction counts before its label is used, so this is the loss on new rows."
            if best is not None and best.lower_bound > best.least:
                caption += (
                    f" The hatched part: no linear model of this size has an average below {amount(best.average)} on "
                    "the certificate's rows."
                )
                if best.regret < 0.0:
                    caption += " This run beat every one of them."
            return [*parts, html.beside(html.figure(drawn, "curve", words_of, caption), *told)]
        return [*parts, *told]

    def _tiles(self) -> list[tuple[str, str, str]]:
        record, start = self.record, self.record.curve.start
        # What the figures are about, where these are not all rows, or not those of another figure.
        first_pass = "first pass" if self.passes > 1 else ""
        scope = f"since row {start + 1:,}" if start else first_pass
        of_all = "since row 1" if start else first_pass
        found = [("average loss", amount(self.average_loss), _joined(f"{loss_name(self.loss)} loss", of_all, ", "))]
        first = self.best[0] if self.best and not self.each else None
        if first is not None and first.lower_bound > first.least:
            found.append(("certified best", amount(first.average), self._distance(first)))
        if record.curve.rows == start:
            return found
        if record.confusion is not None:
            usual = f"{record.confusion.most_frequent:.2%} for the most frequent class"
            found.append(("accuracy", f"{record.confusion.accuracy:.2%}", _joined(scope, usual)))
        elif record.ranking is not None:
            no, yes = sum(record.ranking.at_zero[:2]), sum(record.ranking.at_zero[2:])
            usual = f"{max(no, yes) / (no + yes):.2%} for the most frequent class"
            found.append(("accuracy", f"{record.ranking.accuracy:.2%}", _joined(scope, usual)))
            if record.ranking.both:
                found.append(("area under ROC", amount(record.ranking.auc), _joined(scope, "0.5 is chance")))
        for k, each in enumerate(record.residuals):
            of = f" of target {k + 1}" if len(record.residuals) > 1 else ""
            alike = math.isnan(each.r_squared)
            told = ("-", "all labels are the same") if alike else (amount(each.r_squared), "1 is perfect")
            found.append((f"R²{of}", told[0], _joined(scope, told[1])))
            if len(record.residuals) == 1:
                bias = _joined(scope, f"bias {amount(each.mean_error)}")
                found.append(("mean absolute error", amount(each.mean_absolute), bias))
                found.append(("root mean square", amount(each.root_mean_square), _joined(scope, "of the residuals")))
        return found

    def _distance(self, best: BestLoss) -> str:
        """How far the run is from what is proved, to the digits that are shown."""
        paid, least = amount(best.average_loss), amount(best.average)
        gap = float(paid.replace(",", "")) - float(least.replace(",", ""))
        run = "the run" if paid == amount(self.average_loss) else f"the run, with {paid} on the certificate's rows,"
        if gap == 0.0:
            return f"{run} is as good, to these digits"
        return f"{run} is {amount(abs(gap))} {'above' if gap > 0.0 else 'below'} it"

    def _predictions(self) -> list[str]:
        record, drawn = self.record, []
        if record.confusion is not None:
            if record.ranking is not None:
                svg, words = ranking.draw_calibration(
                    record.ranking.calibration, "probability of the predicted class", "how often it was right"
                )
                caption = "A dot for each group of rows with similar probabilities, of about the same size."
                drawn.append(html.figure(svg, "calibration", words, caption))
            names = tuple(plain(name, 24) for name in record.names)
            table = record.confusion.table(names)
            return [html.beside(drawn[0], table) if drawn else table]
        if record.ranking is not None and record.ranking.both:
            yes = plain(record.names[1], 24)
            if record.link.probable:
                svg, words = ranking.draw_calibration(
                    record.ranking.calibration, f"predicted probability of {yes}", f"observed share of {yes}"
                )
                caption = "A dot for each group of rows with similar probabilities, of about the same size."
                drawn.append(html.figure(svg, "calibration", words, caption))
            svg, words = ranking.draw_roc(record.ranking, yes)
            caption = (
                f"Of the rows of {quoted(yes, 24)} and of the others, the shares whose score is above a threshold."
            )
            if record.ranking.at_the_ends > 0.1:
                caption += f" {record.ranking.at_the_ends:.0%} of the rows have the lowest or the highest score of all."
            drawn.append(html.figure(svg, "roc", words, caption))
        elif record.ranking is not None:
            return [html.paragraph("All rows have the same label, so there is nothing to compare scores with.")]
        for k, each in enumerate(record.residuals):
            of = f"Target {k + 1}. " if len(record.residuals) > 1 else ""
            if math.isnan(each.r_squared):
                continue
            svg, words = residuals.draw_pairs(each)
            caption = (
                f"{of}The stronger the colour, the more rows. The central 99% of labels and predictions are shown."
            )
            drawn.append(html.figure(svg, f"pairs{k}", words, caption))
            svg, words = residuals.draw_errors(each)
            caption = f"{of}Residuals of the central 99% of the rows."
            drawn.append(html.figure(svg, f"residuals{k}", words, caption))
        return [html.figures(*drawn, two=True) if drawn else html.paragraph("All labels are the same.")]

    def _experts(self) -> list[str]:
        most = max(abs(share) for _, share, _ in self.experts) or 1.0
        rows: list[list[str | html.Cell]] = [
            [name, html.Cell(f"{round(share, 3) + 0.0:.3f}", bar=share / most), amount(loss)]
            for name, share, loss in sorted(self.experts, key=lambda each: -abs(each[1]))
        ]
        text = (
            "The model mixes learners of several kinds and rates. The share of an expert is the factor of its "
            "prediction in that of the model; shares need not sum to 1, and can be negative."
        )
        heads = ("expert", "share at the end", "average loss alone")
        table = html.table("The experts at the end of the run", heads, rows)
        if len(self.record.shares.rows) > 1:
            svg, words = shares.draw(self.record.shares)
            caption = "Shares by the number of rows. Experts that prove themselves gain."
            return [html.paragraph(text), html.beside(html.figure(svg, "shares", words, caption), table)]
        return [html.paragraph(text), table]


def _joined(first: str, second: str, between: str = "; ") -> str:
    """Two remarks, of which one may be empty."""
    return between.join(each for each in (first, second) if each)
