"""Options that several commands share."""

import csv
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from giftrl.files import check_outputs

F = TypeVar("F", bound=Callable[..., Any])

#: The maximum number of classes in --labels; each has a weight per feature.
MOST_CLASSES = 1_000_000
FORMATS = ("libsvm", "vw", "csv", "json", "parquet", "arrow", "npz")

COLUMN_OPTIONS = ("label", "weight", "ignore", "categorical", "date", "text")

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


#: Options of reading DATA.
input_options = _together(
    format_option,
    click.option("--label", help="Tables: the label column, by name or number (0 is the first). Default: label, "
                 "target, y, class, or the last one."),
    click.option("--weight", help="Tables: the column of the weights of the rows."),
    click.option("--ignore", multiple=True, help="Tables: a column to leave out; may be repeated."),
    click.option("--categorical", multiple=True, help="Tables: a column of categories that look like numbers."),
    click.option("--date", multiple=True, help="Tables: a column of ISO dates or times, if it is not detected."),
    click.option("--text", multiple=True, help="Tables: a column of text whose words are features; may be repeated."),
    click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True,
                 help="Stop at a bad row, or skip it."),
    click.option("--rejects", type=click.Path(),
                 help="With skip: write these rows to this file, as JSON lines."),
)  # fmt: skip


schema_option = click.option(
    "--schema", type=click.Path(exists=True, dir_okay=False),
    help="Tables: what each column is for, from a JSON file, such as what giftrl inspect --json prints.",
)  # fmt: skip


def check_files(read: dict[str, Sequence[str]], written: dict[str, str | None], **rules: Any) -> None:
    """:func:`giftrl.files.check_outputs` with expanded sources (globs and directories) under "data"."""
    from giftrl.streams.source import find_sources

    if "data" in read:
        files = ["-" if source.path is None else str(source.path) for source in find_sources(read["data"])]
        read = read | {"data": files}
    check_outputs(read, written, **rules)


def reading_of(options: dict[str, Any]) -> dict[str, Any]:
    """Take the values of :data:`input_options` from ``options``, as arguments for a reader; includes the schema for
    commands with :data:`schema_option`.
    """
    from giftrl.streams.columns import Columns, Schema

    def column(given: Any) -> Any:
        if isinstance(given, tuple):
            return tuple(map(column, given))
        return int(given) if given is not None and re.fullmatch("-?[0-9]+", given) else given

    columns = Columns(**{name: column(options.pop(name)) for name in COLUMN_OPTIONS})
    reading = {name: options.pop(name) for name in ("on_error", "rejects")}
    if "schema" in options:
        path = options.pop("schema")
        if path is not None and columns != Columns():
            raise click.UsageError("--schema says what each column is for; leave it out, or the options of columns")
        reading["schema"] = None if path is None else Schema.read(path)
    if reading["rejects"] is not None and reading["on_error"] != "skip":
        raise click.UsageError("--rejects needs --on-error skip; add that, or leave it out")
    return {"format": options.pop("format_"), "columns": columns, **reading}


