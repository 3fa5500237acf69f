"""``giftrl certify``: prove how far a model is from the best linear model of its size."""

import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from giftrl import losses
from giftrl.cli.options import (
    check_files,
    input_options,
    label_list,
    parameter_list,
    products,
    quiet_option,
    reading_of,
)
from giftrl.cli.terminal import Bar, json_text, proving, standard_error, standard_output

#: Options that need ``--weights``.
FOR_WEIGHTS = ("loss", "labels", "parameters", "no_constant", "interactions", "first_index")


@click.command("certify")
@click.argument("files", nargs=-1, required=True, metavar="MODEL DATA...")
@click.option(
    "--weights", "weights_path", type=click.Path(dir_okay=False),
    help="Certify these weights instead of MODEL: of scikit-learn (.npz or .npy), of VW (--invert_hash or "
    "--readable_model), a JSON object, or lines of a name and a weight.",
)  # fmt: skip
@click.option(
    "--gap", type=click.FloatRange(min=0.0), default=0.0, show_default=True,
    help="Stop when the model is proved to be within this fraction of the best, such as 0.01. 0: as close as possible.",
)  # fmt: skip
@click.option(
    "--time-limit", type=click.FloatRange(min=0.0), default=60.0, show_default=True, metavar="SECONDS",
    help="Stop after this time, not counting one reading of DATA. The bound is valid at any time.",
)  # fmt: skip
@click.option(
    "--scale", type=click.FloatRange(min=0.0), default=1.0, show_default=True,
    help="Compare with models of up to this multiple of this model's size.",
)  # fmt: skip
@click.option(
    "--witness-nonzeros", type=click.IntRange(0), default=20_000_000, show_default=True, metavar="N",
    help="Keep DATA in memory if it has at most this many nonzeros (about 120 bytes each); else read it repeatedly.",
)  # fmt: skip
@click.option(
    "--loss", help=f"With --weights: {', '.join(losses.BY_NAME)}; for several classes {' or '.join(losses.MULTICLASS)}."
)
@click.option(
    "--labels", callback=label_list, metavar="A,B",
    help="With --weights: the labels in DATA that stand for -1 and +1, such as 0,1; for several classes all labels.",
)  # fmt: skip
@click.option(
    "--set", "parameters", multiple=True, callback=parameter_list, metavar="NAME=NUMBER",
    help="With --weights: a parameter of the loss, such as tau=0.9; may be repeated.",
)  # fmt: skip
@click.option("--no-constant", is_flag=True, help="With --weights: no model has a constant feature.")
@click.option(
    "-q", "--interactions", multiple=True, callback=products, metavar="PRODUCT",
    help="With --weights: add the products of namespaces or columns, as for train; may be repeated.",
)  # fmt: skip
@click.option(
    "--first-index", type=click.IntRange(0, 1),
    help="With weights in an array: the number that the first one's feature has in DATA. Default: 0 if DATA has a "
    "feature 0, else 1.",
)  # fmt: skip
@quiet_option("--quiet", help="Print nothing but the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@input_options
def certify_command(
    files: tuple[str, ...], weights_path: str | None, gap: float, time_limit: float, scale: float,
    witness_nonzeros: int, quiet: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Prove how far MODEL is from the best linear model of its size, on the rows of DATA.

    \b
    Try it:
      giftrl demo churn
      giftrl train churn.csv --label churned --ignore customer_id --model churn.giftrl
      giftrl certify churn.giftrl churn.csv

    Prints the average loss of the model, and a lower bound on the average loss of every linear model up to its size on
    these rows. Size is the norm of the weights with standardised features. Rows need labels. The model is used as it
    is: its predictions are linear, and not clipped.

    With --weights FILE in the place of MODEL, the weights are those of another program. Names are those that features
    have in DATA: age, city=Rome, namespace^feature, 17; the constant is called intercept or (constant). Weights in an
    array (coef, intercept and classes of scikit-learn) have the order of the columns, or of the numbers in LIBSVM text.

    \b
    More examples:
      giftrl certify clicks.giftrl clicks.svm.gz
      giftrl certify clicks.giftrl clicks.svm.gz --gap 0.01 --scale 10
      giftrl certify --weights sklearn.npz --loss logistic --labels 0,1 clicks.svm.gz
      giftrl certify --weights vw.txt --loss logistic clicks.vw
    """
    begun = time.perf_counter()
    from giftrl.training.certification import certify, in_words, rows_for_model, values_of
    from giftrl.training.external_weights import rows_for_weights

    reading = reading_of(options)
    data = files if weights_path is not None else files[1:]
    if not data:
        raise click.UsageError("DATA is missing; write giftrl certify MODEL DATA, or --weights FILE DATA")
    for name in FOR_WEIGHTS if weights_path is None else ():
        if options[name] not in (None, False, (), {}):
            option = "--set" if name == "parameters" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} needs --weights: MODEL knows its own; leave it out")
    inputs: dict[str, Sequence[str]] = {"data": data}
    inputs |= {"weights": [weights_path]} if weights_path is not None else {"model": files[:1]}
    check_files(inputs, {"rejects": reading["rejects"]})
    standard_output()
    notes: list[str] = []
    console = standard_error(quiet or as_json)
    passes = PassReport(quiet or as_json, console)
    with Bar(console, "reading") as bar:
        reading |= {"most": witness_nonzeros, "watch": bar.move}
        if weights_path is None:
            rows, weights = rows_for_model(files[0], data, **reading)
        else:
            given = {"constant": not options.pop("no_constant"), "first": options.pop("first_index"), **options}
            rows, weights, notes = rows_for_weights(weights_path, data, **given, **reading)
    passes.surveyed(rows)
    surveyed = time.perf_counter()
    with proving(console, time_limit):
        best = certify(rows, weights, scale=scale, gap=gap, time_limit=time_limit, watch=passes.passed)
    notes = [*rows.notes, *notes]
    if time.perf_counter() - surveyed >= time_limit:
        notes.append(f"stopped at --time-limit {time_limit:g}; more time may prove more")
    if as_json:
        result = values_of(rows, best) | {"notes": notes, "seconds": time.perf_counter() - begun}
        standard_output().write(json_text(result).encode() + b"\n")
        return
    if not quiet:
        for each in notes:
            click.echo(f"giftrl: note: {each}", err=True)
    click.echo(_wrapped(in_words(best)))


def _wrapped(text: str) -> str:
    """Wrap text to the width of the terminal."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(click.wrap_text(line, width) for line in text.splitlines())


class PassReport:
    """Reports rows and the bound of each pass on standard error."""

    def __init__(self, quiet: bool, console: Any) -> None:
        self._quiet, self._console, self._begun = quiet, console, time.perf_counter()
        self._weight, self._printed = 1.0, ""

    def surveyed(self, rows: Any) -> None:
        """Print the number of rows and features."""
        self._weight = rows.weight
        skipped = f", {rows.rejected:,} skipped" if rows.rejected else ""
        kept = "kept in memory" if rows.sample.share == 1.0 else "too large to keep, so they are read again"
        self._print(f"{rows.rows:,} rows, {len(rows.coordinates):,} features{skipped}, {kept}")

    def passed(self, passes: int, bound: float) -> None:
        """Print the bound of a pass, if it has changed."""
        average = f"{bound / self._weight:.4g}"
        if average != self._printed:
            self._printed = average
            self._print(f"pass {passes}: no model of that size below {average}")

    def _print(self, text: str) -> None:
        if not self._quiet:
            self._console.print(f"{text} ({time.perf_counter() - self._begun:.1f} s)")
