"""``giftrl predict``: print a model's prediction for each row."""

import contextlib
from typing import Any

import click

from giftrl.cli.options import VowpalWabbitHints, check_files, input_options, quiet_option, reading_of
from giftrl.cli.terminal import Bar, counted, decimals, settle_output, shares_terminal, standard_error, standard_output
from giftrl.errors import Incompatible
from giftrl.files import Output


@click.command("predict", cls=VowpalWabbitHints)
@click.argument("model", type=click.Path(dir_okay=False))
@click.argument("data", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(), help="Write to this file instead of standard output.")
@click.option("--proba", is_flag=True, help="Print the probability of each label; the first line has the labels.")
@click.option("--scores", "as_scores", is_flag=True, help="Print scores in place of labels.")
@click.option("--clip", is_flag=True, help="Keep predictions of numbers within the range of the labels learned from.")
@click.option(
    "--audit", is_flag=True, help="Print a block for each row: its features by name, and what each adds to the score."
)
@quiet_option("--quiet", help="Print nothing but predictions.")
@input_options
def predict_command(
    model: str, data: tuple[str, ...], output: str | None, proba: bool, as_scores: bool, clip: bool, audit: bool,
    quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Print the prediction of MODEL for each row of DATA, one line for each.

    \b
    Try it:
      giftrl demo churn
      giftrl train churn.csv --label churned --ignore customer_id --model churn.giftrl
      giftrl predict churn.giftrl churn.csv --proba

    DATA needs no labels, except in LIBSVM text, which takes any number. If rows have labels, the average loss of their
    predictions is printed on standard error.

    A model of classes predicts a label as it was written in the training data. With --proba, the first line has the
    labels, and each line below has their probabilities, between tabs; --scores does the same for more than two labels.
    Other models predict a number. If a row has a tag, its line ends with it. With --on-error skip, the line of a row
    that cannot be used is nan, so that line n always belongs to row n.

    A score is the inner product <s, x> of the row s and the weights x, plus the base of the row, if it has one. Of two
    labels, the second is predicted if the score is positive; of more, the one with the largest score. For regression
    the score is the prediction itself; for the Poisson loss it is the logarithm of the count. With --clip, a model that
    was trained with --beta auto on real labels never predicts below the lowest or above the highest label that it has
    seen, bases aside (Poisson: their logarithms).

    With --audit, a row has a block of lines instead: its place; a line for each feature with its name, coordinate,
    value, weight and contribution (value times weight), between tabs and the largest contribution first; the score,
    which is the sum of the contributions; and the prediction. For several classes, weights are those of the predicted
    class. Names that share a coordinate are shown as one.

    \b
    More examples:
      giftrl predict clicks.giftrl tomorrow.svm.gz --proba -o tomorrow.txt
      giftrl predict houses.giftrl new.csv
      giftrl predict clicks.giftrl tomorrow.vw --audit | less
    """
    from giftrl.config.predictor import link_of
    from giftrl.streams.batch import listed
    from giftrl.streams.reader import Reader
    from giftrl.training import LinearModel
    from giftrl.training.predictions import Audit, Evaluation, lines_of, shown

    reading = reading_of(options)
    check_files({"model": [model], "data": data}, {"output": output, "rejects": reading["rejects"]})
    trained, _ = LinearModel.load(model)
    settings = trained.settings
    if proba and as_scores:
        raise click.UsageError("--proba and --scores exclude each other; leave one out")
    if proba and not link_of(trained.learner.loss).probable:
        raise Incompatible(
            f"--proba needs the logistic or the softmax loss, and {model} was trained with {settings.loss}"
        )
    trained.features.freeze()
    auditor = Audit(trained) if audit else None
    features = trained.features if auditor is None else auditor.features
    reader = Reader(data, features, schema=trained.schema, **settings.reader_options(), **reading)
    with contextlib.ExitStack() as opened:
        file = standard_output() if output is None else Output(output).open_in(opened)
        predictor, evaluation = trained.freeze(clip), Evaluation(trained)
        tabular = proba or (as_scores and settings.many)
        if tabular and auditor is None:
            file.write("\t".join(map(shown, settings.class_names)).encode() + b"\n")
        bar = opened.enter_context(Bar(standard_error(quiet or shares_terminal(output)), "predicting"))
        for batch in reader:
            bar.move(reader.progress.fraction, f"{reader.rows:,} rows")
            scores = trained.scores(batch, predictor)
            evaluation.add(batch, scores)
            answers = trained.probabilities(scores) if proba else scores if as_scores else trained.decide(scores)
            if auditor is None:
                file.write(lines_of(batch, answers, "\t" if tabular else " "))
                continue
            for block in auditor.blocks(batch, answers):
                file.write(f"{block}\n".encode("utf-8", "surrogateescape"))
        if output is None:
            settle_output()  # flush before printing messages
    if quiet:
        return
    for note in reader.unmatched:
        click.echo(f"giftrl: note: {note}", err=True)
    if reader.rejected:
        click.echo(f"{counted(reader.rejected, 'row')} could not be used; nan stands for each", err=True)
    if evaluation.strange:
        known = listed(settings.class_names) if settings.class_names else settings.expected
        click.echo(f"{counted(evaluation.strange, 'row')} with other labels than {known}", err=True)
    if evaluation.rows:
        loss = decimals(evaluation.average_loss)
        click.echo(f"average loss {loss} over {counted(evaluation.rows, 'row')} with labels", err=True)
