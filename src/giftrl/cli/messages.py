"""Messages of commands: arguments as options, and the columns of tables."""

import shlex
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import click

from giftrl.errors import BadRow, GiftrlError, Given, Message, render

if TYPE_CHECKING:
    from giftrl.streams.columns import Schema

#: Arguments whose options have another name.
RENAMED = {"label_values": "labels", "update": "updates", "ngrams": "ngram"}
#: Arguments without an option, and the words before their values.
WITHOUT_OPTION = {"sources": "", "checkpoint": "", "data": "", "y": "labels "}


class OptionNames:
    """Writes arguments as the options of a command; an argument without an option is written as in Python.

    >>> @click.command()
    ... @click.option("--on-error")
    ... @click.option("--labels")
    ... @click.option("--constant/--no-constant")
    ... def command(**options): ...
    >>> speak = OptionNames(command)
    >>> speak(Given("label_values", (0.0, "a b"))), speak(Given("on_error", "skip"))
    ("--labels '0,a b'", '--on-error skip')
    >>> speak(Given("constant", False, now=True)), speak(Given("sources", "-"))
    ('--no-constant, now --constant', '-')
    """

    def __init__(self, command: click.Command) -> None:
        options = [option for option in command.params if isinstance(option, click.Option)]
        self.options = {_longest(option.opts).lstrip("-").replace("-", "_"): option for option in options}
        for other, name in RENAMED.items():
            if name in self.options:
                self.options.setdefault(other, self.options[name])

    def __call__(self, given: Given) -> str:
        name, value, now = given
        if name in self.options:
            written = _option(self.options[name], name, value, True)
            # A flag such as --dictionary does not show the meaning of the other value.
            named = name == "bits" and value is None
            return written + ("" if now is ... else f", now {_option(self.options[name], name, now, named)}")
        if name in WITHOUT_OPTION:
            return WITHOUT_OPTION[name] + _value(value, " ") + ("" if now is ... else f", now {_value(now, ' ')}")
        return str(given)

    def message(self, problem: GiftrlError) -> str:
        """The message of an error in one line."""
        if isinstance(problem, BadRow):
            hints = tuple(hint for hint in problem.hints if hint.given.argument in self.options)
            problem = BadRow("", problem.rule, problem.rejected, hints)
        return problem.told(self)


def _longest(names: list[str]) -> str:
    return max(names, key=len)


def _option(option: click.Option, name: str, value: Any, named: bool) -> str:
    """An option with a value, or only the value if the option has been named."""
    if name == "bits" and value is None:
        return "--dictionary"
    if option.is_flag and isinstance(value, bool):
        return _longest(option.opts if value or not option.secondary_opts else option.secondary_opts)
    if value is ...:
        return _longest(option.opts)
    shown = csv_record(value) if name == "label_values" and value is not None else _value(value, ",")
    return f"{_longest(option.opts)} {shown}" if named else shown


def _value(value: Any, between: str) -> str:
    """A value as typed; items of a list are joined by a separator."""
    if isinstance(value, (tuple, list)):
        return between.join(map(_part, value)) or "none"
    shown = "none" if value is None else str(value)
    return shlex.quote(shown) if " " in shown or not shown else shown


def _part(value: Any) -> str:
    """An item of a list; a product or an n-gram is itself a list, with ":" for all namespaces."""
    if isinstance(value, (tuple, list)):
        return ":".join(str(name) for name in value if name != ":")
    return f"{value:g}" if isinstance(value, float) else str(value)


def csv_record(values: Iterable[Any]) -> str:
    """Labels in the syntax of ``--labels``: a CSV record, quoted for the shell.

    >>> print(csv_record(["no", "yes"]), csv_record(["no", "well, yes"]))
    no,yes 'no,"well, yes"'
    """

    def quoted(name: str) -> str:
        plain = name == name.strip() and not set(name) & set(',"\r\n')
        return name if plain else '"' + name.replace('"', '""') + '"'

    return shlex.quote(",".join(quoted(_part(value)) for value in values))


# Columns of tables -----------------------------------------------------------------------------------------------

#: The kinds of columns in display order, and their display names.
KIND_NAMES: dict[str, str] = {
    "number": "numbers", "category": "categories", "numbers": "lists of numbers",
    "categories": "lists of categories", "date": "dates", "text": "text", "ignored": "ignored",
    "label": "label", "weight": "weight",
}  # fmt: skip
#: Explanations of the features of a kind.
KIND_FEATURES = {"date": " (years since 2000; weekday, month, hour if given)", "text": " (its words)"}
MAX_NAMES_WIDTH = 96
MISSING_VALUES = "Where a {} is missing, the category column=missing is added; a missing category adds nothing."
#: For JSON, kinds follow from the types of values.
OTHER_KEYS = ("other keys", "numbers are numbers, texts are categories")
NO_FEATURES = (
    "the table has no column to learn from besides the label, so that every row has the same prediction; columns of "
    "CSV are looked for between tabs, semicolons, commas or bars"
)


def in_rows(schema: "Schema") -> list[tuple[str, str]]:
    """A row for each kind that occurs: its name and its columns."""
    rows = []
    for kind, head in KIND_NAMES.items():
        names = [name for name, each in zip(schema.names, schema.kinds, strict=True) if each == kind]
        if names:
            rows.append((head, shortened(names) + KIND_FEATURES.get(kind, "")))
    return rows


def shortened(names: Sequence[str]) -> str:
    """Comma-separated names, cut to fit a line.

    >>> shortened(["a", "b"]), shortened(["x" * 50, "y" * 40, "z" * 40])[-15:]
    ('a, b', 'yyy, and 1 more')
    """
    widths = accumulate(len(name) + 2 for name in names)
    shown = max(1, sum(width <= MAX_NAMES_WIDTH for width in widths))
    more = [f"and {len(names) - shown} more"] if shown < len(names) else []
    return ", ".join([*names[:shown], *more])


def in_lines(schema: "Schema | None", json: bool = False) -> list[str]:
    """The columns of a table, a line for each kind; empty if there is only a label.

    With ``json``, the schema contains only keys with a special role.

    >>> from giftrl.streams.columns import Schema
    >>> print(*in_lines(Schema(("when", "y"), ("date", "label")), json=True), sep="\\n")
    dates       when (years since 2000; weekday, month, hour if given)
    label       y
    other keys  numbers are numbers, texts are categories
    """
    if schema is None or set(schema.kinds) <= {"label"}:
        return []
    rows = [*in_rows(schema), *([OTHER_KEYS] if json else [])]
    width = max(len(head) for head, _ in rows)
    lines = [f"{head.ljust(width)}  {names}" for head, names in rows]
    absent = [] if json else [kind for kind in ("number", "date") if kind in schema.kinds]
    return [*lines, *([MISSING_VALUES.format(" or ".join(absent))] if absent else [])]


def notes(remarks: Iterable[Message]) -> list[str]:
    """Remarks of a reader, with the options of the command that runs."""
    speak = OptionNames(click.get_current_context().command)
    return [render(remark, speak) for remark in remarks]
