"""A data set held in memory: reading, labels, preparation, and a fingerprint of what the numbers are."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from giftrl import losses
from giftrl.config.class_labels import as_signs, takes_signs
from giftrl.errors import InvalidInput, require
from giftrl.kernels.prepare import unit_rows
from giftrl.streams.first_labels import FirstLabels, first_labels
from giftrl.streams.label_names import listed
from giftrl.streams.names.features import Dictionary
from giftrl.streams.reader import Reader
from giftrl.training.choose_loss import names_where_text

Array = NDArray[np.float64]

#: What can be done to the features before learning, and what it means.
PREPARATIONS = {
    "auto": "standard where at least a tenth of the entries are not zero, unit otherwise",
    "standard": "columns to mean 0 and variance 1, rows to norm 1, a constant 1 appended, rows to norm 1 again",
    "unit": "rows to norm 1, a constant 1 appended, rows to norm 1 again; zeros stay zeros",
    "raw": "the numbers as they are, and a constant 1 appended",
}

#: Standardising makes every entry count; more of them than this do not fit comfortably in memory (2 GiB).
MOST_ENTRIES = 1 << 28

#: Endings of compressed files, which tables and figures leave out.
PACKED = (".gz", ".bz2", ".xz", ".zst")

#: Larger numbers than those of so many digits, such as hashes, are names and not columns.
MOST_DIGITS = 9


@dataclass(frozen=True)
class Data:
    """Examples ready to learn from.

    Attributes:
        name: what tables and figures call it.
        x: one example a row; dense or CSR.
        y: the labels, as the loss wants them.
        fingerprint: of the numbers as they were read, before preparation.
        preparation: which of :data:`PREPARATIONS` was applied.

    >>> data = Data("two rows", np.eye(2), np.array([1.0, -1.0]), "0" * 64, "raw")
    >>> data.rows, data.features
    (2, 2)
    """

    name: str
    x: Any
    y: Array
    fingerprint: str
    preparation: str

    @property
    def rows(self) -> int:
        """How many examples there are."""
        return int(self.x.shape[0])

    @property
    def features(self) -> int:
        """How many features an example has, the constant included."""
        return int(self.x.shape[1])


def read_all(
    path: str | Path,
    format: str | None = None,  # noqa: A002
    named: bool = False,
) -> tuple[csr_array, NDArray[Any]]:
    """All examples of a file, in any format that :class:`giftrl.streams.Reader` reads: features and labels.

    Labels are numbers, or text.

    Where every feature is named by a whole number from 1 on, as in LIBSVM text, its column is that number less 1;
    elsewhere columns are in the order of first sight.

    Args:
        path: of the file, which may be compressed.
        format: libsvm, vw, csv, json, parquet, arrow or npz; found if not given.
        named: whether labels may be text.

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
    columns = _columns(features)
    indices = columns[np.concatenate([batch.indices for batch in batches])]
    counts = np.concatenate([np.diff(batch.indptr) for batch in batches])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    shape = reader.rows, max(1, int(columns.max(initial=0)) + 1)
    x = csr_array((np.concatenate([batch.data for batch in batches]), indices, indptr), shape=shape)
    y = np.concatenate([batch.labels for batch in batches])
    return x, y if labels is None else np.array(labels.names)[y.astype(np.int64)]


def _columns(features: Dictionary) -> NDArray[np.int64]:
    """The column of each coordinate."""
    slots = np.arange(-1, features.dimension - 1)  # slot 0 is the constant, which no row has
    names = [features.name(slot) or "" for slot in range(1, features.dimension)]
    if all(name.isascii() and name.isdigit() and name[0] != "0" and len(name) <= MOST_DIGITS for name in names):
        slots[1:] = [int(name) - 1 for name in names]
    return slots


