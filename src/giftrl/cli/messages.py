"""Messages about arguments of Python, in the options of a command."""

import ast
import re
import shlex
from typing import Any

import click

#: Arguments whose options have another name.
RENAMED = {"label_values": "labels", "update": "updates", "ngrams": "ngram"}
#: Arguments that no option gives, and what is said before their values.
UNNAMED = {"sources": "", "checkpoint": "", "data": "", "y": "labels "}
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_LIST = rf"[(\[](?:{_QUOTED}|[^][()'\"])*[)\]]"
_VALUE = rf"{_QUOTED}|[(\[](?:{_QUOTED}|{_LIST}|[^][()'\"])*[)\]]|[^\s,;:]*[^\s,;:.)]"


def in_options(message: str, command: click.Command) -> str:
    """The message of an error with the options of a command in the place of arguments; quotations stay as they are.

    >>> @click.command()
    ... @click.option("--on-error")
    ... @click.option("--labels")
    ... @click.option("--constant/--no-constant")
    ... def command(**options): ...
    >>> in_options("label_values=(0.0, 1.0): must be three; try on_error='skip'", command)
    '--labels 0,1: must be three; try --on-error skip'
    >>> in_options("constant=False, now True", command)
    '--no-constant, now --constant'
    >>> in_options("sources='-': cannot be split", command)
    '-: cannot be split'
    """
    options = {_argument(option): option for option in command.params if isinstance(option, click.Option)}
    options |= {theirs: options[ours] for theirs, ours in RENAMED.items() if ours in options and theirs not in options}
    names = "|".join(map(re.escape, {**options, **UNNAMED}))
    pattern = rf"{_QUOTED}|(?:(?<=[\s(])|^)(?P<name>{names})=(?P<value>{_VALUE})(?:, now (?P<other>{_VALUE}))?"

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        value, other = _literal(match["value"]), _literal(match["other"] or "")
        if name not in options:
            return UNNAMED[name] + _shown(value, " ") + (f", now {_shown(other, ' ')}" if match["other"] else "")
        said = _option(options[name], name, value, True)
        # The option alone, as of --dictionary, does not tell what the other value is of.
        again = name == "bits" and value is None
        return said + (f", now {_option(options[name], name, other, again)}" if match["other"] else "")

    return re.sub(pattern, replace, message)


def _longest(names: list[str]) -> str:
    return max(names, key=len)


def _argument(option: click.Option) -> str:
    return _longest(option.opts).lstrip("-").replace("-", "_")


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _option(option: click.Option, name: str, value: Any, named: bool) -> str:
    """An option with a value; the value alone where the option has been named."""
    if name == "bits" and value is None:
        return "--dictionary"
    if option.is_flag and isinstance(value, bool):
        return _longest(option.opts if value or not option.secondary_opts else option.secondary_opts)
    shown = _shown(value, ",")
    return f"{_longest(option.opts)} {shown}" if named else shown


def _shown(value: Any, between: str) -> str:
    """A value as it is typed; those of a list with something between them."""
    if isinstance(value, (tuple, list)):
        return between.join(map(_part, value)) or "none"
    shown = "none" if value is None else str(value)
    return shlex.quote(shown) if " " in shown or not shown else shown


def _part(value: Any) -> str:
    """A part of a list; a product or an n-gram is a list of its own, in which ":" stands for all namespaces."""
    if isinstance(value, (tuple, list)):
        return ":".join(str(each) for each in value if each != ":")
    return f"{value:g}" if isinstance(value, float) else str(value)
