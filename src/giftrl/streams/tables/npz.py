"""NumPy and SciPy archives: matrices, dense or sparse, with their labels."""

import contextlib
import math
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import BadSource
from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.names.features import Features
from giftrl.streams.names.merge import keep_rows, merge, overflowed
from giftrl.streams.sources.source import Stream

__all__ = ["NpzMatrix"]

#: The most rows, and about the most numbers, of a batch.
ROWS = 1 << 16
CELLS = 1 << 20
LABELS = ("y", "labels", "label", "target")
WEIGHTS = ("weights", "weight", "sample_weight")
MATRICES = ("X", "x")


class _Array:
    """An array of an archive, or a file of its own, read from its beginning to its end."""

    def __init__(self, handle: Any, name: str, kinds: str = "buif") -> None:
        self.handle = handle
        self.name = name
        version = np.lib.format.read_magic(handle)
        header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}.get(version[0])
        if header is None:
            raise ValueError(f"{name} is of version {version}")
        self.shape, self.fortran, self.dtype = header(handle)
        if self.dtype.hasobject:
            raise ValueError(f"{name} holds Python objects, which are not read: they could run any code")
        if self.dtype.kind not in kinds:
            raise ValueError(f"{name} has type {self.dtype}, which is no number")

    def numbers(self, count: int) -> NDArray[Any]:
        """The next numbers, in the order of the file."""
        size = count * self.dtype.itemsize
        pieces, left = [], size
        while left and (piece := self.handle.read(left)):
            pieces.append(piece)
            left -= len(piece)
        if left:
            raise EOFError(f"{self.name} ends too early")
        return np.frombuffer(b"".join(pieces), self.dtype)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def all(self) -> NDArray[Any]:
        """The whole array."""
        return self.numbers(self.size).reshape(self.shape, order="F" if self.fortran else "C")


class _Rows(NamedTuple):
    """Some rows of a matrix."""

    data: NDArray[np.float64]
    columns: NDArray[np.int64]
    indptr: NDArray[np.int64]


