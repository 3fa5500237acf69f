"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["columns_of", "input_options", "numbers", "pairs"]

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("libsvm", "vw", "csv", "json", "parquet", "arrow", "npz")

_OPTIONS = [
    click.option("--format", "format_", type=click.Choice(FORMATS), help="The format of DATA; found if not given."),
    click.option("--label", help="Tables: the label column, by name or number (label, target, y, class, or the last)."),
    click.option("--weight", help="Tables: the column with the weights of rows."),
    click.option("--ignore", multiple=True, help="Tables: a column to leave out; may be repeated."),
    click.option("--categorical", multiple=True, help="Tables: a column of categories that look like numbers."),
    click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True,
                 help="What to do at a row that cannot be used."),
    click.option("--rejects", type=click.Path(dir_okay=False), help="With skip: a file for these rows, as JSON lines."),
]  # fmt: skip


def input_options(function: F) -> F:
    """How DATA is read."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _reference(text: str) -> str | int:
    return int(text) if text.lstrip("-").isdigit() else text


def columns_of(options: dict[str, Any]) -> Any:
    """The columns that the options name, taken out of them."""
    from giftrl.streams.columns import Columns

    label, weight = options.pop("label"), options.pop("weight")
    return Columns(
        label=None if label is None else _reference(label),
        weight=None if weight is None else _reference(weight),
        ignore=tuple(_reference(each) for each in options.pop("ignore")),
        categorical=tuple(_reference(each) for each in options.pop("categorical")),
    )


def pairs(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """``-q ab`` or ``-q user:ad`` as pairs."""
    found = []
    for value in values:
        names = tuple(value.split(":")) if ":" in value.strip(":") else tuple(value)
        if len(names) != 2 or not all(names):
            raise click.BadParameter(f"{value!r} is not a pair; write two letters (ua) or two names (user:ad)")
        found.append((names[0], names[1]))
    return tuple(found)


def numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[float, float] | None:
    """``0,1`` as two numbers."""
    if value is None:
        return None
    try:
        first, second = (float(each) for each in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not two numbers; write --labels 0,1") from None
    return first, second
