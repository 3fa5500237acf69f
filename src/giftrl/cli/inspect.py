"""``giftrl inspect``: what a model is, what it learnt and what it proves."""

import json
from typing import Any

import click

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path(dir_okay=False))
@click.option(
    "--top", type=click.IntRange(0), default=20, show_default=True, help="How many of the largest weights to show."
)
@click.option(
    "--radius",
    "radii",
    type=click.FloatRange(min=0.0),
    multiple=True,
    help="Certify against all models of this norm or less; may be repeated. Default: the norm of the model.",
)
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw the weights: a .png, .svg or .pdf file.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(model: str, top: int, radii: tuple[float, ...], plot: str | None, as_json: bool) -> None:
    """Show the settings of MODEL, its largest weights with their names, its norms and its certificate.

    \b
    Examples:
      giftrl inspect clicks.giftrl
      giftrl inspect clicks.giftrl --top 50 --radius 1 --radius 10 --plot weights.svg
    """
    from giftrl.cli.train import summary_of
    from giftrl.training import LinearModel

    found, _ = LinearModel.load(model)
    found.features.freeze()
    weights = found.learner.x
    largest = []
    for slot in abs(weights).argsort(kind="stable")[::-1][:top].tolist():
        name = _name(found, slot)
        if weights[slot] != 0.0:
            largest.append((name, float(weights[slot]) * _sign(found, name, slot)))
    import numpy as np

    summary = summary_of(found, radii)
    summary["norms"] = {
        "l1": float(np.abs(weights).sum()), "l2": float(np.linalg.norm(weights)), "max": float(np.abs(weights).max()),
        "nonzero": int(np.count_nonzero(weights)),
    }  # fmt: skip
    summary["collisions"] = found.features.report()._asdict()
    summary["weights"] = [{"feature": name, "weight": weight} for name, weight in largest]
    if plot is not None:
        _draw(plot, weights, largest)
    if as_json:
        click.echo(json.dumps(summary, indent=2))
    else:
        _say(model, summary, found.weight)


def _sign(model: Any, name: str, slot: int) -> float:
    """What hashing multiplied the values of a name by; 1 for numbers and dictionaries."""
    slots, signs = model.features.slots([name])
    return float(signs[0]) if slots[0] == slot else 1.0


def _name(model: Any, slot: int) -> str:
    if slot == model.features.constant:
        return "(constant)"
    name = model.features.name(slot)
    return f"#{slot}" if name is None else str(name)


def _say(path: str, summary: dict[str, Any], weight: float) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    settings = Table("setting", "value", title=path, title_justify="left")
    for name, value in summary["settings"].items():
        if value not in (None, {}, []):
            settings.add_row(name, str(value))
    console.print(settings)
    facts = Table("what", "value", title="the run", title_justify="left")
    for name in ("examples", "features", "nonzeros", "rejected", "average_loss", "lambda", "theta_norm"):
        value = summary[name]
        facts.add_row(name, f"{value:,}" if isinstance(value, int) else f"{value:.6g}")
    for name, value in summary["norms"].items():
        facts.add_row(f"weights: {name}", f"{value:,}" if isinstance(value, int) else f"{value:.6g}")
    if summary["collisions"]["collided"]:
        facts.add_row("names that share a coordinate", f"{summary['collisions']['collided']:,}")
    console.print(facts)
    proofs = Table(
        "norm of u", "average loss", "certified: no u below", "certified gap", title="certificate", title_justify="left"
    )
    for radius, bounds in summary["certificate"]["radius"].items():
        proofs.add_row(
            radius, f"{summary['average_loss']:.6f}", f"{bounds['best_loss_lower_bound'] / max(weight, 1e-300):.6f}",
            f"{bounds['regret_bound'] / max(weight, 1e-300):.6f}",
        )  # fmt: skip
    console.print(proofs)
    largest = Table("feature", "weight", "", title="largest weights", title_justify="left")
    scale = max((abs(each["weight"]) for each in summary["weights"]), default=1.0)
    for each in summary["weights"]:
        bar = "█" * max(1, round(24 * abs(each["weight"]) / scale))
        largest.add_row(
            each["feature"], f"{each['weight']:.6g}", f"[red]{bar}" if each["weight"] < 0 else f"[green]{bar}"
        )
    console.print(largest)


def _draw(path: str, weights: Any, largest: list[tuple[str, float]]) -> None:
    import numpy as np

    from giftrl.errors import InvalidInput

    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput("plot", path, "needs Matplotlib", "pip install 'giftrl[experiments]'") from None
    figure = Figure(figsize=(10, 0.8 + 0.28 * max(8, len(largest))), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    names = [name for name, _ in largest][::-1]
    values = [value for _, value in largest][::-1]
    left.barh(names, values, color=["tab:red" if value < 0 else "tab:green" for value in values])
    left.set_title("largest weights")
    left.axvline(0.0, color="black", linewidth=0.8)
    sizes = np.sort(np.abs(weights[weights != 0.0]))[::-1]
    right.loglog(np.arange(1, len(sizes) + 1), sizes)
    right.set(title="all weights, by size", xlabel="rank", ylabel="absolute value")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as problem:
        raise InvalidInput("plot", path, f"cannot be written ({problem})", "give a .png, .svg or .pdf file") from None