class NpzMatrix:
    """Reads archives of NumPy and SciPy, row by row.

    From ``np.savez``: the matrix ``X``, or a sparse one as ``data``, ``indices``, ``indptr`` and ``shape``; ``y`` with
    the labels, and ``weights`` if there are any. From ``scipy.sparse.save_npz``, which has no room for labels: these
    are looked for in a file beside it, for ``rows.npz`` in ``rows.y.npy``, and weights in ``rows.weights.npy``. Column
    j is the feature j + 1, as it is in LIBSVM files. Arrays of Python objects are never read.

    Sparse matrices in rows (CSR), and dense ones in C order, are never in memory as a whole; others are.

    Args:
        features: what turns the numbers of columns into coordinates.
        compiled: False to run the loops as plain Python.

    >>> import tempfile
    >>> from giftrl.streams.names.features import Hashing
    >>> from giftrl.streams.sources.source import Source
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "a.npz")
    >>> np.savez(path, X=np.array([[0.0, 2.0], [3.0, 4.0]]), y=np.array([1.0, -1.0]))
    >>> with Stream(Source("a.npz", path)) as stream:
    ...     [batch] = NpzMatrix(Hashing(4)).read(stream)
    >>> batch.labels.tolist(), batch.indices.tolist(), batch.data.tolist(), batch.indptr.tolist()
    ([1.0, -1.0], [2, 1, 2], [2.0, 3.0, 4.0], [0, 1, 3])
    >>> folder.cleanup()
    """

    def __init__(self, features: Features, *, compiled: bool = True) -> None:
        self.features = features
        self.compiled = compiled
        self.fraction = 0.0  # of the rows that have been read

    def read(self, stream: Stream, start: Position | None = None) -> Iterator[Batch]:
        """The batches of an archive, from a row on."""
        start = start or Position()
        source, path = stream.source.name, stream.source.path
        if path is None or not stream.seekable:
            raise BadSource(source, "npz cannot be read from a pipe or from compressed data", "give the plain file")
        row = 0
        try:
            with contextlib.ExitStack() as opened:
                archive = opened.enter_context(zipfile.ZipFile(path))
                matrix = _Matrix(archive)
                labels = _beside(archive, path, LABELS, matrix.rows, opened)
                weights = _beside(archive, path, WEIGHTS, matrix.rows, opened)
                if start.offset > matrix.rows:
                    rule = f"ends at row {matrix.rows}, before row {start.offset}, where reading was to go on"
                    raise BadSource(source, rule, "give the file that was read before")
                for row, rows in matrix.pieces():
                    count = len(rows.indptr) - 1
                    y = labels.numbers(count).astype(np.float64) if labels else np.full(count, np.nan)
                    h = weights.numbers(count).astype(np.float64) if weights else np.ones(count)
                    self.fraction = (row + count) / matrix.rows
                    if row + count > start.offset:
                        yield self._batch(rows, y, h, row, max(0, start.offset - row), source, start.source)
        except (zipfile.BadZipFile, ValueError, EOFError, KeyError, OSError, zlib.error) as problem:
            if isinstance(problem, BadSource):
                raise
            said = str(problem.args[0]) if isinstance(problem, KeyError) else str(problem)
            raise BadSource(source, f"cannot be read ({said})", "write the file again", row + 1) from problem

    def _batch(
        self, rows: _Rows, y: NDArray[np.float64], h: NDArray[np.float64], row: int, skip: int, source: str, number: int
    ) -> Batch:
        count = len(y)
        columns, indptr = rows.columns, rows.indptr
        data = rows.data.copy()
        finite = np.isfinite(data)
        broken: dict[int, tuple[int, str, str]] = {}
        for at in np.flatnonzero(~finite).tolist():
            where = int(np.searchsorted(indptr, at, side="right")) - 1
            problem = f"a value that is not finite: {data[at]}"
            broken.setdefault(where, (int(columns[at]) + 1, problem, "a finite number"))
        for where in np.flatnonzero(~(np.isfinite(h) & (h >= 0.0))).tolist():
            broken.setdefault(where, (1, f"the weight {h[where]}", "a finite number, 0 or more"))
        for where in np.flatnonzero(np.isinf(y)).tolist():
            broken.setdefault(where, (1, f"the label {y[where]}", "a finite number"))
        slots, _ = self.features.number_slots((columns + 1).astype(np.uint64), data)
        merged = merge(data, slots, np.empty(0, np.uint8), indptr.copy(), compiled=self.compiled)
        for where in overflowed(merged[0], merged[3]).tolist():
            broken.setdefault(where, (1, "columns on one coordinate whose sum is too large", "a finite number"))
        batch = Batch(
            source=source,
            data=merged[0],
            indices=merged[1],
            indptr=merged[3],
            labels=y,
            weights=h,
            lines=np.arange(row + 1, row + count + 1),
            groups=np.empty(0, np.uint8),
            end=Position(number, row + count, row + count + 1),
        )
        keep = np.arange(count) >= skip
        keep[list(broken)] = False
        rejected = tuple(
            Rejected(source, row + where + 1, column, problem, expected, b"")
            for where, (column, problem, expected) in sorted(broken.items())
            if where >= skip
        )
        return replace(keep_rows(batch, keep), rejected=rejected)


