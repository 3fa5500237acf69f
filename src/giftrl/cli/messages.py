"""Arguments of Python as the options of a command, for its messages."""

import shlex
from collections.abc import Iterable
from typing import Any

import click

from giftrl.errors import BadRow, GiftrlError, Given

#: Arguments whose options have another name.
RENAMED = {"label_values": "labels", "update": "updates", "ngrams": "ngram"}
#: Arguments that no option gives, and the words before their values.
WITHOUT_OPTION = {"sources": "", "checkpoint": "", "data": "", "y": "labels "}


class OptionNames:
    """Writes arguments as the options of a command.

    Args:
        command: the command; an argument that it has no option for is written as in Python.

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
        options = {_argument(option): option for option in command.params if isinstance(option, click.Option)}
        self.options = options | {
            other: options[name] for other, name in RENAMED.items() if name in options and other not in options
        }

    def __call__(self, given: Given) -> str:
        name, value, now = given
        if name in self.options:
            written = _option(self.options[name], name, value, True)
            # The option alone, as --dictionary, does not tell what the other value is of.
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


def _argument(option: click.Option) -> str:
    return _longest(option.opts).lstrip("-").replace("-", "_")


def _option(option: click.Option, name: str, value: Any, named: bool) -> str:
    """An option with a value; the value alone if the option has been named."""
    if name == "bits" and value is None:
        return "--dictionary"
    if option.is_flag and isinstance(value, bool):
        return _longest(option.opts if value or not option.secondary_opts else option.secondary_opts)
    if value is ...:
        return _longest(option.opts)
    shown = csv_record(value) if name == "label_values" and value is not None else _value(value, ",")
    return f"{_longest(option.opts)} {shown}" if named else shown


def _value(value: Any, between: str) -> str:
    """A value as it is typed; those of a list with something between them."""
    if isinstance(value, (tuple, list)):
        return between.join(map(_part, value)) or "none"
    shown = "none" if value is None else str(value)
    return shlex.quote(shown) if " " in shown or not shown else shown


def _part(value: Any) -> str:
    """A part of a list; a product or an n-gram is a list of its own, in which ":" stands for all namespaces."""
    if isinstance(value, (tuple, list)):
        return ":".join(str(name) for name in value if name != ":")
    return f"{value:g}" if isinstance(value, float) else str(value)


def csv_record(values: Iterable[Any]) -> str:
    """Labels as a shell and ``--labels`` take them: a record of CSV.

    >>> print(csv_record(["no", "yes"]), csv_record(["no", "well, yes"]))
    no,yes 'no,"well, yes"'
    """

    def quoted(name: str) -> str:
        plain = name == name.strip() and not set(name) & set(',"\r\n')
        return name if plain else '"' + name.replace('"', '""') + '"'

    return shlex.quote(",".join(quoted(_part(value)) for value in values))
