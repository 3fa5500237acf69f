"""Options that several commands share."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("libsvm", "vw", "csv", "json", "parquet", "arrow", "npz")

format_option = click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="The format of DATA. Default: detected."
)


def _together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """A decorator that adds several options."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


#: How DATA is read.
input_options = _together(
    format_option,
    click.option("--label", help="Tables: the label column, by name or number. Default: label, target, y, class, or "
                 "the last one."),
    click.option("--weight", help="Tables: the column of the weights of the rows."),
    click.option("--ignore", multiple=True, help="Tables: a column to leave out; may be repeated."),
    click.option("--categorical", multiple=True, help="Tables: a column of categories that look like numbers."),
    click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True,
                 help="What to do at a row that cannot be used."),
    click.option("--rejects", type=click.Path(dir_okay=False),
                 help="With skip: write these rows to this file, as JSON lines."),
)  # fmt: skip


def require_apart(sources: Sequence[str], **written: str | None) -> None:
    """Raise an error if a file would be both read and written. Called before any file is opened for writing.

    Args:
        sources: the sources that are read.
        written: the files that are written, by the name of their argument; None for a file that is not written.
    """
    from giftrl.errors import InvalidInput
    from giftrl.streams.sources.source import find_sources

    files = {name: Path(path) for name, path in written.items() if path is not None and Path(path).is_file()}
    if not files:
        return
    for source in find_sources(sources):
        try:
            # Standard input, descriptor 0, may be a file too.
            read = os.fstat(0) if source.path is None else source.path.stat()
        except OSError:
            continue  # the reader will say what is wrong with it
        for name, path in files.items():
            if os.path.samestat(read, path.stat()):
                rule = "must not be a file that is read: its content would be lost"
                raise InvalidInput(name, str(path), rule, "give another file")


def reading_of(options: dict[str, Any]) -> dict[str, Any]:
    """What :data:`input_options` say, as arguments of a reader. These options are removed from ``options``."""
    from giftrl.streams.columns import Columns

    def column(name: str | None) -> Any:
        return int(name) if name is not None and name.lstrip("-").isdigit() else name

    columns = Columns(
        label=column(options.pop("label")),
        weight=column(options.pop("weight")),
        ignore=tuple(map(column, options.pop("ignore"))),
        categorical=tuple(map(column, options.pop("categorical"))),
    )
    reading = {name: options.pop(name) for name in ("on_error", "rejects")}
    return {"format": options.pop("format_"), "columns": columns, **reading}


def pairs(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The pairs of ``-q ab`` or ``-q user:ad``."""
    chosen = []
    for value in values:
        names = tuple(value.split(":")) if ":" in value.strip(":") else tuple(value)
        if len(names) != 2 or not all(names):
            raise click.BadParameter(f"{value!r} is not a pair; write two letters (ua) or two names (user:ad)")
        chosen.append((names[0], names[1]))
    return tuple(chosen)


def label_list(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    """The labels of ``--labels 0,1`` or ``--labels 1..7``."""
    if value is None:
        return None
    labels: list[float] = []
    try:
        for part in value.split(","):
            first, dots, last = part.partition("..")
            labels += [float(each) for each in range(int(first), int(last) + 1)] if dots else [float(part)]
    except ValueError:
        rule = "is not a list of numbers; write --labels 0,1, or --labels 0..9 for ten classes"
        raise click.BadParameter(f"{value!r} {rule}") from None
    return tuple(labels)


#: How names of features become coordinates.
feature_options = _together(
    click.option("--bits", type=click.IntRange(1, 30), default=18, show_default=True,
                 help="Hash names to 2^BITS coordinates."),
    click.option("--dictionary", is_flag=True,
                 help="Give each name its own coordinate in a growing dictionary, instead of hashing."),
    click.option("-q", "--interactions", multiple=True, callback=pairs, metavar="PAIR",
                 help="Add the products of two namespaces or columns: ua, or user:ad; may be repeated."),
)  # fmt: skip

radius_option = click.option(
    "--radius", "radii", type=click.FloatRange(min=0.0), multiple=True,
    help="Certify against every model of this norm or less; may be repeated. Default: the norm of the model.",
)  # fmt: skip
