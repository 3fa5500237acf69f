"""``giftrl predict``: predictions of a model, a line each."""

import sys
from pathlib import Path
from typing import IO, Any

import click

from giftrl.cli.options import columns_of, input_options, require_apart

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path(dir_okay=False))
@click.argument("data", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write there and not to standard output.")
@click.option("--proba", is_flag=True, help="Probabilities: of the label +1 (logistic), of each class (softmax).")
@input_options
def command(model: str, data: tuple[str, ...], output: str | None, proba: bool, **options: Any) -> None:
    """Predict for each row of DATA with MODEL, a line each; DATA needs no labels.

    A line is the prediction, and the row's tag if it has one. With --on-error skip a row that cannot be used has the
    line nan, so that lines and rows stay in step.

    A prediction is <s, x>: for the logistic and hinge losses positive for the label +1, for the Poisson loss the
    logarithm of the count. A model that was trained with --beta auto on real labels predicts nothing beyond the lowest
    and the highest label (Poisson: beyond their logarithms) that it has seen. With a score for each class the
    prediction is the label of the class with the largest; --proba gives a number for each, in the order of --labels.

    \b
    Examples:
      giftrl predict clicks.giftrl tomorrow.svm.gz --proba -o tomorrow.txt
      giftrl predict houses.giftrl new.csv
    """
    from giftrl.errors import Incompatible, InvalidInput
    from giftrl.recipes.predictor import link_of
    from giftrl.streams.reader import Reader
    from giftrl.training import LinearModel

    trained, _ = LinearModel.load(model)
    require_apart([model, *data], output=output, rejects=options["rejects"])
    if proba and not link_of(trained.learner.loss).probable:
        raise Incompatible(
            f"--proba needs the logistic or the softmax loss, and {model} was trained with {trained.settings.loss}"
        )
    trained.features.freeze()
    columns = columns_of(options)
    reader = Reader(
        data, trained.features, format=options["format_"], columns=columns, schema=trained.schema,
        interactions=trained.settings.interactions or None, normalize=trained.settings.normalize,
        constant=trained.settings.constant, on_error=options["on_error"], rejects=options["rejects"],
    )  # fmt: skip
    if output is None:
        _write(sys.stdout, trained, reader, proba)
        return
    try:
        with Path(output).open("w") as file:
            _write(file, trained, reader, proba)
    except OSError as problem:
        rule = f"cannot be written ({problem.strerror})"
        raise InvalidInput("output", output, rule, "give another file") from None


def _write(file: IO[str], model: Any, reader: Any, proba: bool) -> None:
    import numpy as np

    predictor = model.freeze()
    for batch in reader:
        scores = model.scores(batch, predictor)
        answers = model.probabilities(scores) if proba else model.decide(scores)
        lines = [" ".join(f"{each:.9g}" for each in row) for row in np.atleast_2d(answers.T).T.tolist()]
        if batch.tags:
            lines = [f"{line} {tag}".rstrip() for line, tag in zip(lines, batch.tags, strict=True)]
        if batch.rejected:
            bad = [each.line for each in batch.rejected]
            where = np.concatenate([batch.lines, bad]).argsort(kind="stable")
            lines = [(lines + ["nan"] * len(bad))[k] for k in where]
        file.write("".join(f"{line}\n" for line in lines))
