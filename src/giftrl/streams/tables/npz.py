"""NumPy and SciPy archives: matrices, dense or sparse, with their labels."""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import BadSource
from giftrl.streams.batch import Batch, Position, listed, merge
from giftrl.streams.source import Stream
from giftrl.streams.tables.table_rows import Bad, TableRows, finished
from giftrl.system import physical_memory

#: The maximum number of rows, and the approximate maximum of numbers, in a batch.
MAX_NPZ_ROWS = 1 << 16
MAX_NPZ_CELLS = 1 << 20
LABEL_ARRAYS = ("y", "labels", "label", "target")
WEIGHT_ARRAYS = ("weights", "weight", "sample_weight")
MATRIX_ARRAYS = ("X", "x")


#: A matrix, dense or CSR; labels, which may be text or booleans; and weights.
Table = tuple[Any, NDArray[Any], NDArray[np.float64]]


class NpzMatrix(TableRows):
    """Reads archives of NumPy and SciPy, which must fit in memory.

    From ``np.savez``: the matrix ``X``, or a sparse one as ``data``, ``indices``, ``indptr`` and ``shape``; ``y`` with
    the labels, and ``weights`` if there are any. ``scipy.sparse.save_npz`` stores no labels: for ``rows.npz``, labels
    are read from ``rows.y.npy`` and weights from ``rows.weights.npy``. Column j is
    the feature j + 1, as in LIBSVM files. Arrays of Python objects are never read.
    """

    fraction = 0.0  # of the rows that have been read

    def read(self, stream: Stream, kind: str = "npz", start: Position | None = None) -> Iterator[Batch]:
        """Read an archive from a row on."""
        start = start or Position()
        source, row = stream.source.name, start.offset
        matrix, self._texts, weights = self.load(stream)
        table = matrix, self._coded(self._texts, source), weights
        rows, columns = matrix.shape
        if row > rows:
            rule = f"ends at row {rows}, before row {row}, where reading was to continue"
            raise BadSource(source, rule, "give the file that was read before")
        while row < rows:
            if isinstance(matrix, np.ndarray):
                fit = MAX_NPZ_CELLS // max(1, columns)
            else:
                limit = int(matrix.indptr[row]) + MAX_NPZ_CELLS
                fit = int(np.searchsorted(matrix.indptr, limit, side="right")) - 1 - row
            stop = min(rows, row + min(MAX_NPZ_ROWS - row % MAX_NPZ_ROWS, max(1, fit)))
            batch = self._batch(table, row, stop, source, start.source)
            row, self.fraction = stop, stop / rows
            yield batch

    def load(self, stream: Stream) -> Table:
        """All of an archive."""
        source, path = stream.source.name, stream.source.path
        if path is None or not stream.seekable:
            raise BadSource(source, "npz cannot be read from a pipe or from compressed data", "give the plain file")
        try:
            return _load(path)
        except MemoryError as problem:
            said = str(problem) or "not enough memory"
            raise BadSource(source, f"does not fit in memory ({said})", "use Parquet, or several files") from problem
        except (zipfile.BadZipFile, ValueError, EOFError, KeyError, OSError, zlib.error) as problem:
            objects = "Python objects are not read: they could run any code"
            said = objects if "allow_pickle" in str(problem) else str(problem)
            raise BadSource(source, f"cannot be read ({said})", "write the file again") from problem

    def _coded(self, labels: NDArray[Any], source: str) -> NDArray[np.float64]:
        """Convert labels to numbers."""
        if self.labels is not None:
            return self.labels.codes(texts_of(labels))
        if labels.dtype.kind in "US":
            rule = f"has labels that are no numbers: {listed(sorted({text for text in texts_of(labels) if text}))}"
            raise BadSource(source, rule, "use a loss of classes")
        return labels.astype(np.float64)

    def label_at(self, line: int, raw: bytes) -> tuple[str, int]:
        """The label of a row, and 1 in place of a column."""
        return texts_of(self._texts[line - 1 : line])[0] or "", 1

    def _batch(self, table: Table, row: int, stop: int, source: str, number: int) -> Batch:
        matrix, labels, weights = table
        data, columns, indptr = _entries(matrix, row, stop)
        labels, weights = labels[row:stop], weights[row:stop]
        bad: Bad = {}
        for at in np.flatnonzero(~np.isfinite(data)).tolist():
            where = int(np.searchsorted(indptr, at, side="right")) - 1
            problem = f"a value that is not finite: {data[at]}"
            bad.setdefault(where, (int(columns[at]) + 1, problem, "a finite number"))
        for where in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0))).tolist():
            bad.setdefault(where, (1, f"the weight {weights[where]}", "a finite number, 0 or more"))
        for where in np.flatnonzero(np.isinf(labels)).tolist():
            bad.setdefault(where, (1, f"the label {labels[where]}", "a finite number"))
        slots, _ = self.features.number_slots((columns + 1).astype(np.uint64), data)
        entries = merge(data, slots, np.empty(0, np.uint8), indptr, compiled=self.compiled)
        lines, end = np.arange(row + 1, stop + 1), Position(number, stop, stop + 1)
        return finished(source, entries, labels, weights, lines, end, bad, lambda _: b"")


