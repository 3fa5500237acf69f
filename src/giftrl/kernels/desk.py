"""The memory in which loops for one model work. A loop that makes no arrays need not count references to them."""

from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.rows import Dense, Rows
from giftrl.kernels.eights import padded
from giftrl.kernels.ledger import new_page


class Desk(NamedTuple):
    """Arrays that are written anew in every call."""

    page: Any  # rounds whose sums are still to be made
    copy: Any  # the coordinates, for dense rows
    steps: Any  # s_j/L_j of one row
    mask: Any  # 1 where a number of the last block of a dense row counts
    eight: Any  # eight numbers to be added


def new_desk(rows: Rows, dimension: int, dtype: Any) -> Desk:
    """A desk for rows like these."""
    dense = isinstance(rows, Dense)
    length = padded(dimension if dense else rows.longest())
    mask = np.ones((1, 8), rows.data.dtype)
    mask[0, : length - dimension if dense else 0] = 0.0
    copy = np.zeros((3, length if dense else 0), dtype)
    return Desk(new_page(), copy, np.zeros((1, length), dtype), mask, np.zeros((1, 8)))
