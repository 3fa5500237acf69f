"""``giftrl convert``: write data as Arrow IPC, so that training need not parse it."""

import time
from typing import Any

import click

from giftrl.cli.options import (
    check_files,
    feature_options,
    input_options,
    label_list,
    quiet_option,
    reading_of,
    schema_option,
)


@click.command()
@click.argument("data", nargs=-1, required=True)
@click.argument("output", type=click.Path())
@feature_options
@click.option(
    "--labels", callback=label_list, metavar="A,B,...",
    help="The names of all labels, where they are text. Default: those of the first rows.",
)  # fmt: skip
@click.option("--compression", type=click.Choice(["none", "lz4", "zstd"]), default="none", show_default=True)
@quiet_option("--quiet", help="Print nothing.")
@schema_option
@input_options
def command(
    data: tuple[str, ...], output: str, bits: int, dictionary: bool, interactions: tuple[tuple[str, ...], ...],
    ngrams: tuple[tuple[str, int], ...], labels: Any, compression: str, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Write DATA to OUTPUT as Arrow IPC, with names already hashed and numbers already parsed.

    \b
    Try it:
      giftrl demo diabetes
      giftrl convert diabetes.csv diabetes.arrow --label progression

    Train on OUTPUT with the same --bits (or --dictionary). Its rows are neither normalised nor given a constant
    feature: giftrl train does that.

    \b
    More examples:
      giftrl convert day1.vw.gz day2.vw.gz days.arrow
      giftrl train days.arrow --model days.giftrl
    """
    from giftrl.cli.bar import Bar
    from giftrl.cli.columns import in_lines, notes
    from giftrl.cli.progress import standard_error
    from giftrl.streams.first_labels import first_labels
    from giftrl.streams.label_names import LabelNames, listed
    from giftrl.streams.names.features import Dictionary, Hashing
    from giftrl.streams.names.interactions import Interactions
    from giftrl.streams.names.ngrams import Ngrams
    from giftrl.streams.reader import Reader
    from giftrl.streams.tables.converted import ConvertedWriter
    from giftrl.training.target import names_where_text

    begun = time.perf_counter()
    features = Dictionary() if dictionary else Hashing(bits)
    products, joined = Interactions(interactions), Ngrams(ngrams)
    schemas = [] if options["schema"] is None else [options["schema"]]
    reading = reading_of(options)
    check_files(
        {"data": data, "schema": schemas}, {"output": output, "rejects": reading["rejects"]}, files_only=["output"]
    )
    first = first_labels(data, **{name: reading[name] for name in ("format", "columns", "schema")})
    if labels is None:
        names = names_where_text(first.labels)
    else:
        names = LabelNames(labels) if isinstance(labels[0], str) else None
    reader = Reader(
        data,
        features,
        labels=names,
        accepts=None if names is None else lambda codes: codes >= 0.0,
        expected="" if names is None else f"{listed(names.names)} (--labels names all of them)",
        opened=first.opened,
        interactions=products,
        ngrams=joined,
        constant=False,
        no_base="converted files have none",
        **reading,
    )
    codec = None if compression == "none" else compression
    written: dict[str, Any] = {"interactions": products, "ngrams": joined, "labels": names, "compression": codec}
    with (
        ConvertedWriter(output, features, **written) as writer,
        Bar(standard_error(quiet), "converting") as bar,
    ):
        for batch in reader:
            bar.move(reader.progress.fraction, f"{reader.rows:,} rows")
            if len(batch):
                writer.write(batch)
    if not quiet:
        seconds = time.perf_counter() - begun
        skipped = f", {reader.rejected:,} skipped" if reader.rejected else ""
        for each in (*in_lines(reader.schema), *(f"giftrl: note: {each}" for each in notes(reader.remarks))):
            click.echo(each, err=True)
        for each in reader.unmatched:
            click.echo(f"giftrl: note: {each}", err=True)
        click.echo(f"{reader.rows:,} rows written to {output}{skipped} in {seconds:.1f} s", err=True)
