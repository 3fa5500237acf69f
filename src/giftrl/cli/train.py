"""``giftrl train``: learn a model from a stream."""

import time
from typing import Any

import click

from giftrl import losses, updates
from giftrl.cli.options import (
    VowpalWabbitHints,
    certificate_option,
    feature_options,
    input_options,
    label_list,
    parameter_list,
    quiet_option,
    radius_option,
    schema_option,
)


def _beta(context: click.Context, parameter: click.Parameter, value: str) -> float | str:
    if value == "auto":
        return value
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor auto; write --beta 1.0 or --beta auto") from None


@click.command("train", cls=VowpalWabbitHints)
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--loss", default="auto", show_default=True,
    help=f"{', '.join(losses.BY_NAME)}; for several classes {' or '.join(losses.MULTICLASS)}. auto: by the labels of "
    "the first rows, logistic for two, softmax for a few, squared for numbers.",
)  # fmt: skip
@click.option(
    "--beta", default="auto", show_default=True, callback=_beta, metavar="NUMBER|auto",
    help="auto mixes many learners and needs no tuning; a number is the scale of the schedule of one learner.",
)  # fmt: skip
@click.option("--preset", default="default", show_default=True, help="What auto mixes: default, or light (quicker).")
@click.option("--update", help=f"With a number for beta: {', '.join(updates.BY_NAME)}. Default: proximal.")
@click.option(
    "--lookahead/--no-lookahead", default=None, help="With a number for beta: H or H'. Default: H if possible."
)
@click.option(
    "--regularizer",
    help="With a number for beta: squared_norm (the default), adagrad, elastic_net, centred, curvature.",
)
@click.option(
    "--schedule", help="With a number for beta: constant, sqrt, adagrad_norm, ada_implicit, temporal (the default)."
)
@click.option(
    "--set", "parameters", multiple=True, callback=parameter_list, metavar="NAME=NUMBER",
    help="A parameter of a part: tau, delta, epsilon, l1, l2, gradient_bound or floor; may be repeated.",
)  # fmt: skip
@click.option(
    "--labels", callback=label_list, metavar="A,B,...",
    help="The labels of all classes: no,yes or 0..9. Of two, the first stands for -1. Default: those of the first "
    "rows.",
)  # fmt: skip
@click.option(
    "--passes", type=click.IntRange(1), default=1, show_default=True, help="How many times to read DATA at most."
)
@click.option(
    "--holdout", type=click.IntRange(0), default=10, show_default=True, metavar="N",
    help="With more than one pass, every Nth row is held out (later ever fewer), and training stops when the loss on "
    "these rises. The best model is kept, and learns them in the end. 0: none.",
)  # fmt: skip
@feature_options
@click.option(
    "--normalize", type=click.Choice(["none", "unit"]), default="none", show_default=True, help="unit: rows of norm 1."
)
@click.option("--constant/--no-constant", default=True, show_default=True, help="Add a constant feature to each row.")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32", show_default=True)
@click.option("--model", "model_path", type=click.Path(), help="Write the model to this file.")
@click.option("--summary", "summary_path", type=click.Path(), help="Write a JSON summary to this file.")
@click.option(
    "--report", "report_path", type=click.Path(),
    help="Write a page about the run to this HTML file: learning curve, certificate, calibration, weights and more.",
)  # fmt: skip
@click.option(
    "-p", "--predictions", type=click.Path(),
    help="Write the prediction for each row to this file, made before its label was used; of the first pass.",
)  # fmt: skip
@click.option(
    "--witness-nonzeros", type=click.IntRange(0), default=1_000_000, show_default=True,
    help="The most nonzeros of examples to store for the certificate (12 bytes each). 0: no bound on the best loss.",
)  # fmt: skip
@certificate_option
@radius_option
@click.option(
    "--checkpoint-every", type=click.IntRange(1), metavar="N", help="Write a checkpoint after every N examples."
)
@click.option("--resume", is_flag=True, help="Continue from the checkpoint of an interrupted run.")
@click.option(
    "--from", "-i", "from_path", type=click.Path(dir_okay=False), metavar="MODEL",
    help="Go on learning from a model and its settings: with one worker, the same as one run over its data and DATA.",
)  # fmt: skip
@click.option(
    "--cluster", metavar="auto|simulation|ray://HOST:PORT",
    help="Learn on a Ray cluster: the one of this machine (auto), or another. DATA may be URLs such as s3://... too. "
    "simulation: the same model without Ray, one worker after the other.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1),
    help="Threads in the first pass; with --cluster, workers. Needs --beta auto. Each number gives a model of its own, "
    "the same in every run. Default: 1, with --cluster 16.",
)  # fmt: skip
@quiet_option("--quiet", help="Print no table and no progress bar.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output, and nothing else.")
@schema_option
@input_options
def train_command(data: tuple[str, ...], cluster: str | None, **options: Any) -> None:
    """Learn a linear model from DATA: files, globs, directories, or - for standard input.

    \b
    Try it:
      giftrl demo churn
      giftrl train churn.csv --label churned --ignore customer_id --model churn.giftrl

    Formats: LIBSVM, Vowpal Wabbit, CSV, JSON lines, Parquet, Arrow and NumPy; plain or compressed with gzip, zstd, xz
    or bzip2. Memory does not grow with the data.

    There is nothing to tune: features and labels may be on any scale, and there is no learning rate. With a number for
    --beta, one learner of the paper is trained instead, with the parts that you name.

    \b
    More examples:
      giftrl train clicks.svm.gz --loss logistic --model clicks.giftrl
      giftrl train houses.csv --label price --loss squared --model houses.giftrl
      giftrl train reviews.csv --text review --date written --ignore id --model reviews.giftrl
      giftrl train digits.svm.xz --loss softmax --labels 0..9 --model digits.giftrl
      giftrl train clicks.svm.gz --beta 1 --update proximal --regularizer curvature
      giftrl train tuesday.vw.gz --from clicks.giftrl --model clicks.giftrl
      zcat day*.vw.gz | giftrl train - --format vw --checkpoint-every 1000000 --model day.giftrl
    """
    begun = time.perf_counter()
    from giftrl.cli.training_run import ClusterRun, TrainingRun

    run = TrainingRun(data, options, begun) if cluster is None else ClusterRun(data, options, begun, cluster)
    run.execute()
