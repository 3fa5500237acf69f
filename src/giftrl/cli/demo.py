"""``giftrl demo``: the product on one page, and small data sets to try commands on."""

import time
from pathlib import Path

import click

from giftrl.cli.terminal import Bar, print_table, standard_error
from giftrl.errors import UnknownName


@click.command("demo")
@click.argument("name", required=False)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="The folder to write to. Default: this folder for a data set, and out/demo for the page.",
)  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Show the data sets.")
def demo_command(name: str | None, out: Path | None, listed: bool) -> None:
    """Show what giftrl does, on one page, or write a small data set to try it on.

    \b
    Try it:
      giftrl demo churn
      giftrl demo --list
      giftrl demo

    With NAME, a file with that data set is written, and the commands to try on it are printed. A file that is there
    already is never overwritten.

    Without NAME, giftrl with nothing set runs beside scikit-learn's SGD at every learning rate, on five data sets that
    come with scikit-learn. It ends in a page with a picture of both, what each run proves, and the paper's figures.
    This takes about a minute once the loops are compiled, and about two and a half where they are not.
    """
    from giftrl.samples import SAMPLES

    if listed:
        rows = [(each.name, each.file, each.what, each.origin) for each in SAMPLES.values()]
        print_table(("name", "file", "what", "where it is from"), rows, 4)
    elif name is None:
        _tour(Path("out/demo") if out is None else out)
    elif name not in SAMPLES:
        raise UnknownName("name", name, SAMPLES)
    else:
        sample, folder = SAMPLES[name], Path() if out is None else out
        path, new = sample.write(folder)
        click.echo(f"{path}{'' if new else ' is there already'}: {sample.what}\n{sample.origin}\n\nTry next:")
        for line in sample.commands(folder):
            click.echo(f"  {line}")


def _tour(folder: Path) -> None:
    from giftrl.tour import TOUR_NAMES, last_lines, short_table, steps, tour

    begun = time.perf_counter()
    click.echo(
        f"giftrl beside scikit-learn's SGD (stochastic gradient descent) on {len(TOUR_NAMES)} data sets\n"
        "that come with scikit-learn. This takes about a minute, and longer where loops are to be compiled.\n"
    )
    with Bar(standard_error(False), steps=steps()) as bar:
        found, page = tour(folder, tell=bar.step)
    print_table(*short_table(found))
    seconds = time.perf_counter() - begun
    click.echo(f"average loss of one pass, and how many times giftrl's that is; {seconds:.0f} s in total\n")
    for line in last_lines(found, page):
        click.echo(line)
