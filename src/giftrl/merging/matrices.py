"""Rows as matrices."""

from typing import Any

from scipy import sparse

from giftrl.compiled.rows import Dense, Rows


def as_matrix(rows: Rows, n: int, dimension: int) -> Any:
    """Rows as a sparse matrix."""
    if isinstance(rows, Dense):
        return sparse.csr_array(rows.data.reshape(n, rows.dimension))
    first, last = rows.indptr[0], rows.indptr[n]
    return sparse.csr_array(
        (rows.data[first:last], rows.indices[first:last], rows.indptr[: n + 1] - first), shape=(n, dimension)
    )
