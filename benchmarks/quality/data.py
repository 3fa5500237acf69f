"""The tasks: data sets, their losses, scalings and orders."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.datasets import SEEDS, Source
from benchmarks.quality.trends import TRENDS, Trend

#: Each kind of labels, with its losses.
LOSSES = {"binary": ("logistic", "hinge"), "regression": ("squared", "absolute"), "multiclass": ("log",)}
#: Features as they are, and rows of unit norm.
SCALINGS = ("raw", "unit")


class Task(NamedTuple):
    """A data set with a loss and a scaling: one line of the table.

    >>> str(Task("a9a", "logistic", "raw")), Task("a9a", "logistic", "raw").name
    ('a9a logistic raw', 'a9a logistic')
    """

    dataset: str
    loss: str
    scaling: str

    @property
    def name(self) -> str:
        """The names of the data set and the loss."""
        return f"{self.dataset} {self.loss}"

    def __str__(self) -> str:
        return f"{self.dataset} {self.loss} {self.scaling}"


class Case(NamedTuple):
    """One data set in one scaling and one order, in memory."""

    dataset: str
    kind: str
    scaling: str
    order: str
    x: Any  # CSR of float64, without a constant column
    y: NDArray[np.float64]  # -1 and +1, real numbers, or classes 0, ..., K - 1
    classes: int | None = None  # K


def unit_rows(x: Any) -> Any:
    """The rows divided by their Euclidean norms; a row of zeros is left alone.

    >>> unit_rows(sparse.csr_matrix([[3.0, 4.0], [0.0, 0.0]])).toarray().tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    norms = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
    norms[norms == 0.0] = 1.0
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    return sparse.csr_matrix((x.data / norms[rows], x.indices, x.indptr), x.shape)


def cases(source: Source | Trend, scalings: tuple[str, ...] = SCALINGS, seeds: int = len(SEEDS)) -> Iterator[Case]:
    """The data set in each scaling and order."""
    x, y, classes = source.read()
    for scaling in scalings if isinstance(source, Source) else ("raw",):
        scaled = unit_rows(x) if scaling == "unit" else x
        for order in source.orders(seeds):
            if order == "own":
                yield Case(source.name, source.kind, scaling, order, scaled, y, classes)
                continue
            rows = np.random.default_rng(int(order)).permutation(len(y))
            yield Case(source.name, source.kind, scaling, order, scaled[rows], y[rows], classes)


# Small data sets come first: a run that is stopped has done most tasks, and mistakes show early.
_ALL = (
    Source("bodyfat", "bodyfat.gz", "regression"),
    Source("mpg", "mpg.gz", "regression"),
    Source("housing_scale", "housing_scale.gz", "regression"),
    Source("stock", "stock.gz", "regression"),
    Source("australian", "australian.gz", "binary"),
    Source("german.numer", "german.numer.gz", "binary"),
    Source("svmguide3", "svmguide3.gz", "binary"),
    Source("splice", "splice.gz", "binary"),
    Source("rcv1_vw_small", "rcv1_vw_small.gz", "binary"),
    Source("criteo_tiny", "criteo_tiny.gz", "binary"),
    Source("space_ga", "space_ga.gz", "regression"),
    Source("abalone", "abalone.gz", "regression"),
    Source("segment", "segment.scale.gz", "multiclass"),
    Source("satimage", "satimage.scale.gz", "multiclass"),
    Source("pendigits", "pendigits.gz", "multiclass"),
    Source("cpusmall", "cpusmall.gz", "regression"),
    Source("cadata", "cadata.gz", "regression"),
    Source("mushrooms", "mushrooms.gz", "binary"),
    Source("phishing", "phishing.gz", "binary"),
    Source("reuters", "reuters_lasvm.gz", "binary"),
    Source("elec2", "elec2.gz", "binary", sequential=True),
    Source("a9a", "a9a.gz", "binary"),
    Source("ijcnn1", "ijcnn1.gz", "binary"),
    Source("w8a", "w8a.gz", "binary"),
    Source("mnist", "mnist.t.gz", "multiclass"),
    Source("covtype", "covtype.libsvm.binary.scale.gz", "binary"),
)

DATASETS: dict[str, Source | Trend] = {
    source.name: source for source in (*_ALL[:4], *(Trend(name) for name in TRENDS), *_ALL[4:])
}
