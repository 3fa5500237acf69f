"""Options that several commands share."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = [
    "columns_of",
    "feature_options",
    "format_option",
    "input_options",
    "label_list",
    "pairs",
    "radius_option",
    "require_apart",
]

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("libsvm", "vw", "csv", "json", "parquet", "arrow", "npz")

format_option = click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="The format of DATA; found if not given."
)

_OPTIONS = [
    format_option,
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


def feature_options(function: F) -> F:
    """How names of features become coordinates."""
    for option in reversed(_FEATURES):
        function = option(function)
    return function


def require_apart(sources: Sequence[str], **written: str | None) -> None:
    """Raise, before anything is opened for writing, where a file is written to that is also read.

    Args:
        sources: what is read.
        written: what is written, by argument; None for nothing.
    """
    from giftrl.errors import InvalidInput
    from giftrl.streams.sources.source import find_sources

    files = {name: Path(path) for name, path in written.items() if path is not None and Path(path).is_file()}
    if not files:
        return
    for source in find_sources(sources):
        try:
            # The descriptor of standard input is 0: it may be a file, too.
            read = os.fstat(0) if source.path is None else source.path.stat()
        except OSError:
            continue  # who reads it says what is wrong with it
        for name, path in files.items():
            if os.path.samestat(read, path.stat()):
                rule = "must not be a file that is read: it would be lost"
                raise InvalidInput(name, str(path), rule, "give another file")


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


def label_list(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    """``0,1`` or ``1..7`` as numbers."""
    if value is None:
        return None
    found: list[float] = []
    try:
        for part in value.split(","):
            first, dots, last = part.partition("..")
            found += [float(each) for each in range(int(first), int(last) + 1)] if dots else [float(part)]
    except ValueError:
        rule = "is not numbers; write --labels 0,1, or --labels 0..9 for ten classes"
        raise click.BadParameter(f"{value!r} {rule}") from None
    return tuple(found)


_FEATURES = [
    click.option("--bits", type=click.IntRange(1, 30), default=18, show_default=True,
                 help="2^BITS coordinates for hashed names."),
    click.option("--dictionary", is_flag=True, help="An exact, growing dictionary of names in place of hashing."),
    click.option("-q", "--interactions", multiple=True, callback=pairs, metavar="PAIR",
                 help="Add products of two namespaces or columns: ua, or user:ad; may be repeated."),
]  # fmt: skip

radius_option = click.option(
    "--radius", "radii", type=click.FloatRange(min=0.0), multiple=True,
    help="Certify against all models of this norm or less; may be repeated. Default: the norm of the model.",
)  # fmt: skip
