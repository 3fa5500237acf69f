"""What ``giftrl train`` prints at its end."""

from typing import Any

from giftrl.cli.progress import counted, decimals, within_norm
from giftrl.training.summary import certified_in_words


def say_results(
    console: Any,
    summary: dict[str, Any],
    trainer: Any,
    learnt: int,
    resumed: bool,
    written: dict[str, str | None],
    best: Any,
    radii: Any,
) -> None:
    """Print the results of a run.

    Args:
        console: where to print.
        summary: what the run has come to.
        trainer: that has trained.
        learnt: how many examples this process has learnt, those of each pass counted.
        resumed: whether the model had learnt others before.
        written: the files that were written, by what they hold.
        best: what is proved.
        radii: the norms of the models that were certified against.
    """
    model, seconds, passes = trainer.model, summary["seconds_total"], summary.get("passes")
    rate = f"{seconds:.1f} s ({learnt / max(seconds, 1e-9):,.0f} a second, start-up included)"
    since = " since going on" if resumed else ""
    over = f" in {counted(passes['done'], 'pass', 'passes')}" if passes and not resumed else ""
    lines = [
        "\n" + ", ".join(counted(summary[f"{noun}s"], noun) for noun in ("example", "feature", "nonzero")),
        f"{counted(learnt, 'example')}{' learnt' if since or over else ''}{since}{over} in {rate}",
    ]
    if "workers" in summary:
        lines.append(_team_in_words(**summary["workers"]))
    if summary["rejected"]:
        was = "was" if summary["rejected"] == 1 else "were"
        lines.append(f"{counted(summary['rejected'], 'row')} could not be used and {was} skipped")
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
        lines.append(f"certificate: {best[0].in_words(best[1])} {certified_in_words(model)}".rstrip())
    console.print("\n".join(lines))


def _team_in_words(threads: int, merges: int, merging: float, together: float) -> str:
    """What several threads did.

    >>> _team_in_words(2, 0, 0.0, 0.0)
    '2 workers: too few rows to share, so one of them learnt all'
    >>> _team_in_words(2, 20, 0.5, 1.5)
    '2 workers: 1.5 s of learning side by side, 0.5 s in 20 merges'
    """
    if merges == 0:
        return f"{threads} workers: too few rows to share, so one of them learnt all"
    return (
        f"{threads} workers: {together:.1f} s of learning side by side, {merging:.1f} s in {counted(merges, 'merge')}"
    )
