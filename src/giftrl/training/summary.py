"""Results of a run as plain values, and the largest weights."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import BestLoss, Certificate
from giftrl.config.recipe import Mixture
from giftrl.training.model import LinearModel

#: Summaries certify against models of up to 1 and 10 times this model's size.
CERTIFIED_SCALES = (1.0, 10.0)


def best_losses(certificate: Certificate, seconds: float) -> list[BestLoss]:
    """Lower bounds for models up to the size of this one, and up to ten times it, searched for so many seconds.

    There are none without stored examples.
    """
    if certificate.evidence is None:
        return []
    return [certificate.best_loss(scale, seconds / len(CERTIFIED_SCALES)) for scale in CERTIFIED_SCALES]


def certified_in_words(model: LinearModel) -> str:
    """The reason why the average loss of the certificate is not that of the first pass; empty if they are the same.

    The certificate counts the first pass, later ones unless the learner is a mixture, and the held-out rows, which are
    learned last.
    """
    now, weight = model.repeated, model.certified_weight
    each = "every row once"
    parts = [f"the first pass ({model.average_loss:.4g})"]
    if now.weight > 0.0 and not isinstance(model.learner, Mixture):
        each = "each row as often as it was learned"
        parts.append(f"later passes ({now.loss / now.weight:.4g})")
    if now.late_weight > 0.0:
        parts.append(f"the rows held out, which were learned last ({now.late_loss / now.late_weight:.4g})")
    if len(parts) == 1:
        return ""
    counted = f"The certificate counts {each}, so its average loss ({model.certificate.loss_sum / weight:.4g})"
    return f"{counted} is that of {', '.join(parts[:-1])} and {parts[-1]} together."


def summary_of(model: LinearModel, radii: Sequence[float] = (), best: Sequence[BestLoss] = ()) -> dict[str, Any]:
    """Counts, the progressive loss, the state of the learner, the certificate and the settings of a model.

    A mixture has ``experts``: the name of each, its share of the prediction, and its own average loss. Other learners
    have ``lambda``.

    Args:
        model: before, during or after training.
        radii: the norms of the models that are certified against; none for the norm of the model itself.
        best: from :func:`best_losses`.
    """
    certificate, learner = model.certificate, model.learner
    bounds = {
        f"{radius:g}": {
            "regret_bound": certificate.regret_bound_ball(radius),
            "best_loss_lower_bound": certificate.best_loss_lower_bound(radius),
        }
        for radius in radii or (float(np.linalg.norm(learner.x)),)
    }
    summary: dict[str, Any] = {
        "examples": model.examples,
        # A converted file does not say which names were on a coordinate: count those that were learned from.
        "features": model.features.report().used or _learned_from(model),
        "nonzeros": model.nonzeros,
        "average_loss": model.average_loss,
        "rejected": model.rejected,
    }
    if isinstance(learner, Mixture):
        weight = model.weight if model.weight > 0.0 else 1.0
        summary["experts"] = [
            {"name": name, "share": share, "average_loss": total / weight} for name, share, total in learner.experts
        ]
    else:
        summary["lambda"] = learner.lam
    return summary | {
        "theta_norm": learner.theta_norm,
        "certificate": {
            "bound_sum": certificate.bound_sum,
            "delta_sum": certificate.delta_sum,
            "radius": bounds,
            "best_loss": {
                f"{bound.scale:g}": asdict(bound) | {"average": bound.average, "regret": bound.regret} for bound in best
            },
        },
        "schema": None if model.schema is None else model.schema.state(),
        "settings": model.settings.state(),
    }


def _learned_from(model: LinearModel) -> int:
    """The number of features with a theta that is not 0, the constant left out."""
    theta = np.asarray(model.learner.theta)
    used = np.asarray(theta.reshape(len(theta), -1).any(axis=1))
    if model.settings.constant:
        used[model.features.constant] = False
    return int(np.count_nonzero(used))


# The largest weights of a model, with the names of their features.


class Weight(NamedTuple):
    """The weight of a feature, in the score of a class if there are several."""

    name: str
    weight: float
    slot: int
    column: int


def largest_weights(model: LinearModel, top: int, units: NDArray[np.float64] | None = None) -> list[Weight]:
    """The ``top`` weights of largest absolute value times ``units`` of their features, without those that are 0."""
    weights, classes = model.learner.x, model.settings.classes
    sizes = np.abs(weights) if units is None else np.abs(weights) * units.reshape(-1, *[1] * (weights.ndim - 1))
    found = []
    for place in sizes.argsort(axis=None, kind="stable")[::-1][:top].tolist():
        slot, column = divmod(place, classes)
        if sizes.flat[place] > 0.0:
            name = model.features.name(slot) or f"#{slot}"
            found.append(Weight(name, float(weights.flat[place]) * model.features.sign(slot), slot, column))
    return found
