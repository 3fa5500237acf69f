"""The data sets, each a small class."""

import hashlib
import inspect
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import rcv1_like as generator
from benchmarks.text import write_vw

#: The seeds of the random orders.
SEEDS = (0, 1, 2)


class Data(NamedTuple):
    """Rows and labels -1 or +1, in memory.

    >>> Data("tiny", "none", np.eye(3, dtype=np.float32), np.ones(3)).entries
    9
    """

    name: str
    key: str  # names the files made from this data
    x: Any
    y: NDArray[np.float64]

    @property
    def dense(self) -> bool:
        """True for a dense matrix, False for CSR."""
        return not sparse.issparse(self.x)

    @property
    def rows(self) -> int:
        """How many examples."""
        return len(self.y)

    @property
    def dimension(self) -> int:
        """How many features."""
        return int(self.x.shape[1])

    @property
    def entries(self) -> int:
        """How many entries one pass reads: the nonzeros, or all numbers of a dense matrix."""
        return int(self.x.size if self.dense else self.x.nnz)

    def text(self) -> Path:
        """The path of the data as Vowpal Wabbit's text, which the first call writes."""
        path = store() / f"{self.key}.vw"
        if not path.exists():
            write_vw(path, self.x, self.y)
        return path


class Dataset(Protocol):
    """The interface of a data set."""

    name: str

    def unavailable(self) -> str | None:
        """The reason why the data is not available here, or None."""

    def load(self, quick: bool) -> Data:
        """The data; with ``quick`` a small part or a small version of it."""


class Rcv1Like:
    """200,000 sparse rows of :mod:`benchmarks.rcv1_like`.

    >>> data = Rcv1Like().load(quick=True)
    >>> data.rows, data.dimension, data.dense
    (2000, 5000, False)
    """

    name = "rcv1_like"

    def unavailable(self) -> str | None:
        return None

    def load(self, quick: bool) -> Data:
        rows, features = (2_000, 5_000) if quick else (200_000, 47_236)
        source = hashlib.sha256(inspect.getsource(generator).encode()).hexdigest()[:8]
        x, y = generator.rcv1_like(rows, features)
        return Data(self.name, f"{self.name}-{rows}-{features}-{source}", x, y)


class Source(NamedTuple):
    """A data set: its LIBSVM file in the folder GIFTRL_DATA, and the kind of its labels."""

    name: str
    file: str
    kind: str
    sequential: bool = False  # keep the order of the file, because the data is a stream

    def unavailable(self) -> str | None:
        """The reason why it is not available, or None."""
        folder = os.environ.get("GIFTRL_DATA")
        if not folder:
            return f"set GIFTRL_DATA to a folder with {self.file}"
        return None if (Path(folder) / self.file).exists() else f"there is no {self.file} in GIFTRL_DATA={folder}"

    def orders(self, seeds: int = len(SEEDS)) -> list[str]:
        """The names of the orders: their seeds, or ``own`` for the order of the file.

        >>> Source("a9a", "a9a.gz", "binary").orders(2), Source("elec2", "elec2.gz", "binary", True).orders()
        (['0', '1'], ['own'])
        """
        return ["own"] if self.sequential else [str(seed) for seed in SEEDS[:seeds]]

    def read(self) -> tuple[Any, NDArray[np.float64], int | None]:
        """Features, labels and the number of classes, in the order of the file, which is parsed only once."""
        path = Path(os.environ["GIFTRL_DATA"]) / self.file
        kept = store() / f"quality-{self.name}-{path.stat().st_size}.npz"
        if not kept.exists():
            from sklearn.datasets import load_svmlight_file  # type: ignore[import-untyped]

            x, y = load_svmlight_file(str(path))
            beside = kept.with_name(f"{kept.stem}.{os.getpid()}.npz")
            np.savez(beside, y=y, data=x.data, indices=x.indices, indptr=x.indptr, shape=x.shape)
            beside.replace(kept)
        with np.load(kept) as saved:
            arrays = (saved["data"], saved["indices"].astype(np.int32), saved["indptr"].astype(np.int32))
            x = sparse.csr_matrix(arrays, tuple(saved["shape"]))
            x.sort_indices()
            x.eliminate_zeros()
            return x, *labels(saved["y"], self.kind)


def labels(y: NDArray[np.float64], kind: str) -> tuple[NDArray[np.float64], int | None]:
    """Labels for the solvers: -1 and +1 (for the larger value), real labels as they are, or classes 0, ..., K - 1.

    >>> labels(np.array([2.0, 1.0]), "binary")[0].tolist(), labels(np.array([3.0, 1.0, 7.0]), "multiclass")[0].tolist()
    ([1.0, -1.0], [1.0, 0.0, 2.0])
    """
    if kind == "regression":
        return y.astype(np.float64), None
    values, codes = np.unique(y, return_inverse=True)
    return (np.where(codes > 0, 1.0, -1.0), None) if kind == "binary" else (codes.astype(np.float64), len(values))


class FromFile:
    """Examples with labels -1 and +1 of a data set, in the order of the file, as float32."""

    def __init__(self, source: Source, dense: bool) -> None:
        self.source, self.dense, self.name = source, dense, source.name

    def unavailable(self) -> str | None:
        return self.source.unavailable()

    def load(self, quick: bool) -> Data:
        x, y, _ = self.source.read()
        rows = 2_000 if quick else len(y)
        x = x[:rows].astype(np.float32)
        return Data(self.name, f"{self.name}-{rows}", x.toarray() if self.dense else x, y[:rows])


def store() -> Path:
    """The folder for files made from the data. It is the same in every run, so that they are made only once."""
    path = Path(tempfile.gettempdir()) / "giftrl-benchmarks"
    path.mkdir(exist_ok=True)
    return path


DATASETS: dict[str, Dataset] = {
    "rcv1_like": Rcv1Like(),
    "covtype": FromFile(Source("covtype", "covtype.libsvm.binary.scale.gz", "binary"), dense=True),
    "a9a": FromFile(Source("a9a", "a9a.gz", "binary"), dense=False),
}
