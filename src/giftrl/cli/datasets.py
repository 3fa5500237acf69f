"""``giftrl datasets``: the paper's data sets."""

from pathlib import Path

import click

__all__ = ["command"]


@click.group()
def command() -> None:
    """Download the paper's data sets, checked.

    \b
    Examples:
      giftrl datasets list
      giftrl datasets get a9a phishing
      giftrl datasets get all --to data && giftrl reproduce --data data
    """


@command.command("list")
def show() -> None:
    """Say which data sets there are, and which have been downloaded."""
    from giftrl.datasets import REGISTRY, default_folder

    folder = default_folder()
    for dataset in REGISTRY.values():
        here = (folder / dataset.file).is_file()
        size = f"{dataset.rows:>6} rows {dataset.features:>4} features"
        click.echo(f"{dataset.name:<10} {dataset.task:<15} {size}  {'in ' + str(folder) if here else 'not here yet'}")


@command.command()
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--to", "folder", type=click.Path(file_okay=False, path_type=Path), default=None,
    help="Where to keep them. Default: the folder that GIFTRL_DATA names, or your cache.",
)  # fmt: skip
@click.option("--from", "site", default=None, help="A mirror of the LIBSVM site. Default: the site itself.")
@click.option("--unchecked", is_flag=True, help="Keep what arrives even if it is not what it should be.")
def get(names: tuple[str, ...], folder: Path | None, site: str | None, unchecked: bool) -> None:
    """Download data sets by NAME, or all of them with 'all'. What is there already is checked and kept."""
    from giftrl.datasets import REGISTRY, SITE
    from giftrl.datasets import get as fetch

    wanted = list(REGISTRY) if "all" in names else names
    for name in wanted:
        path = fetch(name, folder, site=site or SITE, check=not unchecked)
        click.echo(path)
