"""The linear model of a stream: training, saving, loading, summary and largest weights."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import BestLoss, Certificate
from giftrl.compiled.rows import CSR, Rows
from giftrl.config import Labels, Predictor, freeze
from giftrl.config.predictor import link_of
from giftrl.config.recipe import Learner, Mixture
from giftrl.config.upgrade import arrays_of_now
from giftrl.errors import BadRow, BadSource, GiftrlError, Given, ModelFileError, Overflowed
from giftrl.kernels.base import NonzeroRows, OneRow
from giftrl.kernels.one_model import Engine
from giftrl.losses.based import Based
from giftrl.mixtures.feature_state import DENSE
from giftrl.models import load, save
from giftrl.ops.loss import accepts, residual
from giftrl.streams.batch import Batch
from giftrl.streams.columns import Schema
from giftrl.streams.names.features import Dictionary, Features, Hashing, restore
from giftrl.training.settings import Settings
from giftrl.workers.threads import Team, TeamTimes

Array = NDArray[np.float64]
KIND = "linear"
SCALE_OR_AUTO = ("scale the features or the weights, or use ", Given("beta", "auto"))


class LaterPassCounts(NamedTuple):
    """Counts of later passes, and of held-out rows, which are learned after the last pass."""

    examples: int = 0  # of later passes
    weight: float = 0.0
    loss: float = 0.0
    late_weight: float = 0.0  # of rows held out
    late_loss: float = 0.0


class LinearModel:
    """A linear model that learns from batches of a stream, and its file.

    Args:
        settings: its settings.

    Attributes:
        learner: the compiled learner; a :class:`giftrl.mixtures.MixtureLearner` if beta is "auto".
        features: the mapping of names to coordinates.
        schema: the kinds of columns, after a table has been read.
        examples, nonzeros, weight, rejected: counts over all rows so far, each row once.
        repeated: counts over rows of later passes, which a learner with a fixed beta counts again.
        team: the team of threads, while there is one.

    >>> model = LinearModel(Settings(loss="squared", bits=4, dtype="float64"))
    >>> model.examples, model.learner.dimension
    (0, 17)
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.features: Features = Dictionary() if settings.bits is None else Hashing(settings.bits)
        self.schema: Schema | None = None
        constant = self.features.constant if settings.constant else None
        self.learner = settings.make_learner(self.features.dimension, constant)
        self.examples = self.nonzeros = self.rejected = 0
        self.weight = 0.0
        self.repeated = LaterPassCounts()
        self.team: Team | None = None
        self.steps: Array | None = None  # step sizes of the last merge of a team
        self.team_times = TeamTimes()  # times of the last team

    @contextmanager
    def together(self, workers: int) -> Iterator[None]:
        """Learn with several threads inside the block (:mod:`giftrl.workers.threads`); merges at the end."""
        if workers == 1:
            return (yield)
        with Team(self.learner, workers, steps=self.steps) as team:
            self.team = team
            try:
                yield
                team.finish()
            except (BadRow, BadSource):  # all earlier rows have been learned
                team.finish()
                raise
            finally:
                self.team, self.team_times = None, team.times
                self.steps = team.steps

    @property
    def between_rounds(self) -> bool:
        """True if the learner has learned all rows so far, and no round of a team is open."""
        return self.team is None or self.team.between_rounds

    @property
    def average_loss(self) -> float:
        """Progressive validation loss: the weighted mean loss of the first pass, predicted before learning."""
        weight = self.weight - self.repeated.late_weight
        learner = self.learner if self.team is None else self.team
        loss = float(learner.loss_sums[0]) - self.repeated.loss - self.repeated.late_loss
        return loss / weight if weight > 0.0 else 0.0

    @property
    def certified_weight(self) -> float:
        """The weight of the rows in the certificate; without a mixture, it counts later passes too."""
        return self.weight if isinstance(self.learner, Mixture) else self.weight + self.repeated.weight

    @property
    def certificate(self) -> Certificate:
        """The certificate of the run."""
        return self.learner.certificate

    def learn(self, batch: Batch, most: int = 1 << 62) -> Iterator[tuple[int, Array]]:
        """Learn from a batch, in pieces of at most ``most`` rows; a piece also ends at each power of two.

        Yields the end of each piece in the batch, and its predictions. Without a team, any split of a stream gives the
        same model, bit by bit.
        """
        first = 0
        while first < len(batch):
            power = 1 << self.examples.bit_length()
            last = min(len(batch), first + power - self.examples, first + most)
            weight = self._weight_after(batch, slice(first, last))
            predictions = self._learn_rows(batch, slice(first, last))
            self.examples += last - first
            self.nonzeros += int(batch.indptr[last] - batch.indptr[first])
            self.weight = weight
            yield last, predictions
            first = last

    def _learn_rows(self, batch: Batch, part: slice) -> Array:
        """Learn from a part of a batch, and return the predictions made before."""
        learner: Any = self.learner if self.team is None else self.team
        if len(batch.indices):
            needed = int(batch.indices.max()) + 1
            if needed > learner.dimension:  # by half, for amortised growth
                learner.grow(max(needed, learner.dimension * 3 // 2))
        rows = as_rows(batch)._replace(indptr=batch.indptr[part.start : part.stop + 1])
        given = rows, self.settings.mapped(batch.labels[part]), batch.weights[part]
        try:
            if batch.bases[part].any():
                return learn_with_bases(learner, *given, batch.bases[part])
            predictions: Array = learner.learn_rows(*given)
            return predictions
        except Overflowed as problem:
            line = batch.lines[part][problem.row or 0]
            rule = f"this row leads to numbers beyond the range of {self.settings.dtype}"
            raise Overflowed([f"{batch.source}:{line}: {rule}; ", *SCALE_OR_AUTO]) from None

    def _weight_after(self, batch: Batch, part: slice) -> float:
        """The total weight including these rows; an error on overflow of float64."""
        with np.errstate(over="ignore"):  # sequentially, so that the result does not depend on pieces
            sums = np.cumsum(np.append(self.weight, batch.weights[part]))[1:]
        if not math.isfinite(sums[-1]):
            line = batch.lines[part][np.argmin(np.isfinite(sums))]
            raise Overflowed(f"{batch.source}:{line}: the sum of the weights leaves the range of float64; scale them")
        return float(sums[-1])

    def learn_row(self, row: OneRow, label: float) -> float:
        """Learn from one row of weight 1, and return the earlier prediction; for a model of one score.

        Args:
            row: the entries, the constant included, in a buffer of the learner; all within its dimension.
            label: of the loss.

        >>> from giftrl.kernels.base import sparse_row
        >>> model = LinearModel(Settings(loss="squared", bits=4))
        >>> row = model.learner.one_row(sparse_row(8))
        >>> row.values[:2], row.rows.value.indices[:2] = (1.0, 1.0), (3, 16)
        >>> row.end(2)
        >>> model.learn_row(row, 5.0), model.examples, model.nonzeros
        (0.0, 1, 2)
        """
        weight = self.weight + 1.0
        if not math.isfinite(weight):
            raise Overflowed("the sum of the weights leaves the range of float64; scale them")
        row.label[0], row.weight[0] = label, 1.0
        try:
            cast("Any", self.learner).learn_row(row)
        except Overflowed:
            rule = f"this row leads to numbers beyond the range of {self.settings.dtype}"
            raise Overflowed([f"{rule}; ", *SCALE_OR_AUTO]) from None
        self.examples += 1
        self.nonzeros += row.width
        self.weight = weight
        return row.score.item()

    def learn_again(self, batch: Batch) -> Iterator[tuple[int, Array]]:
        """Learn from a batch of a later pass, in one piece; yields as :meth:`learn` does."""
        before = float(self.learner.loss_sums[0])
        predictions = self._learn_rows(batch, slice(0, len(batch)))
        now = self.repeated
        self.repeated = now._replace(
            examples=now.examples + len(batch), weight=now.weight + float(batch.weights.sum()),
            loss=now.loss + float(self.learner.loss_sums[0]) - before,
        )  # fmt: skip
        yield len(batch), predictions

    def learn_late(self, batch: Batch) -> None:
        """Learn from rows that were held out, after the last pass."""
        loss, weight = float(self.learner.loss_sums[0]), self.weight
        for _ in self.learn(batch):
            pass
        now = self.repeated
        self.repeated = now._replace(
            late_weight=now.late_weight + self.weight - weight,
            late_loss=now.late_loss + float(self.learner.loss_sums[0]) - loss,
        )

    def keep(self, learner: Any, repeated: LaterPassCounts) -> None:
        """Return to the learner of an earlier pass, with its counts of repeated rows."""
        first = float(self.learner.loss_sums[0]) - self.repeated.loss
        self.learner, self.repeated = learner, repeated._replace(loss=float(learner.loss_sums[0]) - first)

    def freeze(self, clip: bool = False) -> Predictor:
        """The predictor of the current model. With ``clip``, or if clipping reduced the progressive loss, a mixture
        clips regression predictions to the range of the labels seen (Poisson loss: of their logarithms).
        """
        return freeze([self.learner], clip=self.clips(clip), labels=self.settings.labels)

    def clips(self, clip: bool = False) -> bool | None:
        """True to clip predictions, None to clip if that reduces the loss; False for classes."""
        return (clip or None) if accepts(self.learner.loss, 0.5) else False

    def few_scores(self, batch: Batch, learner: Any = None, clip: bool = False) -> Array:
        """:meth:`scores` for few rows, which computes only the weights in use; ``learner`` replaces the model's."""
        learner = self.learner if learner is None else learner
        features, places = np.unique(batch.indices, return_inverse=True)
        known = features[features < learner.dimension]  # unknown features come last, and are ignored
        predictor = freeze([learner], clip=self.clips(clip), features=known)
        return self.scores(replace(batch, indices=places.astype(np.int32)), predictor)

    def scores(self, batch: Batch, predictor: Predictor | None = None) -> Array:
        """The score <s, x> plus base of each row, or a column for each class.

        Unknown features have the weight 0. For many batches, pass a ``predictor`` from :meth:`freeze`.
        """
        scores = (predictor or self.freeze()).scores(as_rows(batch))
        scores = scores if self.settings.many else scores[:, 0]
        return scores + batch.bases if len(batch.bases) else scores

    def predict(self, batch: Batch) -> NDArray[Any]:
        """The predicted class label of each row, or the score in regression."""
        return self.decide(self.scores(batch))

    def decide(self, scores: Array) -> NDArray[Any]:
        """Convert scores to predictions."""
        values = self.settings.class_values
        if values is None:
            return scores
        return Labels(np.array(values)).best(scores if self.settings.many else scores[:, None])

    def probabilities(self, scores: Array) -> Array:
        """The probability of each class, a column each."""
        return link_of(self.learner.loss).probabilities(scores if self.settings.many else scores[:, None])

    def save(
        self, path: str | os.PathLike[str], more: dict[str, Any] | None = None, extra: dict[str, Any] | None = None
    ) -> None:
        """Write the model, with extra values and arrays; raises an error for a model that could not be loaded."""
        if not self.learner.sound:
            rule = f"numbers of the model left the range of {self.settings.dtype} in its {self.examples:,} examples"
            raise Overflowed([f"{rule}, so it is not written; ", *SCALE_OR_AUTO])
        kind, tables = self.features.state()
        arrays = {f"features.{name}": array for name, array in tables.items()}
        arrays |= {f"learner.{name}": array for name, array in pack(self.learner, self.features.dimension).items()}
        arrays |= {f"extra.{name}": array for name, array in (extra or {}).items()}
        schema = None if self.schema is None else self.schema.state()
        header = {
            "kind": KIND, "settings": self.settings.state(), "features": kind, "schema": schema,
            "examples": self.examples, "nonzeros": self.nonzeros, "weight": self.weight, "rejected": self.rejected,
            "more": more or {}, **({"repeated": list(self.repeated)} if any(self.repeated) else {}),
        }  # fmt: skip
        save(path, arrays, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> tuple["LinearModel", dict[str, Any]]:
        """Load a model and the values saved with it; extra arrays are under "extra"."""
        arrays, header = load(path)
        if header.get("kind") != KIND:
            raise ModelFileError(path, f"holds a model of another kind, {header.get('kind')!r}", "give a linear model")
        try:
            model = cls(Settings.restore(header["settings"]))
            model.features = restore(header["features"], under(arrays, "features."))
            model.schema = None if header["schema"] is None else Schema.restore(header["schema"])
            model.learner.restore(unpack(model.learner, model.features.dimension, under(arrays, "learner.")))
            model.examples, model.nonzeros = int(header["examples"]), int(header["nonzeros"])
            model.weight, model.rejected = float(header["weight"]), int(header["rejected"])
            model.repeated = LaterPassCounts(*header.get("repeated", ()))
            more = dict(header["more"]) | {"extra": under(arrays, "extra.")}
        except (KeyError, TypeError, ValueError, OverflowError, GiftrlError) as problem:
            raise ModelFileError(path, f"is not a sound model ({problem})", "use another copy of the file") from None
        return model, more


def as_rows(batch: Batch) -> CSR:
    """The rows of a batch as learners and predictors take them."""
    return CSR(batch.data, batch.indices, batch.indptr, int(np.diff(batch.indptr).max(initial=0)))


def under(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The arrays whose names begin with a prefix, with the prefix removed."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


# The state of a learner in a file, without unseen features.

Arrays = dict[str, NDArray[Any]]
#: Arrays of a mixture with a row for each dense feature.
DENSE_ARRAYS = ("features.dense", "features.stamps")
#: The array of a mixture with a row for each feature in later passes.
LATER_CHANGES = "later.changes"
#: Sums over committed examples by feature.
STORED_RECORD = "witnesses.record"


def _names(learner: Learner) -> tuple[str, str, tuple[str, ...]]:
    """An array by feature, the name of its feature numbers in the file, and other arrays with the same features."""
    if isinstance(learner, Engine):
        return "coordinates", "coordinates.seen", ()
    return "features.x", "features.seen", ("features.record", "features.theta", LATER_CHANGES)


def pack(learner: Learner, dimension: int) -> Arrays:
    """Pack the state of a learner with this many features; unseen features are left out."""
    state = learner.state()
    name, seen, others = _names(learner)
    kept = NonzeroRows.of(state[name][: max(1, dimension)])
    if isinstance(learner, Engine):
        # Recomputation of norms depends on the number of rows, so the last row is always stored.
        last = kept.length - 1
        where = kept.where if last in kept.where[-1:] else np.append(kept.where, last)
        kept = NonzeroRows(state[name][where], where, kept.length)
    else:
        dense = int(state["features.counts"][DENSE])
        state |= {each: state[each][:dense] for each in DENSE_ARRAYS}
        state |= {each: state[each][kept.where] for each in others if each in state}
    if len(state.get(STORED_RECORD, ())):
        own = NonzeroRows.of(state[STORED_RECORD][: kept.length])
        state |= {STORED_RECORD: own.rows, f"{STORED_RECORD}.seen": own.where}
    return state | {name: kept.rows, seen: kept.where}


def unpack(learner: Learner, dimension: int, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The inverse of :func:`pack`, for ``learner.restore``."""
    state = arrays_of_now(learner, arrays)
    name, seen, others = _names(learner)
    where = state.pop(seen)
    rows = dimension if not isinstance(learner, Engine) or not len(where) else min(dimension, int(where[-1]) + 1)
    for each in (name, *others):
        if each in state:
            state[each] = NonzeroRows(state[each], where, rows).array()
    if f"{STORED_RECORD}.seen" in state:
        state[STORED_RECORD] = NonzeroRows(state[STORED_RECORD], state.pop(f"{STORED_RECORD}.seen"), rows).array()
    return state


# Learning from rows with bases.


def learn_with_bases(learner: Learner, rows: Rows, labels: Array, weights: Array, bases: Array) -> Array:
    """Learn from rows whose loss is phi(<s, x> + base; y), and return the predictions <s, x_t> + base.

    If phi depends on p - y alone, the label becomes y - base. Any other loss is wrapped; then the learner must use
    labels in the loss only, unlike a mixture for regression.
    """
    loss: Any = learner.loss
    if residual(loss):
        return np.asarray(learner.learn_rows(rows, labels - bases, weights) + bases)
    learner.loss = Based(loss, labels, bases)
    try:
        return np.asarray(learner.learn_rows(rows, np.arange(float(len(labels))), weights) + bases)
    finally:
        learner.loss = loss


# Results of a run for JSON, and the largest weights.

#: Summaries certify against models of up to 1 and 10 times this model's size.
CERTIFIED_SCALES = (1.0, 10.0)


def best_losses(certificate: Certificate, seconds: float) -> list[BestLoss]:
    """Lower bounds for models of up to 1 and 10 times this model's norm, with a time limit; empty without stored
    examples.
    """
    if certificate.evidence is None:
        return []
    return [certificate.best_loss(scale, seconds / len(CERTIFIED_SCALES)) for scale in CERTIFIED_SCALES]


def certified_in_words(model: LinearModel) -> str:
    """Explain why the average loss of the certificate differs from the first pass; empty if it does not.

    The certificate covers the first pass, later passes (not for mixtures), and held-out rows, learned last.
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
        radii: norms to certify against; empty for the norm of the model itself.
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
        # A converted file has no names, so count the coordinates learned from.
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
    """The number of features with nonzero theta, without the constant."""
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
    """The ``top`` nonzero weights by absolute value times ``units`` of the feature."""
    weights, classes = model.learner.x, model.settings.classes
    sizes = np.abs(weights) if units is None else np.abs(weights) * units.reshape(-1, *[1] * (weights.ndim - 1))
    found = []
    for place in sizes.argsort(axis=None, kind="stable")[::-1][:top].tolist():
        slot, column = divmod(place, classes)
        if sizes.flat[place] > 0.0:
            name = model.features.name(slot) or f"#{slot}"
            found.append(Weight(name, float(weights.flat[place]) * model.features.sign(slot), slot, column))
    return found
