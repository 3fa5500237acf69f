"""``giftrl datasets``: download the paper's data sets."""

from pathlib import Path

import click


@click.group()
def command() -> None:
    """Download the paper's data sets and verify them.

    \b
    Try it:
      giftrl datasets list

    \b
    More examples:
      giftrl datasets get a9a phishing
      giftrl datasets get all --to data && giftrl reproduce --data data
    """


@command.command("list")
def show() -> None:
    """List the data sets, and where those that have been downloaded are."""
    from giftrl.datasets import REGISTRY, default_folder

    folder = default_folder()
    for dataset in REGISTRY.values():
        where = f"in {folder}" if (folder / dataset.file).is_file() else "not here yet"
        size = f"{dataset.rows:>6} rows {dataset.features:>4} features"
        click.echo(f"{dataset.name:<10} {dataset.task:<15} {size}  {where}")


@command.command()
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--to", "folder", type=click.Path(file_okay=False, path_type=Path), default=None,
    help="The folder to keep them in. Default: the value of GIFTRL_DATA, or a folder in your cache.",
)  # fmt: skip
@click.option("--from", "site", default=None, help="A mirror of the LIBSVM site. Default: the site itself.")
@click.option("--unchecked", is_flag=True, help="Keep a file even if its fingerprint is wrong.")
def get(names: tuple[str, ...], folder: Path | None, site: str | None, unchecked: bool) -> None:
    """Download the data sets NAMES, or all of them with 'all'. Files that are already there are verified and kept."""
    from giftrl.cli.bar import Bar
    from giftrl.cli.progress import standard_error
    from giftrl.datasets import REGISTRY, SITE
    from giftrl.datasets import get as fetch

    console = standard_error(False)
    for name in REGISTRY if "all" in names else names:
        with Bar(console, f"downloading {name}") as bar:
            path = fetch(name, folder, site=site or SITE, check=not unchecked, watch=bar.move if bar.shown else None)
        click.echo(path)
