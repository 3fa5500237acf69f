"""``giftrl inspect``: show a model's settings, weights and certificate."""

import io
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from giftrl.cli.messages import in_rows
from giftrl.cli.options import certificate_option, check_files, radius_option
from giftrl.cli.terminal import decimals, json_text, proving, standard_error, standard_output
from giftrl.errors import InvalidInput
from giftrl.files import write


@click.command("inspect")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option(
    "--top", type=click.IntRange(0), default=20, show_default=True, help="How many of the largest weights to show."
)
@radius_option
@certificate_option
@click.option("--plot", type=click.Path(), help="Draw the weights to this .png, .svg or .pdf file.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def inspect_command(
    model: str, top: int, radii: tuple[float, ...], seconds: float, plot: str | None, as_json: bool
) -> None:
    """Show the settings of MODEL, what the columns of its data are for, its largest weights and its certificate.

    \b
    Try it:
      giftrl demo churn
      giftrl train churn.csv --label churned --ignore customer_id --model churn.giftrl
      giftrl inspect churn.giftrl

    For a model that was trained with --beta auto there is also a table of experts: the factor of each expert in the
    prediction, and the average loss of the expert's own predictions. Factors may be negative and need not sum to 1.

    \b
    More examples:
      giftrl inspect clicks.giftrl
      giftrl inspect clicks.giftrl --top 50 --radius 1 --radius 10 --plot weights.svg
    """
    import numpy as np

    from giftrl.reports.charts import require_matplotlib
    from giftrl.training import LinearModel
    from giftrl.training.model import best_losses, largest_weights, summary_of

    check_files({"model": [model]}, {"plot": plot})
    if plot is not None:
        require_matplotlib()
    standard_output()
    trained, _ = LinearModel.load(model)
    trained.features.freeze()
    weights = trained.learner.x
    classes = [f" (class {name})" for name in trained.settings.class_names] if trained.settings.many else [""]
    largest = [(weight.name + classes[weight.column], weight.weight) for weight in largest_weights(trained, top)]
    with proving(standard_error(as_json), seconds):
        best = best_losses(trained.certificate, seconds) if seconds > 0.0 else []
    summary = summary_of(trained, radii, best)
    sizes = abs(weights)
    summary["norms"] = {
        "l1": float(sizes.sum()), "l2": float(np.linalg.norm(weights)), "max": float(sizes.max()),
        "nonzero": int(np.count_nonzero(weights)),
    }  # fmt: skip
    summary["collisions"] = trained.features.report()._asdict()
    summary["weights"] = [{"feature": name, "weight": weight} for name, weight in largest]
    if plot is not None:
        _draw(plot, weights, largest)
    if as_json:
        standard_output().write(json_text(summary).encode() + b"\n")
    else:
        _say(model, summary, trained, best, radii)


def _say(path: str, summary: dict[str, Any], model: Any, best: Any, radii: tuple[float, ...]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from giftrl.cli.train import within_norm
    from giftrl.training.model import certified_in_words

    console = Console(highlight=False)

    def show(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
        table = Table(*heads, title=title, title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)

    settings = {name: value for name, value in summary["settings"].items() if value not in (None, {}, [])}
    names = model.settings.class_names
    if settings.pop("label_values", None):
        settings["labels"] = ", ".join(names) if model.settings.many else f"{names[0]} (-), {names[1]} (+)"
    show(escape(path), ("setting", "value"), ((name, escape(str(value))) for name, value in settings.items()))
    if model.schema is not None:
        show("columns", ("kind", "columns"), ((head, escape(names)) for head, names in in_rows(model.schema)))
    counts = ("examples", "features", "nonzeros", "rejected", "average_loss", "lambda", "theta_norm")
    facts = {name: summary[name] for name in counts if name in summary}
    facts |= {f"weights: {name}": value for name, value in summary["norms"].items()}
    collisions = summary["collisions"]
    if collisions["collided"]:
        about = "" if collisions["exact"] else "about "
        facts["hash collisions"] = f"{about}{collisions['collided']:,}"
    show("the run", ("what", "value"), ((name, _number(value)) for name, value in facts.items()))
    if "experts" in summary:
        most = max(abs(expert["share"]) for expert in summary["experts"])
        experts = (
            (expert["name"], f"{expert['share']:.3f}", _bar(expert["share"], most, 16), _number(expert["average_loss"]))
            for expert in summary["experts"]
        )
        show("experts", ("expert", "share", "", "average loss alone"), experts)
    if best:
        sizes = ["this model's" if bound.scale == 1.0 else f"{bound.scale:g} times that" for bound in best]
        stored = [f"{bound.rows_kept:,} of {bound.rows:,}" for bound in best]
        proofs = ((size, *_proved(bound), rows) for size, bound, rows in zip(sizes, best, stored, strict=True))
        heads = ("size of others", "average loss", "lower bound", "gap", "examples stored")
        show("certificate", heads, proofs)
    weights = [(each["feature"], each["weight"]) for each in summary["weights"]]
    scale = max((abs(weight) for _, weight in weights), default=1.0)
    largest = ((escape(name), f"{weight:.6g}", _bar(weight, scale, 24)) for name, weight in weights)
    show("largest weights", ("feature", "weight", ""), largest)
    lines = ["No examples were stored for a lower bound on the best loss."]
    if best:
        lines = [f"{best[0].in_words(best[1])} {certified_in_words(model)}".rstrip()]
    if radii:
        bounds = summary["certificate"]["radius"]
        lines += [within_norm(radius, bounds[f"{radius:g}"]["best_loss_lower_bound"], model) for radius in radii]
    console.print("\n".join(lines), markup=False)


def _proved(best: Any) -> tuple[str, str, str]:
    """The average loss, its lower bound, and the gap; a dash without a bound."""
    if not best.lower_bound > best.least:
        return decimals(best.average_loss), "-", "-"
    return decimals(best.average_loss), decimals(best.average), decimals(best.average_loss - best.average)


def _number(value: int | float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _bar(value: float, largest: float, blocks: int) -> str:
    """A bar of at most ``blocks`` blocks: red for a negative value, green for a positive one."""
    size = max(1, round(blocks * abs(value) / largest)) if value and math.isfinite(value / largest) else 0
    block = "█" if "utf" in (sys.stdout.encoding or "").lower() else "#"
    return f"[{'red' if value < 0 else 'green'}]{block * size}"


def _draw(path: str, weights: Any, largest: list[tuple[str, float]]) -> None:
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.8 + 0.28 * max(8, len(largest))), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    values = [value for _, value in largest[::-1]]
    colours = ["tab:red" if value < 0 else "tab:green" for value in values]
    left.barh([name for name, _ in largest[::-1]], values, color=colours)
    left.set_title("largest weights")
    left.axvline(0.0, color="black", linewidth=0.8)
    sizes = np.sort(np.abs(weights[weights != 0.0]))[::-1]
    right.loglog(np.arange(1, len(sizes) + 1), sizes)
    right.set(title="all weights, by size", xlabel="rank", ylabel="absolute value")
    image = io.BytesIO()
    try:
        figure.savefig(image, format=Path(path).suffix.lstrip(".") or "png")
    except ValueError as problem:
        raise InvalidInput("plot", path, f"cannot be drawn ({problem})", "give a .png, .svg or .pdf file") from None
    write(path, [image.getvalue()])
