"""What there is to say about a run of an estimator."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from giftrl.linear.estimator_model import EstimatorModel
from giftrl.reports.page import Page
from giftrl.reports.run import TOP, Record, Run, Sample, Weighed, deviations
from giftrl.reports.run.shares import of_columns
from giftrl.reports.run.words import listed, plain
from giftrl.training.summary import best_losses

Array = NDArray[np.float64]


class Reporting:
    """The part of an estimator that keeps predictions and makes a page of them."""

    _model: EstimatorModel
    _sample: Sample

    def _remember(self, scores: Array, labels: Array, weights: Array | None) -> None:
        """Keep predictions of rows that were just learnt for the first time."""
        self._sample.add(scores, labels, weights)

    def _note_shares(self) -> None:
        """Keep the shares of experts, before further rows are learnt."""
        if self._sample.rows:
            self._sample.shares.note(self._sample.rows, lambda: of_columns(self._model.every_experts))

    def report(self, path: str | PathLike[str] | None = None, *, seconds: float = 5.0) -> Page:
        """A page about the run: its learning curve and certificate, how predictions compare with labels, the weights.

        It is about the predictions made before each row was learnt, of rows met for the first time.

        Args:
            path: an HTML file to write it to; it holds all that it needs. None for none.
            seconds: how long to look for a good certificate; 0 for none.

        Returns:
            the page; a notebook shows it, and its ``html()`` is its text.
        """
        check_is_fitted(self)
        page = run_of(self, self._sample, seconds).page
        if path is not None:
            page.save(Path(path))
        return page


def run_of(estimator: Any, sample: Sample, seconds: float) -> Run:
    """What a page says about an estimator that has been fitted.

    Args:
        estimator: a classifier or a regressor.
        sample: the predictions that it has kept.
        seconds: how long to look for good bounds.
    """
    model, rows = estimator._model, estimator.t_ - 1
    names = tuple(map(str, getattr(estimator, "classes_", ())))
    record = Record(model.learners[0].loss, names)
    experts = of_columns(model.every_experts)
    sample.tell(record)
    if experts:
        record.shares.note(record.curve.rows, lambda: experts, last=True)
    certificates = estimator.certificate_ if model.each else [estimator.certificate_]
    proved = [best_losses(each, seconds / len(certificates)) for each in certificates] if seconds > 0.0 else []
    weight = estimator._weight_sum or 1.0
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if value is not None}
    return Run(
        title=f"Run of {type(estimator).__name__}",
        loss=record.loss,
        record=record,
        rows=rows,
        average_loss=estimator.average_loss_,
        passes=max(1, len(estimator.validation_losses_)),
        best=[each[0] for each in proved if each] if model.each else [each for one in proved for each in one],
        each=model.each,
        experts=[(name, share, total / weight) for name, share, total in experts],
        weights=_weights(estimator, certificates[0], names),
        data=[
            ("rows learnt", f"{rows:,}"),
            ("features", f"{estimator.n_features_in_:,}"),
            *([("labels", listed(names))] if names else []),
        ],
        settings=[(name, plain(value, 400)) for name, value in parameters.items()],
        command=repr(estimator),
        notes=_notes(estimator, sample),
    )


def _weights(estimator: Any, certificate: Any, names: tuple[str, ...]) -> list[Weighed]:
    coef: Any = estimator.coef_
    coef = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)
    spread = deviations(certificate)
    own = np.full(coef.shape[1], np.nan) if spread is None else spread[: coef.shape[1]]
    of = ("",) if len(coef) == 1 else names or tuple(f"target {k + 1}" for k in range(len(coef)))
    features = getattr(estimator, "feature_names_in_", None)
    sizes = np.abs(coef) if spread is None else np.abs(coef) * own
    places = [place for place in np.argsort(-sizes, axis=None, kind="stable")[:TOP].tolist() if sizes.flat[place] > 0.0]
    found = []
    for place in places:
        row, column = divmod(place, coef.shape[1])
        name = f"x{column}" if features is None else str(features[column])
        found.append(Weighed(name, float(coef[row, column]), float(own[column]), of[row]))
    return found


def _notes(estimator: Any, sample: Sample) -> list[str]:
    notes = []
    if sample.rows > sample.first:
        step = 1 << ((sample.rows - 1) // sample.first).bit_length()
        notes.append(
            f"The figures count all of the first {sample.first:,} rows, and then every second, fourth and so on, up to "
            f"every {step}th, as so many rows."
        )
    losses = estimator.validation_losses_
    if losses:
        least = f"{min(losses):.4g}"
        said = "The figures are about the first pass, which meets new rows."
        notes.append(f"{said} The loss on the rows held out is {least} after pass {int(np.argmin(losses)) + 1}.")
        also = "" if estimator.beta == "auto" else ", and rows of later passes each time they were learnt"
        notes.append(f"The certificate counts the rows held out too, which were learnt last{also}.")
    return notes
