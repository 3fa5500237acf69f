"""Write data as LIBSVM text and as Vowpal Wabbit text."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

ROWS = 10_000  # rows that are in memory as text at once


def write_libsvm(path: Path, x: Any, y: NDArray[np.float64]) -> None:
    """Write ``label feature:value ...``, features counted from 1. Zeros of a dense matrix are left out.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.libsvm"
    >>> write_libsvm(path, np.array([[0.5, 0.0, 2.0], [0.0, 0.0, 0.1]], np.float32), np.array([1.0, -1.0]))
    >>> path.read_text()
    '1 1:0.5 3:2\\n-1 3:0.100000001\\n'
    """
    _write(path, x, y, "", 1)


def write_vw(path: Path, x: Any, y: NDArray[np.float64]) -> None:
    """Write ``label | feature:value ...``, features counted from 0, which Vowpal Wabbit uses as their indices.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "one.vw"
    >>> write_vw(path, np.array([[0.5, 0.0, 2.0]], np.float32), np.array([1.0]))
    >>> path.read_text()
    '1 | 0:0.5 2:2\\n'
    """
    _write(path, x, y, " |", 0)


def _write(path: Path, x: Any, y: NDArray[np.float64], bar: str, first: int) -> None:
    """Write to a temporary file and rename it, so that an interrupted run leaves no partial file."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    with beside.open("w") as file:
        for begin in range(0, len(y), ROWS):
            rows = sparse.csr_matrix(x[begin : begin + ROWS])
            file.writelines(_lines(rows, y[begin : begin + ROWS], bar, first))
    beside.replace(path)


def _lines(rows: Any, y: NDArray[np.float64], bar: str, first: int) -> Iterator[str]:
    # Nine digits represent a float32 exactly. Formatting a whole row at once is several times faster.
    indptr, indices, values = rows.indptr.tolist(), (rows.indices + first).tolist(), rows.data.tolist()
    for i, label in enumerate(y.tolist()):
        begin, end = indptr[i], indptr[i + 1]
        pairs: list[float] = [0.0] * (2 * (end - begin))
        pairs[::2] = indices[begin:end]
        pairs[1::2] = values[begin:end]
        yield f"{label:g}{bar}" + " %d:%.9g" * (end - begin) % tuple(pairs) + "\n"