def _load(path: Path) -> Table:
    """Load an archive and the files beside it."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        # zipfile never unpacks more than the listed sizes.
        size, memory = sum(each.file_size for each in archive.zip.infolist()), physical_memory()
        if size > memory:
            raise MemoryError(f"it holds {size} bytes, and this machine has {memory} of memory")
        dense = next((name for name in MATRIX_ARRAYS if name in archive.files), None)
        if dense is not None:
            matrix = _numbers(archive[dense], dense)
            if matrix.ndim != 2:
                raise ValueError(f"{dense} has shape {matrix.shape}, and must be a matrix")
        else:
            matrix = _sparse(archive, path)
        vectors = []
        for names, missing in ((LABEL_ARRAYS, np.nan), (WEIGHT_ARRAYS, 1.0)):
            column = np.full(matrix.shape[0], missing)
            for name in names:
                beside = path.with_name(f"{path.stem}.{name}.npy")
                if name in archive.files or beside.exists():
                    array = archive[name] if name in archive.files else np.load(beside, allow_pickle=False)
                    text = names is LABEL_ARRAYS and array.dtype.kind in "US"
                    column = _column(array if text else _numbers(array, name), name, matrix.shape[0])
                    break
            vectors.append(column)
    return matrix, vectors[0], vectors[1]


def _sparse(archive: Any, path: Path) -> Any:
    """The CSR matrix of an archive, with indices checked."""
    from scipy import sparse

    if not {"data", "shape"} <= set(archive.files):
        raise ValueError(f"it holds {', '.join(sorted(archive.files)) or 'nothing'}; expected X, or a sparse matrix")
    if "format" in archive.files:
        matrix = sparse.load_npz(path)  # with allow_pickle=False
    else:
        parts = tuple(_numbers(archive[name], name) for name in ("data", "indices", "indptr"))
        matrix = sparse.csr_array(parts, shape=tuple(archive["shape"].tolist()))
    if matrix.ndim != 2:
        raise ValueError(f"the sparse array has {matrix.ndim} dimensions, and must be a matrix")
    _numbers(matrix.data, "data")
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return matrix.tocsr()


def _numbers(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.dtype.kind not in "buif":
        raise ValueError(f"{name} has type {array.dtype}, which is no number")
    return array


def texts_of(labels: NDArray[Any]) -> list[str | None]:
    """Labels as text; None for one that is missing."""
    if labels.dtype.kind in "US":
        return [text or None for text in labels.astype(str).tolist()]
    if labels.dtype.kind in "biu":
        return [str(label).lower() for label in labels.tolist()]
    return [None if label != label else f"{label:.17g}" for label in labels.tolist()]


def _column(array: NDArray[Any], name: str, rows: int) -> NDArray[Any]:
    """An array with one item per row; floats as float64; integer labels, booleans and text unchanged."""
    if array.shape not in ((rows,), (rows, 1), (1, rows)):
        raise ValueError(f"{name} has shape {array.shape}, where the matrix has {rows} rows")
    kept = "bUSiu" if name in LABEL_ARRAYS else "bUS"
    return array.reshape(-1) if array.dtype.kind in kept else array.reshape(-1).astype(np.float64)


def _entries(matrix: Any, row: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """The nonzero entries of some rows as CSR: values, columns and row starts."""
    if isinstance(matrix, np.ndarray):
        block = matrix[row:stop].astype(np.float64)
        where, columns = np.nonzero(block)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(where, minlength=stop - row))])
        return block[where, columns], columns, indptr.astype(np.int64)
    bounds = matrix.indptr[row : stop + 1].astype(np.int64)
    part = slice(bounds[0], bounds[-1])
    data, columns = matrix.data[part].astype(np.float64), matrix.indices[part].astype(np.int64)
    indptr = bounds - bounds[0]
    kept = data != 0.0
    if not kept.all():
        indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
        data, columns = data[kept], columns[kept]
    return data, columns, indptr
