"""The model behind an estimator: columns of weights from one learner or several."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from giftrl.certificates import Certificate
from giftrl.config import Predictor, freeze
from giftrl.config.recipe import Experts, Mixture, experts_of
from giftrl.errors import Overflowed
from giftrl.kernels import LinearLearners
from giftrl.workers.threads import Team

Array = NDArray[np.float64]
#: For batches with fewer nonzeros than this share of the features, only the weights in use are computed.
SPARSE_BATCH_SHARE = 0.1


class EstimatorModel:
    """Columns of weights that learn together: of one learner or, with ``each``, of a learner for each label column.

    >>> from giftrl.config import Recipe, make_each
    >>> model = EstimatorModel(make_each(Recipe("squared", beta=1.0), 2, 3, compiled=False), each=True)
    >>> model.learn(np.eye(2), np.ones((2, 3)), None).shape
    (2, 3)
    >>> model.predictor(intercept=False, clip=True).weights.shape, len(model.certificate)
    ((2, 3), 3)
    """

    _team: Team | None = None
    _threads: ThreadPoolExecutor | None = None
    _steps: Array | None = None  # step sizes of the last merge

    def __init__(self, learners: Sequence[Any], each: bool = False) -> None:
        self.learners = list(learners)
        self.each = each
        self._frozen: tuple[tuple[int, bool, bool | None], Predictor] | None = None

    @contextmanager
    def together(self, workers: int) -> Iterator[None]:
        """Use that many threads inside the block.

        Independent columns are distributed over the threads, with the same result as in one thread. A single learner
        is trained by a team of workers (:mod:`giftrl.workers.threads`). Many models in one pass use one thread.
        """
        if workers == 1 or isinstance(self.learners[0], LinearLearners):
            yield
            return
        try:
            if self.each and len(self.learners) > 1:
                with ThreadPoolExecutor(workers, "giftrl-worker") as self._threads:
                    yield
            else:
                with Team(self.learners[0], workers, steps=self._steps) as self._team:
                    yield
                    self._team.finish()
                    self._steps = self._team.steps
        finally:
            self._team = self._threads = None

    def learn(self, x: Any, y: Array, weights: Array | None) -> Array:
        """Learn from the examples in order, and return each prediction made before its label was used."""
        if isinstance(self.learners[0], LinearLearners):
            made = self.learners[0].learn(x, y, weights)
            # One of many models may overflow while the others continue.
            lost = np.flatnonzero(~np.isfinite(self.learners[0].loss_sums))
            if len(lost) > 0:
                raise Overflowed(
                    f"the model of column {lost[0]} (one of {len(lost)}) leaves the range of float64; scale the "
                    "features, use a smaller beta, or an implicit update, which does not overshoot"
                )
            return made
        if self.each:
            columns = [np.ascontiguousarray(y[:, k]) for k in range(len(self.learners))]
            every = map if self._threads is None else self._threads.map
            return np.column_stack([*every(lambda each, own: each.learn(x, own, weights), self.learners, columns)])
        return np.asarray((self._team or self.learners[0]).learn(x, y, weights))

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
    def certificate(self) -> Certificate | list[Certificate]:
        """The certificate of the run, or a list if each column has its own loss."""
        if isinstance(self.learners[0], LinearLearners):
            return self.learners[0].certificates
        certificates = [learner.certificate for learner in self.learners]
        return certificates if self.each else certificates[0]

    @property
    def every_experts(self) -> list[Experts]:
        """The base learners of each mixture, without learners that are not mixtures."""
        return [experts_of(learner) for learner in self.learners if isinstance(learner, Mixture)]

    @property
    def experts(self) -> Experts | list[Experts]:
        """The base learners of the mixture, or a list of them for each column; AttributeError without a mixture."""
        experts = [experts_of(learner) for learner in self.learners]
        return experts if self.each else experts[0]
