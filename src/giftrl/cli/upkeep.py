"""Commands that save later work: ``giftrl convert`` and ``giftrl warmup``."""

import tempfile
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import click

from giftrl.cli.messages import in_lines, notes
from giftrl.cli.options import (
    check_files,
    feature_options,
    input_options,
    label_list,
    quiet_option,
    reading_of,
    schema_option,
)
from giftrl.cli.terminal import Bar, standard_error


@click.command("convert")
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
def convert_command(
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
    from giftrl.streams.batch import LabelNames, listed
    from giftrl.streams.first_labels import first_labels
    from giftrl.streams.names.features import Dictionary, Hashing
    from giftrl.streams.names.interactions import Interactions, Ngrams
    from giftrl.streams.reader import Reader
    from giftrl.streams.tables.arrow import ConvertedWriter
    from giftrl.training.settings import names_where_text

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
    prepared: dict[str, Any] = {"interactions": products, "ngrams": joined, "labels": names}
    expected = "" if names is None else f"{listed(names.names)} (--labels names all of them)"
    accepts = None if names is None else lambda codes: codes >= 0.0
    reader = Reader(
        data, features, accepts=accepts, expected=expected, opened=first.opened, constant=False,
        no_base="converted files have none", **prepared, **reading,
    )  # fmt: skip
    codec = None if compression == "none" else compression
    with (
        ConvertedWriter(output, features, compression=codec, **prepared) as writer,
        Bar(standard_error(quiet), "converting") as bar,
    ):
        for batch in reader:
            bar.move(reader.progress.fraction, f"{reader.rows:,} rows")
            if len(batch):
                writer.write(batch)
    if not quiet:
        seconds = time.perf_counter() - begun
        skipped = f", {reader.rejected:,} skipped" if reader.rejected else ""
        remarks = [f"giftrl: note: {note}" for note in (*notes(reader.remarks), *reader.unmatched)]
        for line in (*in_lines(reader.schema), *remarks):
            click.echo(line, err=True)
        click.echo(f"{reader.rows:,} rows written to {output}{skipped} in {seconds:.1f} s", err=True)


WARMUP_TEXTS = {"libsvm": "1 1:1\n1 2:0.5\n", "vw": "1 |a x y:2\n1 |a z\n"}
#: Repetitions of these lines for several workers, which merge after thousands of rows.
REPETITIONS_FOR_WORKERS = 8_000


@click.command("warmup")
@click.option("--loss", "losses", multiple=True, help="A loss to compile for; may be repeated.")
@click.option(
    "--regularizer", "regularizers", multiple=True,
    help="A regularizer to compile for; may be repeated. auto is the learner of --beta auto. Default: auto, "
    "squared_norm and curvature.",
)  # fmt: skip
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32", show_default=True)
@click.option("--arrays", is_flag=True, help="Also compile for sparse and dense matrices, which the estimators use.")
@click.option("--workers", is_flag=True, help="Also compile what train --workers and --cluster need to merge models.")
@quiet_option("-q", "--quiet", help="Print nothing.")
def warmup_command(
    losses: tuple[str, ...], regularizers: tuple[str, ...], dtype: str, arrays: bool, workers: bool, quiet: bool
) -> None:
    """Compile the usual loops now, so that later commands start at once.

    \b
    Try it:
      giftrl warmup

    Compiled code is kept on disk, and loops that are already there are loaded in a moment. The readers of LIBSVM and VW
    text are always compiled; without --loss, so are the logistic, hinge, squared and absolute losses. The learner of
    --beta auto is compiled first and takes the longest.

    \b
    More examples:
      giftrl warmup --loss quantile --regularizer auto
      giftrl warmup --loss quantile --regularizer adagrad --arrays
      giftrl warmup --loss logistic --regularizer auto --workers
    """
    from giftrl.config import AUTO
    from giftrl.training import LinearModel, Settings, Trainer

    losses = losses or ("logistic", "hinge", "squared", "absolute")
    regularizers = regularizers or (AUTO, "squared_norm", "curvature")
    begun = time.perf_counter()
    console = standard_error(quiet)
    steps = len(losses) * (len(regularizers) * (len(WARMUP_TEXTS) + arrays) + workers * regularizers.count(AUTO))
    with tempfile.TemporaryDirectory() as folder, Bar(console, steps=steps) as bar:
        paths = {format_: Path(folder, f"rows.{format_}") for format_ in WARMUP_TEXTS}
        for format_, path in paths.items():
            path.write_text(WARMUP_TEXTS[format_])  # every built-in loss accepts the label 1
        Path(folder, "many.svm").write_text(WARMUP_TEXTS["libsvm"] * REPETITIONS_FOR_WORKERS)
        for regularizer, loss in product(regularizers, losses):
            parts: dict[str, Any] = {} if regularizer == AUTO else {"beta": 1.0, "regularizer": regularizer}
            settings = Settings(loss=loss, dtype=dtype, **parts)
            work: dict[str, Any] = {format_: partial(_learn_files, settings, path) for format_, path in paths.items()}
            if arrays:
                work["arrays"] = partial(_learn_arrays, settings)
            if workers and settings.auto:
                model = LinearModel(settings)
                work["workers"] = Trainer(model, [Path(folder, "many.svm")], workers=2).run
            for name, run in work.items():
                bar.step(f"{loss}, {regularizer}, {name}")
                start = time.perf_counter()
                run()
                if not quiet:
                    bar.print(f"{f'{loss}, {regularizer}, {name}':<40} {time.perf_counter() - start:6.1f} s")
    if not quiet:
        click.echo(f"ready in {time.perf_counter() - begun:.1f} s")


def _learn_files(settings: Any, path: Path) -> None:
    from giftrl.training import train

    model = train(settings, [path])
    model.learner.x  # noqa: B018 (compiles the weights, which summaries and predictions need)
    model.certificate.best_loss()


def _learn_arrays(settings: Any) -> None:
    import numpy as np
    from scipy.sparse import csr_array

    for kind in (np.float32, np.float64):
        rows = np.ones((1, 2), kind)
        for matrix in (rows, csr_array(rows)):
            learner = settings.make_learner(2)
            learner.learn(matrix, [1.0])
            learner.predict(matrix)