def products(context: Any, parameter: Any, values: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The products of ``-q ab``, ``-q user:ad``, ``-q abc`` or ``-q user:ad:page``."""
    chosen = []
    for value in values:
        names = tuple(value.split(":")) if ":" in value.strip(":") else tuple(value)
        if len(names) < 2 or not all(names):
            rule = "names no product; write two or more letters (ua) or names (user:ad, user:ad:page)"
            raise click.BadParameter(f"{value!r} {rule}")
        chosen.append(names)
    return tuple(chosen)


def ngrams(context: Any, parameter: Any, values: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The namespaces and sizes of ``--ngram 2``, ``--ngram a2`` or ``--ngram text:2``."""
    chosen = []
    for value in values:
        found = re.fullmatch("(?:(.+):|([^0-9]))?([0-9]+)", value)
        if found is None:
            rule = "is no size; write --ngram 2, --ngram a2 (namespaces that begin with a) or --ngram text:2"
            raise click.BadParameter(f"{value!r} {rule}")
        name, letter, size = found.groups()
        chosen.append((name or letter or ":", int(size)))
    return tuple(chosen)


def label_list(context: Any, parameter: Any, value: str | None) -> tuple[float, ...] | tuple[str, ...] | None:
    """The labels of ``--labels 0,1``, ``1..7`` or ``no,yes``, a record of CSV: all numbers, or else all names."""
    from giftrl.streams.batch import is_exact

    if value is None:
        return None
    labels: list[str] = []
    try:
        parts = next(csv.reader([value], skipinitialspace=True, strict=True), [])
    except csv.Error:
        rule = "has a quote out of place; write --labels 'no,\"well, yes\"'"
        raise click.BadParameter(f"{value!r} {rule}") from None
    for part in parts if '"' in value else map(str.strip, parts):
        first, dots, last = part.partition("..")
        if dots:
            if not all(re.fullmatch("-?[0-9]+", end) for end in (first, last)):
                rule = "is no range of whole numbers; write --labels 0,1, --labels 0..9 or --labels no,yes"
                raise click.BadParameter(f"{part!r} {rule}")
            if int(last) - int(first) >= MOST_CLASSES:
                rule = f"has {int(last) - int(first) + 1} labels; there can be {MOST_CLASSES} classes at most"
                raise click.BadParameter(f"{value!r} {rule}")
            labels += map(str, range(int(first), int(last) + 1))
        else:
            labels.append(part)
    if not labels or not all(labels):
        raise click.BadParameter(f"{value!r} has an empty label; write --labels no,yes, --labels 0,1 or --labels 0..9")
    try:
        numbers = tuple(map(float, labels))
    except ValueError:
        return tuple(labels)
    return numbers if all(map(math.isfinite, numbers)) and all(map(is_exact, labels)) else tuple(labels)


def parameter_list(context: Any, parameter: Any, values: tuple[str, ...]) -> dict[str, float]:
    """The parameters of ``--set tau=0.9``."""
    parameters = {}
    for value in values:
        name, _, number = value.partition("=")
        try:
            parameters[name] = float(number if name else "")
        except ValueError:
            raise click.BadParameter(f"{value!r} is not name=number; write --set tau=0.9") from None
    return parameters


#: Options that turn names of features into coordinates.
feature_options = _together(
    click.option("--bits", type=click.IntRange(1, 30), default=18, show_default=True,
                 help="Hash names to 2^BITS coordinates."),
    click.option("--dictionary", is_flag=True,
                 help="Give each name its own coordinate in a growing dictionary, instead of hashing."),
    click.option("-q", "--interactions", multiple=True, callback=products, metavar="PRODUCT",
                 help="Add the products of two or more namespaces or columns: ua, user:ad, uap or user:ad:page; may be "
                 "repeated."),
    click.option("--ngram", "ngrams", multiple=True, callback=ngrams, metavar="N",
                 help="VW text: join 2 to N consecutive names of a namespace; a2 or text:2 for some namespaces only; "
                 "may be repeated."),
)  # fmt: skip


def _finite_all(context: Any, parameter: Any, values: tuple[float, ...]) -> tuple[float, ...]:
    if not all(map(math.isfinite, values)):
        raise click.BadParameter("a norm must be finite; write --radius 1")
    return values


radius_option = click.option(
    "--radius", "radii", type=click.FloatRange(min=0.0), multiple=True, callback=_finite_all,
    help="Also certify against all models up to this Euclidean norm; may be repeated.",
)  # fmt: skip


certificate_option = click.option(
    "--certificate-seconds", "seconds", type=click.FloatRange(min=0.0), default=5.0, show_default=True,
    envvar="GIFTRL_CERTIFICATE_SECONDS", show_envvar=True,
    help="The time to search for a bound on the loss of other models; it is valid after any time. 0: none.",
)  # fmt: skip


def quiet_option(*names: str, help: str) -> Callable[[F], F]:  # noqa: A002 (as click has it)
    """A flag for a command that prints less; it also keeps the compiler silent."""

    def take(context: Any, parameter: Any, quiet: bool) -> bool:
        from giftrl.compiled import compiler

        if quiet:
            compiler.speaking[0] = False
        return quiet

    return click.option(*names, is_flag=True, callback=take, help=help)


#: Options of Vowpal Wabbit and their equivalents, or the reason why none is needed.
#: docs/from-vowpal-wabbit.md has the same table.
VOWPAL_WABBIT_ANSWERS = {
    "-d --data": "the files are arguments: giftrl train FILE",
    "-f --final_regressor": "--model FILE",
    "--initial_regressor": "--from MODEL",
    "--save_resume": "not needed: training can continue from any model with --from MODEL",
    "-t --testonly": "giftrl predict MODEL FILE",
    "-r --raw_predictions": "giftrl predict MODEL FILE --scores",
    "--link": "giftrl predict --proba prints probabilities",
    "-b --bit_precision": "--bits N",
    "--loss_function": "--loss logistic, hinge, squared, quantile, poisson, ...",
    "--quantile_tau": "--loss quantile --set tau=NUMBER",
    "--oaa --ect": "--loss softmax; labels are those of the first rows, or --labels 1..K",
    "--binary": "giftrl predict prints labels; --proba probabilities, --scores scores",
    "-l --learning_rate": "not needed: there is no learning rate",
    "--power_t --initial_t --decay_learning_rate": "not needed: there is no learning rate to decay",
    "--adaptive": "not needed: features have their own scales by default",
    "--normalized": "not needed: features may be in any units",
    "--invariant": "not needed: updates take account of importance weights",
    "--sgd": "--beta 1 --update linear",
    "--ftrl": "--beta 1 --regularizer adagrad --update linear",
    "--coin": "not needed: coin betting is one of the default base learners",
    "--bfgs": "not supported: rows are learned one by one",
    "--l1": "--beta 1 --regularizer elastic_net --set l1=NUMBER",
    "--l2": "--beta 1 --regularizer elastic_net --set l2=NUMBER",
    "-c --cache --cache_file": "giftrl convert FILE FILE.arrow, once",
    "-k --kill_cache": "not needed: no cache is used unless you name it",
    "--quadratic": "-q ab, or -q user:ad",
    "--cubic": "-q abc, or -q user:ad:page",
    "--ngram": "giftrl train --ngram N; the model knows it when it predicts",
    "--skips --ignore_linear": "not there",
    "--noconstant": "--no-constant",
    "--hash": "not needed: names are hashed, numbers are coordinates; --dictionary gives each name its own",
    "-a --audit": "giftrl predict MODEL FILE --audit",
    "--invert_hash --readable_model": "giftrl inspect MODEL --top N shows the weights by name",
    "--progress -P": "not needed: a line is printed at each power of two",
    "--holdout_off": "--holdout 0",
    "--holdout_period": "--holdout N",
    "--early_terminate": "not needed: training stops when the held-out loss rises",
    "--daemon": "not there",
}
VOWPAL_WABBIT_OPTIONS = {name: ours for names, ours in VOWPAL_WABBIT_ANSWERS.items() for name in names.split()}


class VowpalWabbitHints(click.Command):
    """A command that suggests the equivalent of a Vowpal Wabbit option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as problem:
            ours = VOWPAL_WABBIT_OPTIONS.get(problem.option_name)
            if ours is None:
                raise
            message = f"{problem.option_name} is an option of Vowpal Wabbit; here: {ours}"
            raise click.UsageError(message, ctx) from None
