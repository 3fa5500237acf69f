"""The last step of a stream: rows of a batch get the norm and the constant feature that were asked for."""

from dataclasses import replace

import numpy as np

from giftrl.compiled.compiler import ready
from giftrl.kernels.prepare import prepare_rows
from giftrl.streams.batch import Batch

#: What can be done to the length of rows: nothing; the Euclidean norm of each becomes 1 before the constant is added;
#: or before, and once more after.
NORMALIZATIONS = ("none", "unit", "unit_after")


def prepare(batch: Batch, normalize: str = "none", constant: int | None = None, *, compiled: bool = True) -> Batch:
    """A batch whose rows have the length that was asked for and, as their last feature, the constant 1.

    ``constant`` is the coordinate of the constant, which is in no row yet; None to add none.
    """
    batch = replace(batch, groups=np.empty(0, np.uint8))
    if normalize == "none" and constant is None:
        return batch
    more = 0 if constant is None else len(batch)
    data, indices = np.empty(len(batch.data) + more), np.empty(len(batch.data) + more, np.int32)
    ready(prepare_rows, compiled)(
        batch.data, batch.indices, batch.indptr, normalize != "none", normalize == "unit_after",
        -1 if constant is None else int(constant), data, indices,
    )  # fmt: skip
    indptr = batch.indptr if constant is None else batch.indptr + np.arange(len(batch) + 1)
    return replace(batch, data=data, indices=indices, indptr=indptr)
