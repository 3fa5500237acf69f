"""What there is to say about a run of a trainer."""

from collections.abc import Sequence
from typing import Any

from giftrl.certificates import BestLoss
from giftrl.reports.run.page import Run
from giftrl.reports.run.record import Record
from giftrl.reports.run.weights import TOP, Weighed, deviations
from giftrl.reports.run.words import listed, plain, quoted
from giftrl.streams.columns import Kind
from giftrl.training import LinearModel, Trainer
from giftrl.training.summary import certified_in_words, largest_weights, summary_of

#: The kinds of columns in words, in the order in which they are shown.
KINDS = {
    Kind.LABEL: "label", Kind.WEIGHT: "weight of the row", Kind.NUMBER: "columns of numbers",
    Kind.CATEGORY: "columns of categories", Kind.NUMBERS: "columns of lists of numbers",
    Kind.CATEGORIES: "columns of lists of categories", Kind.DATE: "columns of dates", Kind.TEXT: "columns of text",
    Kind.IGNORED: "ignored columns",
}  # fmt: skip


def record_of(model: LinearModel) -> Record:
    """A record of what a model is about to learn.

    >>> from giftrl.training import Settings
    >>> record_of(LinearModel(Settings(label_values=(0.0, 1.0)))).names
    ('0', '1')
    """
    return Record(model.learner.loss, model.settings.class_names, model.examples)


def run_of(trainer: Trainer, record: Record, best: Sequence[BestLoss], command: str) -> Run:
    """What a page says about a run that has come to its end.

    Args:
        trainer: that has trained.
        record: that watched it.
        best: what is proved.
        command: what was typed.
    """
    model = trainer.model
    record.settle()
    summary = summary_of(model)
    learner: Any = model.learner
    if model.settings.auto:
        record.shares.note(record.curve.rows, lambda: learner.experts, last=True)
    return Run(
        title=f"Run on {listed(_files(trainer), 1)}",
        loss=model.learner.loss,
        record=record,
        rows=model.examples,
        average_loss=model.average_loss,
        passes=trainer.passes_done,
        best=best,
        experts=[(each["name"], each["share"], each["average_loss"]) for each in summary.get("experts", ())],
        weights=_weights(model),
        data=_data(trainer, summary, record.curve.start),
        columns=_columns(model),
        settings=_settings(summary["settings"], trainer),
        command=command,
        notes=_notes(trainer, record, certified_in_words(model) if best else ""),
    )


def _files(trainer: Trainer) -> list[str]:
    if trainer.reader is None:
        return [str(source) for source in trainer.sources]
    return ["standard input" if source.path is None else source.name for source in trainer.reader.sources]


def _weights(model: LinearModel) -> list[Weighed]:
    spread = deviations(model.certificate)
    names = model.settings.class_names if model.settings.many else ("",)
    return [
        Weighed(
            each.name, each.weight, float("nan") if spread is None else float(spread[each.slot]), names[each.column]
        )
        for each in largest_weights(model, TOP, spread)
    ]


def _data(trainer: Trainer, summary: dict[str, Any], earlier: int) -> list[tuple[str, str]]:
    model, files = trainer.model, _files(trainer)
    formats = dict.fromkeys(trainer.reader.formats.values() if trainer.reader is not None else ())
    data = [
        ("file" if len(files) == 1 else f"{len(files):,} files", listed(files)),
        ("format", ", ".join(formats) or "not read again"),
        ("rows learnt", f"{summary['examples']:,}" + (f", {earlier:,} of them earlier" if earlier else "")),
        ("rows rejected", f"{summary['rejected']:,}"),
        ("nonzeros", f"{summary['nonzeros']:,}"),
        ("features", f"{summary['features']:,}"),
    ]
    report = model.features.report()
    if report.collided:
        about = "" if report.exact else "about "
        data.append(("names that share a coordinate", f"{about}{report.collided:,} of {report.names:,}"))
    names = model.settings.class_names
    if names:
        meaning = "" if model.settings.many else "; scores above 0 stand for the second"
        data.append(("labels", listed(names) + meaning))
    return data


def _columns(model: LinearModel) -> list[tuple[str, list[str]]]:
    if model.schema is None:
        return []
    pairs = list(zip(model.schema.names, model.schema.kinds, strict=True))
    found = [(words, [name for name, own in pairs if own == kind]) for kind, words in KINDS.items()]
    return [(f"{words} ({len(names):,})" if len(names) > 1 else words, names) for words, names in found if names]


def _settings(settings: dict[str, Any], trainer: Trainer) -> list[tuple[str, str]]:
    reading: dict[str, Any] = {"on_error": trainer.on_error}
    if trainer.passes > 1:
        reading |= {"passes": trainer.passes, "holdout": trainer.holdout}
    shown = {name: value for name, value in (settings | reading).items() if value not in (None, {}, [])}
    return [(name, plain(value, 400)) for name, value in shown.items()]


def _notes(trainer: Trainer, record: Record, certified: str) -> list[str]:
    notes = [certified] if certified else []
    if record.curve.start:
        rows = f"{record.curve.start:,} row{'' if record.curve.start == 1 else 's'}"
        notes.append(f"The model had learnt {rows} before; the figures begin with row {record.curve.start + 1:,}.")
    if trainer.passes_done > 1 and trainer.multi_pass is not None:
        passes = trainer.multi_pass.passes
        said = f"The data was read {passes.done} times; the figures are about the first pass, which meets new rows."
        if passes.losses:
            least = f"{min(passes.losses):.4g}"
            said += f" {trainer.multi_pass.rows:,} rows were held out: their loss is {least} after pass {passes.kept}."
        notes.append(said)
    if trainer.sorted_labels.note is not None:
        notes.append(f"Note: {trainer.sorted_labels.note}.")
    notes += [f"Note: {quoted(each, 200)}." for each in (trainer.reader.unmatched if trainer.reader else ())]
    return notes
