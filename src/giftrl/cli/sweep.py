"""``giftrl sweep``: run every beta and update over a data set."""

import itertools
import time
from pathlib import Path

import click

from giftrl.cli.options import check_files, format_option, quiet_option
from giftrl.cli.tables import print_table


@click.command()
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
def command(
    data: Path, loss: str, updates: str, betas: str, schedule: str, regularizer: str, floor: float | None,
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
    from giftrl.cli.bar import Bar
    from giftrl.cli.progress import counted, standard_error
    from giftrl.errors import require
    from giftrl.reports.figure import require_matplotlib
    from giftrl.sweeps import Grid, load, parse_betas, parse_updates, repeat
    from giftrl.sweeps.sweep_page import BEST_BETA_COLUMNS, best_betas, write_sweep

    begun = time.perf_counter()
    require_matplotlib()
    outputs: dict[str, str | None] = {
        f"out/sweep.{suffix}": str(out / f"sweep.{suffix}") for suffix in ("csv", "svg", "png", "html")
    }
    check_files({"data": [str(data)]}, outputs if out.exists() else {}, files_only=outputs)
    if floor is not None:
        require(schedule == "temporal", "floor", floor, "belongs to the temporal schedule", "leave out --floor")
    parameters = {} if floor is None else {"floor": floor}
    rule = schedules.BY_NAME.make(schedule, **parameters)
    curves = parse_updates(updates, rule, regularizers.BY_NAME.make(regularizer))
    grid = Grid(loss, curves, parse_betas(betas))
    if cluster is not None:
        from giftrl.distributed import connect

        connect(cluster)  # before the data is read, so that a problem shows at once
    examples = load(data, loss, prepare, positive, format=format_)
    if not quiet:
        click.echo(f"{examples.name}: {examples.rows} rows, {examples.features} features ({examples.preparation})")
    read = 0
    with Bar(standard_error(quiet), steps=repetitions) as bar:
        finished = itertools.count()

        def tell() -> None:
            bar.step(f"{next(finished)} of {counted(repetitions, 'repetition')}")

        def done(known: bool) -> None:
            nonlocal read
            read += known
            tell()

        tell()
        summary = repeat(
            examples, grid, repetitions, seed=seed, workers=workers, folder=out, done=done, cluster=cluster
        )
    path = write_sweep(examples, grid, summary, out, axis, seed, time.perf_counter() - begun)
    if quiet:
        click.echo(path)
        return
    print_table(BEST_BETA_COLUMNS, best_betas(summary))
    if read:
        click.echo(f"{read} of {repetitions} repetitions were read from an earlier run")
    click.echo(f"{time.perf_counter() - begun:.1f} s; open {path}")