def fingerprint(x: Any, y: NDArray[Any]) -> str:
    """SHA-256 of what the numbers are, not of how they are written: spacing, ``1`` or ``1.0``, and zeros do not count.

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
    """Labels as the loss wants them: for a loss of -1 and +1, the higher of two values becomes +1.

    Args:
        y: the labels as they were read.
        loss: a member of :mod:`giftrl.losses` or its name.
        positive: the label that becomes +1 while all others become -1.

    >>> signed(np.array([1.0, 2.0, 1.0]), "hinge")
    array([-1.,  1., -1.])
    >>> signed(np.array([1.0, 2.0, 7.0]), "absolute")
    array([1., 2., 7.])
    """
    member = losses.BY_NAME.member(loss, "slope")
    text = y.dtype.kind == "U"
    if positive is not None:
        positive = positive if text else as_number(positive)
        require(bool((y == positive).any()), "positive", positive, "must be a label of the data", "check the labels")
        return as_signs(y == positive)
    if not takes_signs(member, only=True):
        rule = "is not a number, as every label must be for this loss"
        require(not text, "y", str(y[0]), rule, "name the one that counts as +1 (--positive LABEL)")
        return np.asarray(y, dtype=np.float64)
    labels = np.unique(y)
    if len(labels) > 2:
        name = loss if isinstance(loss, str) else type(loss).__name__
        rule = f"must have two values for {name}, and there are {len(labels)}"
        raise InvalidInput("y", labels[:5].tolist(), rule, "name the one that counts as +1 (--positive LABEL)")
    if len(labels) == 1 and labels[0] in (-1.0, 1.0):
        return np.asarray(y, dtype=np.float64)
    return as_signs(y == labels[-1])


def as_number(label: float | str) -> float:
    """A label that must be a number."""
    try:
        return float(label)
    except ValueError:
        rule = "is not a number, as the labels of the data are"
        raise InvalidInput("positive", label, rule, "give a label of the data") from None


def prepare(x: Any, how: str = "auto") -> tuple[Any, str]:
    """The features as they are learnt from, and which preparation that was.

    >>> x, how = prepare(np.array([[3.0, 0.0], [1.0, 0.0]]), "standard")
    >>> how, x.round(4).tolist()
    ('standard', [[0.7071, 0.0, 0.7071], [-0.7071, 0.0, 0.7071]])
    """
    known = ", ".join(PREPARATIONS)
    require(how in PREPARATIONS, "prepare", how, "must be a preparation", f"known: {known}")
    rows = csr_array(x)
    entries = rows.shape[0] * rows.shape[1]
    if how == "auto":
        how = "standard" if entries <= MOST_ENTRIES and rows.count_nonzero() * 10 >= entries else "unit"
    if how == "standard":
        rule = f"would make all {entries} entries count"
        require(entries <= MOST_ENTRIES, "prepare", how, rule, "use prepare='unit'")
        return unit_rows(with_constant(unit_rows(standard(rows.toarray())))), how
    if how == "unit":
        return unit_rows(with_constant(unit_rows(rows))), how
    return with_constant(rows), how


def load(
    path: str | Path, loss: Any, how: str = "auto", positive: float | str | None = None, name: str | None = None,
    format: str | None = None,  # noqa: A002
) -> Data:  # fmt: skip
    """A data set from a file (see :func:`read_all`), prepared, with labels for the loss.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "rows.svm")
    >>> _ = path.write_text("1 1:1\\n-1 1:3\\n")
    >>> data = load(path, "hinge", "raw")
    >>> data.name, data.y.tolist()
    ('rows.svm', [1.0, -1.0])
    >>> folder.cleanup()
    """
    x, y = read_all(path, format, named=True)
    prepared, applied = prepare(x, how)
    file = Path(path)
    name = name or (file.stem if file.suffix in PACKED else file.name)
    return Data(name, prepared, signed(y, loss, positive), fingerprint(x, y), applied)


def standard(x: Array) -> Array:
    """Columns to mean 0 and variance 1."""
    spread = x.std(axis=0)
    # A constant column says nothing that the appended 1 does not; it becomes 0.
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0.0, spread, np.inf))


def with_constant(x: Any) -> Any:
    """A column of ones appended."""
    ones = np.ones((x.shape[0], 1))
    return np.hstack([x, ones]) if isinstance(x, np.ndarray) else hstack([x, csr_array(ones)], format="csr")
