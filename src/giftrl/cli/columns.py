"""What the columns of a table are for, in a few lines."""

from collections.abc import Iterable, Sequence
from typing import Any

import click

from giftrl.streams.columns import Kind, Schema

#: The kinds of columns, in the order in which they are shown, and what people call them.
HEADS = {
    Kind.NUMBER: "numbers", Kind.CATEGORY: "categories", Kind.NUMBERS: "lists of numbers",
    Kind.CATEGORIES: "lists of categories", Kind.DATE: "dates", Kind.TEXT: "text", Kind.IGNORED: "ignored",
    Kind.LABEL: "label", Kind.WEIGHT: "weight",
}  # fmt: skip
#: What the features of a kind are, where its name does not tell.
FEATURES = {Kind.DATE: " (years since 2000; weekday, month, hour if given)", Kind.TEXT: " (its words)"}
WIDTH = 96
MISSING = "Where a {} is missing, the category column=missing is added; a missing category adds nothing."
#: JSON has no list of its keys: each value is what its type says.
OTHERS = ("other keys", "numbers are numbers, texts are categories")
NOTHING = (
    "the table has no column to learn from besides the label, so that every row has the same prediction; columns of "
    "CSV are looked for between tabs, semicolons, commas or bars"
)


def in_rows(schema: Schema) -> list[tuple[str, str]]:
    """A row for each kind of columns that there is: what it is called, and its columns.

    >>> in_rows(Schema(("age", "when", "y"), ("number", "date", "label")))
    [('numbers', 'age'), ('dates', 'when (years since 2000; weekday, month, hour if given)'), ('label', 'y')]
    """
    rows = []
    for kind, head in HEADS.items():
        names = [name for name, each in zip(schema.names, schema.kinds, strict=True) if each == kind]
        if names:
            rows.append((head, shortened(names) + FEATURES.get(kind, "")))
    return rows


def shortened(names: Sequence[str]) -> str:
    """Names between commas, as many as go on a line.

    >>> shortened(["a", "b"]), shortened(["x" * 50, "y" * 40, "z" * 40])[-15:]
    ('a, b', 'yyy, and 1 more')
    """
    shown, size = 0, 0
    while shown < len(names) and (shown == 0 or size + len(names[shown]) + 2 <= WIDTH):
        size += len(names[shown]) + 2
        shown += 1
    more = [f"and {len(names) - shown} more"] if shown < len(names) else []
    return ", ".join([*names[:shown], *more])


def in_lines(schema: Schema | None, json: bool = False) -> list[str]:
    """The columns of a table, a line for each kind; none where there is only a label.

    Args:
        schema: of the table, or None.
        json: whether it has those keys of JSON alone that have a meaning of their own.

    >>> print(*in_lines(Schema(("when", "y"), ("date", "label")), json=True), sep="\\n")
    dates       when (years since 2000; weekday, month, hour if given)
    label       y
    other keys  numbers are numbers, texts are categories
    """
    if schema is None or set(schema.kinds) <= {Kind.LABEL}:
        return []
    rows = [*in_rows(schema), *([OTHERS] if json else [])]
    width = max(len(head) for head, _ in rows)
    lines = [f"{head.ljust(width)}  {names}" for head, names in rows]
    absent = [] if json else [kind for kind in (Kind.NUMBER, Kind.DATE) if kind in schema.kinds]
    return [*lines, *([MISSING.format(" or ".join(absent))] if absent else [])]


def notes(remarks: Iterable[str]) -> list[str]:
    """Remarks of a reader, in the options of the command that runs."""
    from giftrl.cli.words import in_options

    command = click.get_current_context().command
    return [in_options(each, command) for each in remarks]


def about(trainer: Any) -> list[str]:
    """What the columns of the data are for, and what is remarkable about them."""
    schema, json = trainer.model.schema, set(trainer.reader.formats.values()) == {"json"}
    remarks = notes(trainer.reader.remarks)
    if schema is not None and not json and set(schema.kinds) <= {Kind.LABEL, Kind.WEIGHT, Kind.IGNORED}:
        remarks.append(NOTHING)
    return [*in_lines(schema, json), *(f"note: {each}" for each in remarks)]