class _Matrix:
    """The matrix of an archive, whichever way it is stored."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
        self._archive = archive
        dense = next((name for name in MATRICES if name in names), None)
        self.dense: _Array | None = None
        if dense is not None:
            self.dense = self._open(dense)
            if len(self.dense.shape) != 2:
                raise ValueError(f"{dense} has shape {self.dense.shape}, and must be a matrix")
            self.rows, self.columns = self.dense.shape
            return
        if not {"data", "shape"} <= names:
            raise ValueError(
                f"it holds {', '.join(sorted(names)) or 'nothing'}; expected X, or a sparse matrix of SciPy"
            )
        shape = self._open("shape").all()
        if shape.shape != (2,):
            raise ValueError(f"the sparse array has {shape.size} dimensions, and must be a matrix")
        self.rows, self.columns = int(shape[0]), int(shape[1])
        format_ = self._open("format", "SU").all().item() if "format" in names else b"csr"
        self.format = format_.decode() if isinstance(format_, bytes) else str(format_)
        if self.format != "csr":
            from scipy import sparse

            matrix: Any = sparse.load_npz(archive.filename).tocsr()  # which reads no objects either
            self._whole = (matrix.data, matrix.indices, matrix.indptr)

    def _open(self, name: str, kinds: str = "buif") -> _Array:
        return _Array(self._archive.open(f"{name}.npy"), name, kinds)

    def pieces(self) -> Iterator[tuple[int, _Rows]]:
        """The number of a row and the rows from there on, some at a time."""
        if self.dense is not None:
            yield from self._dense(self.dense)
        elif self.format == "csr":
            yield from self._sparse()
        else:
            data, indices, indptr = self._whole
            for row in range(0, self.rows, ROWS):
                bounds = indptr[row : row + ROWS + 1]
                part = slice(bounds[0], bounds[-1])
                yield row, self._rows(data[part], indices[part], bounds)

    def _dense(self, array: _Array) -> Iterator[tuple[int, _Rows]]:
        whole = array.all() if array.fortran else None
        step = max(1, min(ROWS, CELLS // max(1, self.columns)))
        for row in range(0, self.rows, step):
            count = min(step, self.rows - row)
            if whole is not None:
                block = whole[row : row + count]
            else:
                block = array.numbers(count * self.columns).reshape(count, self.columns)
            block = block.astype(np.float64)
            where, columns = np.nonzero(block)
            indptr = np.concatenate([[0], np.cumsum(np.bincount(where, minlength=count))]).astype(np.int64)
            yield row, _Rows(block[where, columns], columns, indptr)

    def _sparse(self) -> Iterator[tuple[int, _Rows]]:
        data, indices, bounds = self._open("data"), self._open("indices"), self._open("indptr")
        if bounds.size != self.rows + 1 or data.size != indices.size:
            raise ValueError("the parts of the sparse matrix do not fit each other")
        last = bounds.numbers(1).astype(np.int64)
        if last[0] != 0:
            raise ValueError("the parts of the sparse matrix do not fit each other")
        row = 0
        while row < self.rows:
            indptr = np.concatenate([last, bounds.numbers(min(ROWS, self.rows - row)).astype(np.int64)])
            if (np.diff(indptr) < 0).any() or indptr[-1] > data.size:
                raise ValueError("the parts of the sparse matrix do not fit each other")
            first = 0
            while first < len(indptr) - 1:
                # As many rows as have CELLS entries, but at least one.
                stop = int(np.searchsorted(indptr, indptr[first] + CELLS, side="right")) - 1
                stop = min(max(stop, first + 1), len(indptr) - 1)
                count = int(indptr[stop] - indptr[first])
                yield row + first, self._rows(data.numbers(count), indices.numbers(count), indptr[first : stop + 1])
                first = stop
            row += len(indptr) - 1
            last = indptr[-1:]

    def _rows(self, data: NDArray[Any], indices: NDArray[Any], bounds: NDArray[Any]) -> _Rows:
        columns = indices.astype(np.int64)
        if len(columns) and (columns.min() < 0 or columns.max() >= self.columns):
            raise ValueError(f"a column out of range, where there are {self.columns}")
        values = data.astype(np.float64)
        indptr = bounds.astype(np.int64) - np.int64(bounds[0])
        if (values == 0.0).any():
            kept = values != 0.0
            indptr = np.concatenate([[0], np.cumsum(kept)])[indptr].astype(np.int64)
            values, columns = values[kept], columns[kept]
        return _Rows(values, columns, indptr)


def _beside(
    archive: zipfile.ZipFile, path: Path, names: tuple[str, ...], rows: int, opened: contextlib.ExitStack
) -> _Array | None:
    """An array of the archive, or of a file beside it, with one number for each row."""
    inside = {name.removesuffix(".npy") for name in archive.namelist()}
    found = None
    for name in names:
        beside = path.with_name(f"{path.stem}.{name}.npy")
        if name in inside:
            found = _Array(archive.open(f"{name}.npy"), name)
        elif beside.exists():
            found = _Array(opened.enter_context(beside.open("rb")), beside.name)
        if found is not None:
            break
    if found is not None and found.shape not in ((rows,), (rows, 1), (1, rows)):
        raise ValueError(f"{found.name} has shape {found.shape}, where the matrix has {rows} rows")
    return found
