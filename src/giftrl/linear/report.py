"""The report of an estimator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.reports.diagnostics import SHOWN_WEIGHTS, FeatureWeight, deviations
from giftrl.reports.record import mean_base_learners
from giftrl.reports.run_page import Run
from giftrl.reports.wording import listed
from giftrl.training.model import best_losses

Array = NDArray[np.float64]


def run_of(estimator: Any, seconds: float) -> Run:
    """The facts of the run of a fitted estimator."""
    model, record, losses = estimator._model, estimator._record, estimator.validation_losses_
    names = tuple(map(str, getattr(estimator, "classes_", ())))
    experts = mean_base_learners(model.experts)
    if experts:
        record.note_shares(lambda: experts, last=True)
    certificates = model.certificates
    proved = [best_losses(each, seconds / len(certificates)) for each in certificates] if seconds > 0.0 else []
    also = "" if estimator.beta == "auto" else ", and examples of later passes each time they were learned"
    held_out = f"The certificate counts the examples held out too, which were learned last{also}."
    return Run(
        title=f"Run of {type(estimator).__name__}",
        loss=model.learners[0].loss,
        record=record,
        rows=estimator.t_ - 1,
        average_loss=estimator.average_loss_,
        names=names,
        passes=max(1, len(losses)),
        held_out_losses=losses,
        best=[each[0] for each in proved if each] if model.each else [each for one in proved for each in one],
        each=model.each,
        experts=[(name, share, total / (estimator._weight_sum or 1.0)) for name, share, total in experts],
        weights=_weights(estimator, deviations(certificates[0]), names),
        data=[
            ("examples learned", f"{estimator.t_ - 1:,}"),
            ("features", f"{estimator.n_features_in_:,}"),
            *([("labels", listed(names))] if names else []),
        ],
        settings=[(name, value) for name, value in estimator.get_params(deep=False).items() if value is not None],
        command=repr(estimator),
        notes=[held_out] if losses else [],
    )


def _weights(estimator: Any, spread: Array | None, names: tuple[str, ...]) -> list[FeatureWeight]:
    coef: Any = estimator.coef_
    coef = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)
    columns = coef.shape[1]
    deviation = np.full(columns, np.nan) if spread is None else spread[:columns]
    of = ("",) if len(coef) == 1 else names or tuple(f"target {k + 1}" for k in range(len(coef)))
    features = getattr(estimator, "feature_names_in_", [f"x{k}" for k in range(columns)])
    sizes = np.abs(coef) if spread is None else np.abs(coef) * deviation
    places = np.argsort(-sizes, axis=None, kind="stable")[:SHOWN_WEIGHTS]
    largest = [divmod(place, columns) for place in places.tolist() if sizes.flat[place] > 0.0]
    return [FeatureWeight(str(features[k]), float(coef[row, k]), float(deviation[k]), of[row]) for row, k in largest]
