"""What ``giftrl train`` prints at its end."""

from typing import Any

from giftrl.cli.progress import counted, decimals, within_norm


def say_results(
    console: Any,
    summary: dict[str, Any],
    model: Any,
    before: int,
    written: dict[str, str | None],
    best: Any,
    radii: Any,
) -> None:
    """Print the results of a run; ``before`` is how many examples had been learnt when it began or went on."""
    seconds, learnt = summary["seconds_total"], summary["examples"] + model.repeated.examples - before
    rate = learnt / max(seconds, 1e-9)
    lines = [
        "\n" + ", ".join(counted(summary[f"{noun}s"], noun) for noun in ("example", "feature", "nonzero")),
        f"{counted(learnt, 'example')} in {seconds:.1f} s ({rate:,.0f} a second, start-up included)",
    ]
    if summary["rejected"]:
        was = "was" if summary["rejected"] == 1 else "were"
        lines.append(f"{counted(summary['rejected'], 'row')} could not be used and {was} skipped")
    passes = summary.get("passes")
    first = " in the first pass" if passes else ""
    lines.append(f"average loss {decimals(summary['average_loss'])}{first}")
    if passes and passes["held_out_losses"]:
        loss, kept = decimals(min(passes["held_out_losses"])), passes["kept"]
        lines.append(f"held-out loss {loss} after pass {kept} of {passes['done']}, whose model is kept")
    if radii:
        for radius, bounds in summary["certificate"]["radius"].items():
            lines.append(within_norm(float(radius), bounds["best_loss_lower_bound"], model))
    report = model.features.report()
    if report.collided:
        share = f"{'' if report.exact else 'about '}{report.collided:,} of {report.names:,} names share a coordinate"
        remedy = f"(--bits {model.settings.bits}); more bits, or --dictionary, tell them apart"
        lines.append(f"{share} with another {remedy}")
    lines += [f"note: {each}" for each in (*summary["unmatched"], summary["order"]) if each is not None]
    lines += [f"{name} written to {path}" for name, path in written.items() if path is not None]
    if best:
        lines.append(f"certificate: {best[0].in_words(best[1])}")
    console.print("\n".join(lines))
