"""``giftrl reproduce``: Figures 1 to 3 of the paper."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), envvar="GIFTRL_DATA", show_envvar=True,
    help="A folder with a9a, ijcnn1, phishing, abalone, cpusmall and bng_stock, or some of them, as LIBSVM text. "
    "Default: data that comes with scikit-learn.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("out/reproduction"), show_default=True
)
@click.option("--quick", is_flag=True, help="3 repetitions, and nothing beyond the paper.")
@click.option(
    "--repetitions", type=click.IntRange(min=1), default=None, help="Random orders. Default: 15, as published."
)
@click.option("--beyond/--no-beyond", default=None, help="Whether to run what the paper leaves out. Default: yes.")
@click.option("--ablations", is_flag=True, help="Also change each part of the setting in turn. Needs --data.")
@click.option(
    "--axis", type=click.Choice(["clip", "log"]), default="clip", show_default=True,
    help="Cut the linear curve as the paper does, or draw all on a logarithmic axis.",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), default=None, help="Orders at a time. Default: one a core.")
def command(
    data: Path | None, out: Path, quick: bool, repetitions: int | None, beyond: bool | None, ablations: bool,
    axis: str, workers: int | None,
) -> None:  # fmt: skip
    """Make Figures 1 to 3 of the paper, and compare them with the published ones.

    Leaves index.html with the figures, the distances to the published curves and the paper's claims in the output
    folder, and the figures and their numbers beside it. Finished repetitions are kept there: an interrupted run goes
    on where it stopped.

    \b
    Examples:
      giftrl reproduce
      giftrl datasets get all --to data && giftrl reproduce --data data
    """
    from giftrl.errors import InvalidInput
    from giftrl.paper.ablations import VARIANTS, ablate
    from giftrl.paper.panels import available, bundled
    from giftrl.paper.report import ablation_rows, claim_rows, distance_rows, temporal_rows, write_report
    from giftrl.paper.reproduce import Plan, reproduce

    begun = time.perf_counter()
    plan = Plan.quick() if quick else Plan()
    plan = replace(plan, repetitions=plan.repetitions if repetitions is None else repetitions)
    plan = replace(plan, beyond=plan.beyond if beyond is None else beyond)
    if ablations and data is None:
        raise InvalidInput("ablations", True, "compares with the published curves", "give the paper's data with --data")
    panels = available(data) if data is not None else bundled()
    steps = len(panels) * (5 if plan.beyond else 3) + 1 + (len(VARIANTS) if ablations else 0)
    with click.progressbar(length=steps, file=sys.stderr, item_show_func=lambda item: item) as bar:
        first = True

        def tell(work: str) -> None:
            nonlocal first
            bar.update(0 if first else 1, work)
            first = False

        result = reproduce(panels, plan, folder=out, workers=workers, tell=tell)
        if ablations and data is not None:
            start = time.perf_counter()
            result.ablations = ablate(data, plan.repetitions, keep=out, tell=tell)
            result.seconds["ablations"] = time.perf_counter() - start
        bar.update(1, "done")
    path = write_report(result, out, axis)
    if result.distances:
        click.echo("\nDistance to the published curves, as a share of the axis\n")
        _table(("panel", "update", "points", "median", "largest", "at beta", "within reach"), distance_rows(result))
    if result.ablations:
        click.echo("\nThe setting with one part changed: distance to the published points\n")
        _table(("variant", "mean", "as found", "largest", "within reach"), ablation_rows(result))
    click.echo("\nThe paper's claims, under each reading\n")
    for claim, reading, verdict, evidence in claim_rows(result):
        click.echo(f"{verdict:>7}  {claim} [{reading}]\n         {evidence}")
    click.echo("\nTemporal variability\n")
    _table(("sequence", "rule", "T", "regret", "exponent", "Corollary 4.3"), temporal_rows(result))
    read, total = result.read
    if read:
        click.echo(f"\n{read} of {total} repetitions were read from an earlier run")
    stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in result.seconds.items())
    click.echo(f"\n{time.perf_counter() - begun:.1f} s in all: {stages}")
    click.echo(f"open {path}")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [head, *rows]
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    for line in lines:
        cells = [c.ljust(w) if j < 2 else c.rjust(w) for j, (c, w) in enumerate(zip(line, widths, strict=True))]
        click.echo("  ".join(cells).rstrip())
