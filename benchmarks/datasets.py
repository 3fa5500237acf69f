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
from benchmarks.text import write_libsvm, write_vw

__all__ = ["DATASETS", "A9a", "Covtype", "Data", "Dataset", "Rcv1Like", "store"]


class Data(NamedTuple):
    """Rows and labels -1 or +1, in memory.

    >>> data = Data("tiny", "none", np.eye(3, dtype=np.float32), np.ones(3))
    >>> data.dense, data.rows, data.entries, data.dimension
    (True, 3, 9, 3)
    """

    name: str
    key: str  # names the files made from this data
    x: Any
    y: NDArray[np.float64]

    @property
    def dense(self) -> bool:
        """Whether the rows are a dense matrix, not CSR."""
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

    def text(self, kind: str) -> Path:
        """The path of the data as text, ``libsvm`` or ``vw``; written by the first call."""
        path = store() / f"{self.key}.{kind}"
        if not path.exists():
            {"libsvm": write_libsvm, "vw": write_vw}[kind](path, self.x, self.y)
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


class _FromFile:
    """Data from a LIBSVM file in the folder GIFTRL_DATA; parsed once and kept as arrays."""

    name: str
    file: str
    features: int
    positive: float  # the label that becomes +1

    def unavailable(self) -> str | None:
        folder = os.environ.get("GIFTRL_DATA")
        if not folder:
            return f"set GIFTRL_DATA to a folder with {self.file}"
        return None if (Path(folder) / self.file).exists() else f"there is no {self.file} in GIFTRL_DATA={folder}"

    def read(self) -> tuple[Any, NDArray[np.float64], str]:
        path = Path(os.environ["GIFTRL_DATA"]) / self.file
        key = f"{self.name}-{path.stat().st_size}"
        kept = store() / f"{key}.npz"
        if not kept.exists():
            from sklearn.datasets import load_svmlight_file  # type: ignore[import-untyped]

            x, y = load_svmlight_file(str(path), n_features=self.features, dtype=np.float32)
            beside = kept.with_name(f"{key}.{os.getpid()}.npz")
            arrays = {"data": x.data, "indices": x.indices.astype(np.int32), "indptr": x.indptr.astype(np.int32)}
            np.savez(beside, y=np.where(y == self.positive, 1.0, -1.0), **arrays)
            beside.replace(kept)
        with np.load(kept) as saved:
            shape = (len(saved["y"]), self.features)
            return sparse.csr_matrix((saved["data"], saved["indices"], saved["indptr"]), shape), saved["y"], key


class Covtype(_FromFile):
    """Covertype, two classes, as a dense float32 matrix: 581,012 rows of 54 features in the order of the file."""

    name = "covtype"
    file = "covtype.libsvm.binary.scale.gz"
    features = 54
    positive = 2.0

    def load(self, quick: bool) -> Data:
        x, y, key = self.read()
        rows = 2_000 if quick else len(y)
        return Data(self.name, f"{key}-{rows}", x[:rows].toarray(), y[:rows])


class A9a(_FromFile):
    """Adult, a9a: 32,561 sparse rows of 14 ones among 123 features."""

    name = "a9a"
    file = "a9a.gz"
    features = 123
    positive = 1.0

    def load(self, quick: bool) -> Data:
        x, y, key = self.read()
        rows = 2_000 if quick else len(y)
        return Data(self.name, f"{key}-{rows}", x[:rows], y[:rows])


def store() -> Path:
    """The folder for files made from the data. It is the same in every run, so that they are made only once."""
    path = Path(tempfile.gettempdir()) / "giftrl-benchmarks"
    path.mkdir(exist_ok=True)
    return path


DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in (Rcv1Like(), Covtype(), A9a())}
