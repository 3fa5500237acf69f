"""``giftrl reproduce``: make Figures 1 to 3 of the paper."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from giftrl.cli.tables import print_table


@click.command()
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), envvar="GIFTRL_DATA", show_envvar=True,
    help="A folder with a9a, ijcnn1, phishing, abalone, cpusmall and bng_stock, or some of them, as LIBSVM text. "
    "Default: data that comes with scikit-learn.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("out/reproduction"), show_default=True
)
@click.option("--quick", is_flag=True, help="Run 3 repetitions, and nothing beyond the paper.")
@click.option(
    "--repetitions", type=click.IntRange(min=1), default=None, help="Random orders. Default: 15, as in the paper."
)
@click.option("--beyond/--no-beyond", default=None, help="Also run curves that the paper leaves out. Default: yes.")
@click.option("--ablations", is_flag=True, help="Also change each part of the setting in turn. Needs --data.")
@click.option(
    "--axis", type=click.Choice(["clip", "log"]), default="clip", show_default=True,
    help="Let the linear curve leave the panel as in the paper, or use a logarithmic axis for all.",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), help="Repetitions at a time. Default: one for each core.")
def command(
    data: Path | None, out: Path, quick: bool, repetitions: int | None, beyond: bool | None, ablations: bool,
    axis: str, workers: int | None,
) -> None:  # fmt: skip
    """Make Figures 1 to 3 of the paper, and compare them with the published ones.

    \b
    Try it:
      giftrl reproduce --quick

    The output folder gets index.html, a page with the figures, their distances to the published curves, and verdicts on
    the paper's claims; the figures and their numbers are also there as files. Finished repetitions are kept in that
    folder, so an interrupted run continues where it stopped.

    \b
    More examples:
      giftrl reproduce
      giftrl datasets get all --to data && giftrl reproduce --data data
    """
    from giftrl.cli.bar import Bar
    from giftrl.cli.progress import standard_error
    from giftrl.errors import InvalidInput
    from giftrl.paper import pages
    from giftrl.paper.ablations import VARIANTS, ablate
    from giftrl.paper.experiments import Plan, reproduce
    from giftrl.paper.panels import available, bundled
    from giftrl.reports.figure import require_matplotlib

    begun = time.perf_counter()
    require_matplotlib()
    given: dict[str, Any] = {"repetitions": repetitions, "beyond": beyond}
    plan = Plan.quick() if quick else Plan()
    plan = replace(plan, **{name: value for name, value in given.items() if value is not None})
    if ablations and data is None:
        raise InvalidInput("ablations", True, "needs the paper's data", "give its folder with --data FOLDER")
    panels = available(data) if data is not None else bundled()
    steps = len(panels) * (5 if plan.beyond else 3) + 2 + (len(VARIANTS) if ablations else 0)
    with Bar(standard_error(False), steps=steps) as bar:
        result = reproduce(panels, plan, folder=out, workers=workers, tell=bar.step)
        if ablations and data is not None:
            start = time.perf_counter()
            result.ablations = ablate(data, plan.repetitions, keep=out, tell=bar.step)
            result.seconds["ablations"] = time.perf_counter() - start
        bar.step("drawing the figures")
        path = pages.write_report(result, out, axis)
    if result.distances:
        click.echo("\nDistance to the published curves, as a share of the axis\n")
        print_table(*pages.distance_table(result), 2)
    if result.ablations:
        click.echo("\nThe setting with one part changed: distance to the published points\n")
        print_table(*pages.ablation_table(result))
    click.echo("\nTemporal variability\n")
    print_table(*pages.regret_table(result), 2)
    read, total = result.read
    if read:
        click.echo(f"\n{read} of {total} repetitions were read from an earlier run")
    stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in result.seconds.items())
    click.echo(f"\n{time.perf_counter() - begun:.1f} s in total: {stages}")
    click.echo(f"verdicts on the paper's claims: {path.with_name(pages.CLAIMS_FILE)}")
    click.echo(f"open {path}")
