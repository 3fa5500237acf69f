"""Commands about the paper: ``giftrl reproduce``, ``giftrl sweep`` and ``giftrl datasets``."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from giftrl.cli.options import check_files, format_option, quiet_option
from giftrl.cli.terminal import Bar, counted, print_table, standard_error
from giftrl.errors import InvalidInput, require


@click.command("reproduce")
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
@click.option("--beyond/--no-beyond", default=None, help="Also run curves that are not in the paper. Default: yes.")
@click.option("--ablations", is_flag=True, help="Also change each part of the setting in turn. Needs --data.")
@click.option(
    "--axis", type=click.Choice(["clip", "log"]), default="clip", show_default=True,
    help="Let the linear curve leave the panel as in the paper, or use a logarithmic axis for all.",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), help="Repetitions at a time. Default: one for each core.")
def reproduce_command(
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
    from giftrl.paper import pages
    from giftrl.paper.experiments import VARIANTS, ReproductionPlan, ablate, reproduce
    from giftrl.paper.panels import available, bundled
    from giftrl.reports.charts import require_matplotlib

    begun = time.perf_counter()
    require_matplotlib()
    given: dict[str, Any] = {"repetitions": repetitions, "beyond": beyond}
    plan = ReproductionPlan.quick() if quick else ReproductionPlan()
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


@click.command("sweep")
@click.argument("data", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--loss", default="logistic", show_default=True, help="The name of a loss.")
@click.option(
    "--updates", default="linear,truncated,twostep,proximal", show_default=True,
    help="Names of updates, separated by commas. name:ahead uses H, name:now uses H', twostep:safe uses the safeguard.",
)  # fmt: skip
@click.option("--betas", default="1e-3:1e3:13", show_default=True, help="low:high:count, or a list such as 0.1,1,10.")
@click.option("--schedule", default="temporal", show_default=True, help="The name of a schedule.")
@click.option("--regularizer", default="squared_norm", show_default=True, help="The name of a regularizer.")
@click.option("--floor", type=float, default=None, help="A lower bound on lambda_1 in the temporal schedule.")
@click.option("--repetitions", type=click.IntRange(min=1), default=15, show_default=True, help="Random orders.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the first order.")
@click.option(
    "--prepare", type=click.Choice(["auto", "standard", "unit", "raw"]), default="auto", show_default=True,
    help="How the features are prepared: standard is what the paper's figures need; auto means standard for dense "
    "data and unit for sparse data.",
)  # fmt: skip
@format_option
@click.option("--positive", default=None, help="The label that counts as +1; all others count as -1.")
@click.option(
    "--axis", type=click.Choice(["clip", "log"]), default="clip", show_default=True,
    help="End the axis at the highest value of all curves but the linear one, or use a logarithmic axis for all.",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), help="Repetitions at a time. Default: one for each core.")
@click.option(
    "--cluster", metavar="auto|ray://HOST:PORT",
    help="Run the repetitions on a Ray cluster: the one of this machine (auto), or another. The losses are the same.",
)  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("out/sweep"), show_default=True)
@quiet_option("-q", "--quiet", help="Print the path of the page and nothing else.")
def sweep_command(
    data: Path, *, loss: str, updates: str, betas: str, schedule: str, regularizer: str, floor: float | None,
    repetitions: int, seed: int, prepare: str, format_: str | None, positive: str | None, axis: str,
    workers: int | None, cluster: str | None, out: Path, quiet: bool,
) -> None:  # fmt: skip
    """Run every beta and update over DATA, in one pass for each random order.

    \b
    Try it:
      giftrl demo diabetes
      giftrl sweep diabetes.csv --loss absolute --betas 1:1e4:9 --repetitions 3

    DATA is a file in any format that train reads, plain or compressed. The output folder gets sweep.csv, sweep.svg,
    sweep.png and sweep.html. Finished repetitions are kept in that folder, so a sweep that was interrupted, or is run
    again with more repetitions, continues where it stopped.

    \b
    More examples:
      giftrl sweep a9a.gz --loss hinge
      giftrl sweep cpusmall.gz --loss absolute --betas 1e-3:1e8:23 --axis log
      giftrl sweep covtype.gz --repetitions 64 --cluster auto
    """
    from giftrl import regularizers, schedules
    from giftrl.reports.charts import require_matplotlib
    from giftrl.sweeps import Grid, load, parse_betas, parse_updates, repeat
    from giftrl.sweeps.sweep_page import BEST_BETA_COLUMNS, best_betas, write_sweep

    begun = time.perf_counter()
    require_matplotlib()
    files = [f"sweep.{suffix}" for suffix in ("csv", "svg", "png", "html")]
    outputs: dict[str, str | None] = {f"out/{name}": str(out / name) for name in files}
    check_files({"data": [str(data)]}, outputs if out.exists() else {}, files_only=outputs)
    if floor is not None:
        require(schedule == "temporal", "floor", floor, "belongs to the temporal schedule", "leave out --floor")
    parameters = {} if floor is None else {"floor": floor}
    rule = schedules.BY_NAME.make(schedule, **parameters)
    curves = parse_updates(updates, rule, regularizers.BY_NAME.make(regularizer))
    grid = Grid(loss, curves, parse_betas(betas))
    if cluster is not None:
        from giftrl.distributed import connect

        connect(cluster)  # before reading data, to fail early
    examples = load(data, loss, prepare, positive, format=format_)
    if not quiet:
        click.echo(f"{examples.name}: {examples.rows} rows, {examples.features} features ({examples.preparation})")
    known: list[bool] = []  # for each finished repetition, if it was read from an earlier run
    with Bar(standard_error(quiet), steps=repetitions) as bar:

        def tell() -> None:
            bar.step(f"{len(known)} of {counted(repetitions, 'repetition')}")

        def done(read: bool) -> None:
            known.append(read)
            tell()

        tell()
        options: dict[str, Any] = {"seed": seed, "workers": workers, "folder": out, "cluster": cluster}
        summary = repeat(examples, grid, repetitions, done=done, **options)
    path = write_sweep(examples, grid, summary, out, axis, seed, time.perf_counter() - begun)
    if quiet:
        click.echo(path)
        return
    print_table(BEST_BETA_COLUMNS, best_betas(summary))
    if any(known):
        click.echo(f"{sum(known)} of {repetitions} repetitions were read from an earlier run")
    click.echo(f"{time.perf_counter() - begun:.1f} s; open {path}")


@click.group("datasets")
def datasets_command() -> None:
    """Download the paper's data sets and verify them.

    \b
    Try it:
      giftrl datasets list

    \b
    More examples:
      giftrl datasets get a9a phishing
      giftrl datasets get all --to data && giftrl reproduce --data data
    """


@datasets_command.command("list")
def show() -> None:
    """List the data sets, and where those that have been downloaded are."""
    from giftrl.datasets import REGISTRY, default_folder

    folder = default_folder()
    for dataset in REGISTRY.values():
        where = f"in {folder}" if (folder / dataset.file).is_file() else "not here yet"
        size = f"{dataset.rows:>6} rows {dataset.features:>4} features"
        click.echo(f"{dataset.name:<10} {dataset.task:<15} {size}  {where}")


@datasets_command.command()
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--to", "folder", type=click.Path(file_okay=False, path_type=Path), default=None,
    help="The folder to keep them in. Default: the value of GIFTRL_DATA, or a folder in your cache.",
)  # fmt: skip
@click.option("--from", "site", default=None, help="A mirror of the LIBSVM site. Default: the site itself.")
@click.option("--unchecked", is_flag=True, help="Keep a file even if its fingerprint is wrong.")
def get(names: tuple[str, ...], folder: Path | None, site: str | None, unchecked: bool) -> None:
    """Download the data sets NAMES, or all of them with 'all'. Files that are already there are verified and kept."""
    from giftrl.datasets import REGISTRY, SITE
    from giftrl.datasets import get as fetch

    console = standard_error(False)
    for name in REGISTRY if "all" in names else names:
        with Bar(console, f"downloading {name}") as bar:
            path = fetch(name, folder, site=site or SITE, check=not unchecked, watch=bar.move if bar.shown else None)
        click.echo(path)
