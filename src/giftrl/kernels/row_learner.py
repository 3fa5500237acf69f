"""What learners of rows have in common: batches, and what is remembered of their rows for the certificate."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.certificates import Evidence, Witnesses
from giftrl.certificates.witnesses import as_budget
from giftrl.compiled.rows import Rows, as_rows
from giftrl.errors import require
from giftrl.kernels.checks import as_classes, as_labels, as_weights
from giftrl.kernels.one_row import OneRow

Array = NDArray[np.float64]


class RowLearner:
    """What learners of one score and of K scores have in common, mixtures included."""

    loss: Any
    dimension: int
    compiled: bool
    rounds: Any
    theta: Any
    x: Any
    loss_sums: Any
    own_state: Callable[[], dict[str, NDArray[Any]]]  # without that of witnesses
    classes: int | None = None  # K; None for one score
    witnesses: Witnesses | None = None  # what is remembered of rows, for the certificate
    merges: int = 0  # how often states of several learners have become one

    @property
    def _scores(self) -> tuple[int, ...]:
        """The shape of the scores of a row: () or (K,)."""
        return () if self.classes is None else (self.classes,)

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Learn from a batch, row by row, and return the predictions, each made before its label was used.

        Args:
            x: a SciPy sparse matrix or array, or a matrix of numbers, one example a row.
            y: the labels, or the classes from 0 to K - 1.
            weights: the importance of each example, 1 where left out.
        """
        rows, n = as_rows(x, self.dimension, compiled=self.compiled)
        labels = as_labels(self.loss, y, (n,)) if self.classes is None else as_classes(y, n, self.classes)
        return self.learn_rows(rows, labels, as_weights(weights, n))

    def learn_rows(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """:meth:`learn` without a check of its arguments, for readers that have made them.

        Args:
            rows: features below ``dimension``, none twice in a row; finite values.
            y: labels of the loss.
            weights: finite and not negative; empty for all 1.
        """
        raise NotImplementedError

    def keep_witnesses(self, nonzeros: int | None, constant: int | None = None) -> None:
        """Remember rows from now on, so that the certificate can say what no linear model goes below.

        Args:
            nonzeros: how many may be kept; 0 or None for no certificate of the best loss.
            constant: the feature that is 1 in every row, or None.

        >>> from giftrl.kernels import LinearLearner
        >>> learner = LinearLearner(1, "squared", compiled=False)
        >>> learner.keep_witnesses(100)
        >>> _ = learner.learn([[1.0], [1.0]], [1.0, 3.0])
        >>> round(learner.certificate.best_loss(scale=9.0).lower_bound, 6)
        1.0
        """
        rule, remedy = "can be set before the first row only", "make a new learner"
        require(self.rounds == 0, "nonzeros", nonzeros, rule, remedy)
        self.witnesses = None
        if nonzeros is not None and as_budget(nonzeros) > 0:
            self.witnesses = Witnesses(
                self.loss, self.dimension, nonzeros, classes=self.classes, constant=constant, compiled=self.compiled
            )

    def _remember_row(self, row: OneRow, prediction: Array) -> None:
        """Remember one row that was learnt."""
        if self.witnesses is not None:
            if row.kept_by is not self.witnesses:
                row.kept_by = self.witnesses
                row.keep = self.witnesses.bind(row.rows.value, row.label, row.weight, prediction)
            row.keep()

    def _evidence(self) -> Evidence | None:
        if self.witnesses is None:
            return None
        return self.witnesses.evidence(float(self.loss_sums[0]), self.x, self.merges > 0)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays from which ``restore`` goes on, bit by bit."""
        kept = {} if self.witnesses is None else self.witnesses.state()
        merges = {"merges": np.array([self.merges])} if self.merges else {}
        return self.own_state() | merges | {f"witnesses.{name}": array for name, array in kept.items()}

    def _restore_beside(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore what is not in ``own_state``."""
        merges = state.get("merges", np.zeros(1, np.int64))
        fits = merges.dtype == np.int64 and merges.shape == (1,) and merges[0] >= 0
        require(bool(fits), "state", "merges", "must be how often it was merged", "use the state of such a learner")
        self.merges = int(merges[0])
        if self.witnesses is not None:
            self.witnesses.dimension = self.dimension
            names = [name for name in state if name.startswith("witnesses.")]
            self.witnesses.restore({name.removeprefix("witnesses."): state[name] for name in names})

    def _typed(self, y: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(y, np.float64 if self.classes is None else np.int64)

    @property
    def t(self) -> int:
        """The number of the round that comes next, from 1."""
        return int(self.rounds) + 1

    @property
    def theta_norm(self) -> float:
        """norm2 of the entries of theta."""
        return float(np.linalg.norm(self.theta))
