"""The base of both estimators: their models, learning in blocks of examples, attributes of a fitted estimator."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from giftrl.certificates import Certificate
from giftrl.compiled.rows import Rows, blocks, each_once, unit_rows
from giftrl.config import AUTO, Predictor, Recipe, freeze, make, make_each
from giftrl.config.early_stopping import EarlyStopping, held_out
from giftrl.config.predictor import clip_as_in_training, losses_of
from giftrl.config.recipe import Experts, Mixture, Parameters, experts_of
from giftrl.errors import InvalidInput, Overflowed, require
from giftrl.kernels import LinearLearners
from giftrl.linear.report import run_of
from giftrl.reports.page import Page
from giftrl.reports.record import Record, mean_base_learners
from giftrl.workers.merging import require_auto
from giftrl.workers.planner import MIN_FIRST_ROWS
from giftrl.workers.threads import Team

# ruff: noqa: N803 (scikit-learn passes X by its name)

Array = NDArray[np.float64]
NO_WEIGHTS = np.empty(0)
#: For batches with fewer nonzeros than this share of the features, only the weights in use are computed.
SPARSE_BATCH_SHARE = 0.1
#: Parameters that define the model. They must not change between calls of partial_fit.
MADE_OF = tuple(field.name for field in fields(Parameters))
#: Matrix types that the compiled loops accept without a copy.
MATRIX_TYPES: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class EstimatorModel:
    """The learner of an estimator, with one score or a score for each class; other models have several learners.

    >>> from giftrl.config import Recipe, make
    >>> model = EstimatorModel([make(Recipe("squared", beta=1.0), 2, compiled=False)])
    >>> for _, _, rows in blocks(np.eye(2)):
    ...     p = model.learn(rows, np.ones(2), NO_WEIGHTS)
    >>> model.rounds, model.predictor(intercept=False, clip=True).weights.shape
    (2, (2, 1))
    """

    each = False  # True if each label column has a model of its own

    def __init__(self, learners: Sequence[Any]) -> None:
        self.learners: list[Any] = list(learners)
        self._active: Any = self.learners[0]  # or the team that trains it
        self._steps: Array | None = None  # step sizes of the last merge
        self._frozen: tuple[tuple[int, bool, bool | None], Predictor] | None = None

    @contextmanager
    def together(self, workers: int) -> Iterator[None]:
        """Use that many threads inside the block: a team of workers (:mod:`giftrl.workers.threads`)."""
        if workers == 1:
            yield
            return
        learner = self._active
        try:
            with Team(learner, workers, steps=self._steps) as team:
                self._active = team
                yield
                team.finish()
                self._steps = team.steps
        finally:
            self._active = learner

    def learn(self, rows: Rows, y: Array, weights: Array) -> Array:
        """Learn from the examples in order, and return each prediction made before its label was used."""
        return np.asarray(self._active.learn_rows(rows, y, weights))

    def predictor(self, *, intercept: bool, clip: bool | None) -> Predictor:
        """The predictor of all columns, computed on demand and cached until they learn again."""
        of = self.rounds, intercept, clip
        if self._frozen is None or self._frozen[0] != of:
            self._frozen = of, freeze(self.learners, intercept=intercept, clip=clip)
        return self._frozen[1]

    def scores(self, x: Any, *, intercept: bool, clip: bool | None) -> Array:
        """Return the scores of new examples. For small sparse batches only the weights in use are computed."""
        known = self._frozen is not None and self._frozen[0] == (self.rounds, intercept, clip)
        if known or not sparse.issparse(x) or x.nnz > SPARSE_BATCH_SHARE * x.shape[1]:
            return self.predictor(intercept=intercept, clip=clip).scores(x)
        features, places = np.unique(x.indices, return_inverse=True)
        if intercept:
            features = np.append(features, x.shape[1])
        frozen = freeze(self.learners, intercept=intercept, clip=clip, features=features)
        return frozen.scores(sparse.csr_array((x.data, places, x.indptr), (x.shape[0], frozen.weights.shape[0])))

    def replace(self, learners: Sequence[Any]) -> None:
        """Replace the learners by others with the same columns."""
        self.learners, self._frozen = list(learners), None
        self._active = self.learners[0]

    @property
    def loss_sum(self) -> float:
        """The weighted sum of progressive losses; the mean over columns that each have a loss."""
        sums = [total for learner in self.learners for total in learner.loss_sums.tolist()]
        return float(np.mean(sums)) if len(sums) > 1 else sums[0]

    @property
    def rounds(self) -> int:
        """The number of examples learned."""
        return int(min(learner.rounds for learner in self.learners))

    @property
    def sound(self) -> bool:
        """True if every number is finite and all columns have learned the same examples."""
        return all(learner.sound and learner.rounds == self.rounds for learner in self.learners)

    @property
    def certificates(self) -> list[Certificate]:
        """The certificates of the run, one for each loss."""
        return [learner.certificate for learner in self.learners]

    @property
    def experts(self) -> list[Experts]:
        """The base learners of each mixture, without learners that are not mixtures."""
        return [experts_of(learner) for learner in self.learners if isinstance(learner, Mixture)]


class SeparateModels(EstimatorModel):
    """A learner for each label column. Threads share out the columns, with the same result as in one thread."""

    each = True
    _map: Any = map

    @contextmanager
    def together(self, workers: int) -> Iterator[None]:
        with ThreadPoolExecutor(workers, "giftrl-worker") as pool:
            self._map = pool.map if workers > 1 else map
            try:
                yield
            finally:
                del self._map

    def learn(self, rows: Rows, y: Array, weights: Array) -> Array:
        def learn(learner: Any, own: Array) -> Any:
            return learner.learn_rows(rows, np.ascontiguousarray(own), weights)

        return np.column_stack([*self._map(learn, self.learners, y.T)])


class SharedPassModels(EstimatorModel):
    """A learner of many models, one for each label column, which learns all of them in one pass and one thread."""

    each = True

    @contextmanager
    def together(self, workers: int) -> Iterator[None]:
        yield

    def learn(self, rows: Rows, y: Array, weights: Array) -> Array:
        made = super().learn(rows, y, weights)
        # One of many models may overflow while the others continue.
        lost = np.flatnonzero(~np.isfinite(self._active.loss_sums))
        if len(lost) > 0:
            raise Overflowed(
                f"the model of column {lost[0]} (one of {len(lost)}) leaves the range of float64; scale the "
                "features, use a smaller beta, or an implicit update, which does not overshoot"
            )
        return made

    @property
    def certificates(self) -> list[Certificate]:
        every: list[Certificate] = self._active.certificates
        return every


@dataclass(eq=False, repr=False)
class FTRL(Parameters, BaseEstimator):  # type: ignore[misc]
    """The base class of both estimators: everything that does not depend on the meaning of labels.

    Subclasses define ``_read`` (raw labels to numbers), ``_targets`` (numbers to labels of the loss) and ``_make`` (a
    new model).
    """

    _: KW_ONLY
    passes: int = 1
    validation_fraction: float = 0.1
    shuffle: bool = True
    random_state: Any = 0
    n_jobs: int | None = None

    #: Arguments of validate_data for the labels.
    _checks: ClassVar[dict[str, Any]] = {}

    def _recipe(self, **chosen: Any) -> Recipe:
        good = bool(isinstance(self.passes, (int, np.integer)) and self.passes >= 1)
        rule, remedy = "must be a whole number of at least 1", "passes=1 learns from each row once"
        require(good, "passes", self.passes, rule, remedy)
        part, remedy = self.validation_fraction, "0.1 holds out every tenth row"
        good = isinstance(part, (int, float, np.number)) and 0.0 <= part <= 0.5
        require(good, "validation_fraction", part, "must be from 0 to 0.5", remedy)
        whole = isinstance(self.n_jobs, (int, np.integer)) and not isinstance(self.n_jobs, bool) and self.n_jobs != 0
        rule, remedy = "must be a whole number of threads, -1 for all cores, or None for one", "try n_jobs=2"
        require(self.n_jobs is None or whole, "n_jobs", self.n_jobs, rule, remedy)
        return super()._recipe(**chosen)

    def _columns(self, recipe: Recipe, *, classes: int | None = None, models: int | None = None) -> EstimatorModel:
        """Return an untrained model: one learner, or one for each column if ``models`` is given."""
        features = self.n_features_in_
        dimension, constant = (features + 1, features) if self.fit_intercept else (features, None)
        if models is None:
            return EstimatorModel([make(recipe, dimension, classes, constant=constant)])
        learners = make_each(recipe, dimension, models, constant=constant)
        return (SharedPassModels if isinstance(learners[0], LinearLearners) else SeparateModels)(learners)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a new model on these examples.

        Args:
            X: a matrix, sparse or dense, or a data frame.
            y: class labels of any type, or regression targets (a column for each target).
            sample_weight: the weight of each example. Examples of weight 0 are ignored.
        """
        return self._teach(X, y, sample_weight, anew=True)

    def _teach(self, X: Any, y: Any, sample_weight: Any, *, anew: bool, **more: Any) -> Self:
        """Validate the examples and learn from them: all passes of ``fit``, or one pass of ``partial_fit``."""
        first = anew or not self.__sklearn_is_fitted__()
        with self._all_or_nothing():
            x, y = validate_data(self, as_frame(X), y, **MATRIX_TYPES, **self._checks, reset=first)
            weights = sample_weight
            if weights is not None:
                weights = np.asarray(_check_sample_weight(weights, x, dtype=np.float64, ensure_non_negative=True))
            labels = self._read(y, anew, **more)
            if first:
                self._model: EstimatorModel = self._make()
                self._made_of = {name: getattr(self, name) for name in MADE_OF}
                self._weight_sum = self._loss_sum = 0.0
                self._validation_losses: list[float] = []
                self._sparse = False
                self._record = Record()
            for name, before in self._made_of.items():
                value = getattr(self, name)
                if value is not before and value != before:
                    rule = f"must not change after learning began with {before!r}"
                    raise InvalidInput(name, value, rule, "call fit, or partial_fit on a clone, to begin anew")
            weights = self._reweigh(y, labels, weights)
            passes, shuffle = (self.passes, self.shuffle) if anew else (1, False)
            self._learn(each_once(x), self._targets(labels, weights), weights, passes, shuffle)
        return self

    def _learn(self, x: Any, labels: Array, weights: Array | None, passes: int, shuffle: bool) -> None:
        """Learn from validated examples, without those of weight 0."""
        random = check_random_state(self.random_state) if shuffle else None
        order = np.flatnonzero(weights) if weights is not None and not weights.all() else None
        n = len(labels) if order is None else len(order)
        if random is not None:
            order = random.permutation(n if order is None else order)
        held = np.flatnonzero(held_out(0, n, self.validation_fraction)) if passes > 1 else np.empty(0, np.int64)
        if len(held) > 0:  # positions in the order become example numbers
            taken = np.arange(n) if order is None else order
            held, order = taken[held], np.delete(taken, held)
        validate = None
        if len(held) > 0:
            validate = partial(self._validate, x[held], labels[held], None if weights is None else weights[held])
        stopping = EarlyStopping(self._model.learners, validate) if passes > 1 else None
        workers = 1 if self.n_jobs is None else int(effective_n_jobs(self.n_jobs))
        if workers > 1 and not self._model.each:
            require_auto(self.beta == AUTO, "n_jobs", self.n_jobs)
        for index in range(passes):
            if index > 0 and random is not None:
                order = random.permutation(order)
            before = self._model.loss_sum
            if stopping is not None:
                stopping.begin()
            with self._model.together(workers if index == 0 and n >= MIN_FIRST_ROWS else 1):
                self._learn_once(x, labels, weights, order, kept=index == 0)
            if index == 0:
                self._loss_sum += self._model.loss_sum - before
                self._weight_sum += n - len(held) if weights is None else weights.sum() - weights[held].sum()
            if stopping is None or not stopping.end():
                break
        if stopping is not None:
            self._model.replace(stopping.result())
            self._validation_losses = stopping.losses
        if len(held) > 0:
            self._learn_once(x, labels, weights, held)

    def _learn_once(
        self, x: Any, labels: Array, weights: Array | None, order: NDArray[np.int64] | None, kept: bool = False
    ) -> None:
        """Make one pass over the examples in ``order``. With ``kept``, store predictions for the report."""
        # Mixtures take long to compile, so float32 data uses the loop for float64.
        real = np.float64 if self.beta == AUTO else None
        y = labels if order is None else labels[order]
        w = NO_WEIGHTS if weights is None else weights if order is None else weights[order]
        unit = self.normalize == "unit"
        for begin, end, rows in blocks(x, constant=self.fit_intercept, unit=unit, order=order, dtype=real):
            learnt = self._model.rounds
            if kept and self._record.rows:
                self._record.note_shares(lambda: mean_base_learners(self._model.experts))
            try:
                made = self._model.learn(rows, y[begin:end], w[begin:end])
            except Overflowed as problem:
                at = begin + (self._model.rounds - learnt if problem.row is None else problem.row)
                at = at if order is None else int(order[at])
                raise Overflowed(
                    f"row {at} leaves the range of float64; scale the features, use a smaller beta, or an implicit "
                    "update, which does not overshoot",
                    at,
                ) from None
            if kept:
                self._record.add(made, y[begin:end], None if weights is None else w[begin:end])

    def _validate(self, x: Any, labels: Array, weights: Array | None, learners: list[Any]) -> float:
        """Return the mean validation loss of learners on held-out examples."""
        predictor = freeze(learners, intercept=self.fit_intercept, clip=self._clip)
        scores = clip_as_in_training(learners, predictor.scores(unit_rows(x) if self.normalize == "unit" else x))
        weights = None if weights is None else weights / weights.max()  # so that their sum is finite
        return float(np.average(losses_of(learners[0].loss, scores, labels), weights=weights))

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the estimator if the block raises.

        The model of ``partial_fit`` is not copied. After :class:`Overflowed` it has learned the examples before the one
        that overflowed, although ``average_loss_`` does not count them. If its numbers are no longer finite, the
        estimator is not fitted any more.
        """
        before = dict(self.__dict__)
        try:
            yield
        except BaseException as problem:
            self.__dict__.clear()
            self.__dict__.update(before)
            if isinstance(problem, Overflowed) and "_model" in before and not self._model.sound:
                del self._model
            raise

    def _reweigh(self, y: Any, labels: Any, weights: Array | None) -> Array | None:
        """Return example weights; classifiers multiply them by class weights."""
        return weights

    @property
    def _clip(self) -> bool | None:
        """True if predictions stay in the range of labels that a mixture has seen; None to let the mixture decide."""
        return False

    @property
    def _predictor(self) -> Predictor:
        """The predictor of the current model."""
        check_is_fitted(self)
        return self._model.predictor(intercept=self.fit_intercept, clip=self._clip)

    def _scores(self, X: Any) -> Array:
        """Return <s, x> + intercept of new examples, a column for each column of the model."""
        check_is_fitted(self)
        x = validate_data(self, as_frame(X), **MATRIX_TYPES, reset=False)
        x = unit_rows(x) if self.normalize == "unit" else x
        if self._sparse:
            predictor = self._predictor
            return predictor._replace(weights=sparse.csr_array(predictor.weights)).scores(x)
        return self._model.scores(x, intercept=self.fit_intercept, clip=self._clip)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def sparsify(self) -> Self:
        """Convert ``coef_`` to a CSR matrix, which speeds up predictions if few weights are nonzero."""
        check_is_fitted(self)
        self._sparse = True
        return self

    def densify(self) -> Self:
        """Convert ``coef_`` back to an array."""
        check_is_fitted(self)
        self._sparse = False
        return self

    @property
    def average_loss_(self) -> float:
        """Progressive validation loss: the weighted mean loss of predictions made before learning from each example.

        With several passes it covers the first one. If each class or target has its own loss, it is their mean.
        """
        check_is_fitted(self)
        return self._loss_sum / self._weight_sum if self._weight_sum > 0.0 else float("nan")

    @property
    def validation_losses_(self) -> list[float]:
        """Validation loss after each pass; empty without held-out examples.

        The model of the best pass is kept, and then trained on the held-out examples as well.
        """
        check_is_fitted(self)
        return list(self._validation_losses)

    @property
    def certificate_(self) -> Certificate | list[Certificate]:
        """The certificate of the run, or a list if each class or target has its own.

        Comparators have a coordinate for each feature and then one for the intercept; for ``softmax`` and
        ``multiclass_hinge``, a matrix of these with a column for each class, flattened row by row.
        """
        check_is_fitted(self)
        certificates = self._model.certificates
        return certificates if self._model.each else certificates[0]

    @property
    def experts_(self) -> Experts | list[Experts]:
        """With beta="auto", (name, share, loss) of each base learner of the mixture.

        The share is the coefficient of its predictions in the combined prediction. Shares need not sum to 1 and can be
        negative. The loss is its own progressive loss, summed. If each class or target has its own mixture, this is a
        list of such lists.
        """
        check_is_fitted(self)
        experts = [experts_of(learner) for learner in self._model.learners]
        return experts if self._model.each else experts[0]

    def report(self, path: str | PathLike[str] | None = None, *, seconds: float = 5.0) -> Page:
        """Return a page about the run: learning curve, certificate, predictions against labels, and weights.

        It is about predictions made before each row was learned, in the first pass.

        Args:
            path: an HTML file to write the page to, or None. The file needs no other file.
            seconds: the time to search for a certificate; 0 for none.

        Returns:
            the page; a notebook shows it, and its ``html()`` is its text.
        """
        check_is_fitted(self)
        page: Page = run_of(self, seconds).page
        if path is not None:
            page.save(Path(path))
        return page

    @property
    def t_(self) -> int:
        """The number of the next round, from 1. With beta="auto", later passes do not count as rounds."""
        check_is_fitted(self)
        return self._model.rounds + 1


def as_frame(x: Any) -> Any:
    """Convert a table with Arrow's PyCapsule protocol to PyArrow; anything else is returned unchanged."""
    speaks = hasattr(x, "__arrow_c_stream__") or hasattr(x, "__arrow_c_array__")
    if not speaks or hasattr(x, "__array__"):
        return x
    import pyarrow

    if hasattr(x, "__arrow_c_stream__"):
        return pyarrow.table(x)
    return pyarrow.table(pyarrow.record_batch(x))
