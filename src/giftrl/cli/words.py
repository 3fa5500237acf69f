"""Messages about arguments of Python, in the options of a command."""

import ast
import re
import shlex
from typing import Any

import click

#: Arguments whose options have another name.
RENAMED = {"label_values": "labels"}
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_VALUE = rf"{_QUOTED}|\([^)]*\)|\[[^\]]*\]|[^\s,;:]*[^\s,;:.)]"


def in_options(message: str, command: click.Command) -> str:
    """The message of an error with the options of a command in the place of arguments; quotations stay as they are.

    >>> @click.command()
    ... @click.option("--on-error")
    ... @click.option("--labels")
    ... @click.option("--constant/--no-constant")
    ... def command(**options): ...
    >>> in_options("label_values=(0.0, 1.0): must be three; try on_error='skip'", command)
    '--labels 0,1: must be three; try --on-error skip'
    >>> in_options("constant=False, not True", command)
    '--no-constant, not --constant'
    """
    options = {_argument(option): option for option in command.params if isinstance(option, click.Option)}
    options |= {theirs: options[ours] for theirs, ours in RENAMED.items() if ours in options}
    names = "|".join(map(re.escape, options))
    if not names:
        return message
    pattern = rf"{_QUOTED}|(?:(?<=[\s(])|^)(?P<name>{names})=(?P<value>{_VALUE})(?:, not (?P<other>{_VALUE}))?"

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        said = _option(options[name], name, _literal(match["value"]), True)
        if match["other"] is None:
            return said
        return f"{said}, not {_option(options[name], name, _literal(match['other']), False)}"

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
    if isinstance(value, (tuple, list)):
        shown = ",".join(f"{each:g}" if isinstance(each, float) else str(each) for each in value) or "none"
    else:
        shown = "none" if value is None else str(value)
        shown = shlex.quote(shown) if " " in shown else shown
    return f"{_longest(option.opts)} {shown}" if named else shown
