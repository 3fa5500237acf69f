"""A data set in memory: features and labels of a file, prepared for a loss, with a fingerprint of the numbers."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack

from giftrl import losses
from giftrl.compiled.rows import unit_rows
from giftrl.config.recipe import as_signs, takes_signs
from giftrl.errors import InvalidInput, require
from giftrl.streams.batch import listed
from giftrl.streams.first_labels import FirstLabels, first_labels
from giftrl.streams.names.features import Dictionary
from giftrl.streams.reader import Reader
from giftrl.training.settings import names_where_text

Array = NDArray[np.float64]

#: The preparations of features.
PREPARATIONS = {
    "auto": "standard if at least a tenth of the entries are not zero, unit otherwise",
    "standard": "columns to mean 0 and variance 1, rows to norm 1, a constant 1 appended, rows to norm 1 again",
    "unit": "rows to norm 1, a constant 1 appended, rows to norm 1 again; zeros stay zeros",
    "raw": "the numbers as they are, and a constant 1 appended",
}
#: The largest number of entries of a standardised matrix: 2 GiB.
MAX_DENSE_ENTRIES = 1 << 28
#: Names of features with more digits are hashes, and not numbers of columns.
MAX_COLUMN_DIGITS = 9


@dataclass(frozen=True)
class Data:
    """Examples that were prepared for a sweep.

    >>> data = Data("two rows", np.eye(2), np.array([1.0, -1.0]), "0" * 64, "raw")
    >>> data.rows, data.features
    (2, 2)
    """

    name: str
    x: Any  # a row for each example; dense or CSR
    y: Array  # the labels as the loss takes them
    fingerprint: str  # of the numbers before preparation
    preparation: str  # one of :data:`PREPARATIONS`

    @property
    def rows(self) -> int:
        """The number of examples."""
        return int(self.x.shape[0])

    @property
    def features(self) -> int:
        """The number of features, the constant included."""
        return int(self.x.shape[1])


def read_all(
    path: str | Path,
    format: str | None = None,  # noqa: A002
    named: bool = False,
) -> tuple[csr_array, NDArray[Any]]:
    """All features and labels of a file in any format of :class:`giftrl.streams.Reader`.

    If every name of a feature is a whole number from 1 on, as in LIBSVM text, its column is that number less 1;
    otherwise columns are in the order of first occurrence.

    Args:
        path: of the file, which may be compressed.
        format: libsvm, vw, csv, json, parquet, arrow or npz; None to detect it.
        named: accept text labels too.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "few.svm")
    ...     _ = file.write_text("1 3:0.5\\n-1 1:2 2:4\\n")
    ...     x, y = read_all(file)
    >>> x.toarray().tolist(), y.tolist()
    ([[0.0, 0.0, 0.5], [2.0, 4.0, 0.0]], [1.0, -1.0])
    """
    features = Dictionary()
    first = first_labels(path, format=format) if named else FirstLabels([], {})
    labels = names_where_text(first.labels)
    reader = Reader(
        path,
        features,
        format=format,
        constant=False,
        labels=labels,
        accepts=np.isfinite if labels is None else lambda codes: codes >= 0.0,
        expected="a number" if labels is None else listed(labels.names),
        no_base="sweeps have none",
        opened=first.opened,
    )
    batches = list(reader)
    require(reader.rows > 0, "path", str(path), "must have at least one example", "check the file")
    plain = all(bool((batch.weights == 1.0).all()) for batch in batches)
    require(plain, "path", str(path), "must have no weights: each example of a sweep counts once", "leave them out")
    columns = np.arange(-1, features.dimension - 1)  # column of each slot; slot 0 is the constant, which no row has
    names = [features.name(slot) or "" for slot in range(1, features.dimension)]
    if all(name.isascii() and name.isdigit() and name[0] != "0" and len(name) <= MAX_COLUMN_DIGITS for name in names):
        columns[1:] = [int(name) - 1 for name in names]
    width = max(1, int(columns.max(initial=0)) + 1)
    parts = [csr_array((b.data, columns[b.indices], b.indptr), shape=(len(b.labels), width)) for b in batches]
    y = np.concatenate([batch.labels for batch in batches])
    return vstack(parts, format="csr"), y if labels is None else np.array(labels.names)[y.astype(np.int64)]


def fingerprint(x: Any, y: NDArray[Any]) -> str:
    """SHA-256 of the numbers, which does not depend on their notation or on explicit zeros.

    >>> a = fingerprint(np.array([[0.0, 2.0]]), np.array([1.0]))
    >>> b = fingerprint(csr_array(([2.0, 0.0], [1, 0], [0, 2]), shape=(1, 9)), np.array([1.0]))
    >>> a == b, a[:8]
    (True, '0ab8bd36')
    """
    rows = csr_array(x, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    digest = hashlib.sha256()
    if np.asarray(y).dtype.kind == "U":
        names, y = np.unique(y, return_inverse=True)
        digest.update("\n".join(names.tolist()).encode())
    for part, kind in ((rows.indptr, "<i8"), (rows.indices, "<i8"), (rows.data, "<f8"), (np.asarray(y) + 0.0, "<f8")):
        digest.update(np.ascontiguousarray(part, dtype=kind).tobytes())
    return digest.hexdigest()


def signed(y: NDArray[Any], loss: Any, positive: float | str | None = None) -> Array:
    """The labels as a loss takes them: for a loss of -1 and +1, the higher of two labels becomes +1.

    Args:
        y: the labels of the data, numbers or text.
        loss: a member of :mod:`giftrl.losses` or its name.
        positive: the label that becomes +1, while all others become -1.

    >>> signed(np.array([1.0, 2.0, 1.0]), "hinge")
    array([-1.,  1., -1.])
    >>> signed(np.array([1.0, 2.0, 7.0]), "absolute")
    array([1., 2., 7.])
    """
    member = losses.BY_NAME.member(loss, "slope")
    text = y.dtype.kind == "U"
    if positive is not None:
        try:
            wanted = positive if text else float(positive)
        except ValueError:
            rule = "is not a number, as the labels of the data are"
            raise InvalidInput("positive", positive, rule, "give a label of the data") from None
        require(bool((y == wanted).any()), "positive", wanted, "must be a label of the data", "check the labels")
        return as_signs(y == wanted)
    remedy = "name the one that counts as +1 (--positive LABEL)"
    if not takes_signs(member, only=True):
        require(not text, "y", str(y[0]), "is not a number, as every label must be for this loss", remedy)
        return np.asarray(y, dtype=np.float64)
    labels = np.unique(y)
    rule = f"must have two values for {loss if isinstance(loss, str) else type(loss).__name__}, and there are"
    require(len(labels) <= 2, "y", labels[:5].tolist(), f"{rule} {len(labels)}", remedy)
    if len(labels) == 1 and labels[0] in (-1.0, 1.0):
        return np.asarray(y, dtype=np.float64)
    return as_signs(y == labels[-1])


def prepare(x: Any, how: str = "auto") -> tuple[Any, str]:
    """The prepared features, and the name of the preparation.

    >>> x, how = prepare(np.array([[3.0, 0.0], [1.0, 0.0]]), "standard")
    >>> how, x.round(4).tolist()
    ('standard', [[0.7071, 0.0, 0.7071], [-0.7071, 0.0, 0.7071]])
    """
    require(how in PREPARATIONS, "prepare", how, "must be a preparation", f"known: {', '.join(PREPARATIONS)}")
    rows = csr_array(x)
    entries = rows.shape[0] * rows.shape[1]
    if how == "auto":
        how = "standard" if entries <= MAX_DENSE_ENTRIES and rows.count_nonzero() * 10 >= entries else "unit"
    if how == "raw":
        return with_constant(rows), how
    if how == "standard":
        rule = f"would make all {entries} entries count"
        require(entries <= MAX_DENSE_ENTRIES, "prepare", how, rule, "use prepare='unit'")
    return unit_rows(with_constant(unit_rows(standard(rows.toarray()) if how == "standard" else rows))), how


def load(
    path: str | Path, loss: Any, how: str = "auto", positive: float | str | None = None, name: str | None = None,
    format: str | None = None,  # noqa: A002
) -> Data:  # fmt: skip
    """A data set of a file (see :func:`read_all`), prepared (see :func:`prepare`), with labels for the loss.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.svm")
    ...     _ = path.write_text("1 1:1\\n-1 1:3\\n")
    ...     data = load(path, "hinge", "raw")
    >>> data.name, data.y.tolist()
    ('rows.svm', [1.0, -1.0])
    """
    x, y = read_all(path, format, named=True)
    prepared, applied = prepare(x, how)
    file = Path(path)
    name = name or (file.stem if file.suffix in (".gz", ".bz2", ".xz", ".zst") else file.name)
    return Data(name, prepared, signed(y, loss, positive), fingerprint(x, y), applied)


def standard(x: Array) -> Array:
    """Standardise columns to mean 0 and variance 1."""
    spread = x.std(axis=0)
    # A constant column carries no more than the appended 1, and becomes 0.
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0.0, spread, np.inf))


def with_constant(x: Any) -> Any:
    """Append a column of ones."""
    ones = np.ones((x.shape[0], 1))
    return np.hstack([x, ones]) if isinstance(x, np.ndarray) else hstack([x, csr_array(ones)], format="csr")
