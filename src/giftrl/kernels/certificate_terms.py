"""What rounds add to the sums of the certificate, eight rounds at a time.

No round waits for these sums. They take a few exponentials and logarithms a round, which a loop over several rounds
computes side by side. A page that is not full is settled as a whole, too, filled with its first round: so the numbers
of a round do not depend on how rows are batched.
"""

from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Dense, Rows
from giftrl.kernels.dense_simd import padded
from giftrl.kernels.scalar_round import Decided, Parts, Scalars, compared, with_sums
from giftrl.ops.line import Affine
from giftrl.ops.loss import conjugate, slope, value
from giftrl.updates.contract import minimises

__all__ = ["PAGE", "enter", "new_page", "settle"]

#: How many rounds are settled together.
PAGE = 8
KINDS = np.uint64(10)
# Where the numbers of one kind begin in a page: the label, the weight, the prediction, p and c of the line, the choice,
# phi* of it; and what is computed. A page is one array and these are constants, so that a compiler can see that they
# do not overlap.
LABEL, WEIGHT, P, START, STEP, CHOICE, CONJUGATE, SLOPE, LOSS, DELTA, SIZE = (np.uint64(PAGE * k) for k in range(11))


def new_page() -> Any:
    """An empty page."""
    return np.zeros(int(SIZE))


@formula(fast=True)
def enter(page: Any, k: Any, y: float, h: float, p: float, line: Affine, decided: Decided) -> None:
    """Write down a round."""
    k = np.uint64(k)
    page[LABEL + k], page[WEIGHT + k], page[P + k] = y, h, p
    page[START + k], page[STEP + k] = line.p, line.c
    page[CHOICE + k], page[CONJUGATE + k] = decided.b, decided.phi_star


@formula(fast=True)
def settle(parts: Parts, page: Any, count: int, now: Scalars) -> Scalars:
    """Add the first ``count`` rounds of a page to the sums of the certificate."""
    if count == 0:
        return now
    for free in range(np.uint64(count), np.uint64(PAGE)):
        k = np.uint64(free)
        page[LABEL + k], page[P + k], page[START + k] = page[LABEL], page[P], page[START]
        page[STEP + k], page[CHOICE + k], page[CONJUGATE + k] = page[STEP], page[CHOICE], page[CONJUGATE]
    loss, known, page_size = parts.loss, True, np.uint64(len(page)) // KINDS
    for each in range(page_size):
        k = np.uint64(each)
        page[SLOPE + k] = slope(loss, page[P + k], page[LABEL + k])
        page[LOSS + k] = value(loss, page[P + k], page[LABEL + k])
        known &= page[SLOPE + k] == page[CHOICE + k]
    if not (known or minimises(parts.update)):
        for each in range(page_size):
            k = np.uint64(each)
            page[CONJUGATE + k] = conjugate(loss, page[CHOICE + k], page[LABEL + k])
    for each in range(page_size):
        k = np.uint64(each)
        line = Affine(page[START + k], page[STEP + k])
        page[CONJUGATE + k], page[DELTA + k] = compared(
            line, page[P + k], page[LOSS + k], page[SLOPE + k], page[CHOICE + k], page[CONJUGATE + k]
        )
    return added(page, count, now)


@formula  # in the order of the rounds, whatever page they are on
def added(page: Any, count: int, now: Scalars) -> Scalars:
    """The scalars with the first ``count`` rounds of a page."""
    loss, star, delta = now.loss, now.conjugate, now.delta
    for each in range(np.uint64(count)):
        k = np.uint64(each)
        h = page[WEIGHT + k]
        if h > 0.0:
            loss += h * page[LOSS + k]
            star += h * page[CONJUGATE + k]
            delta += h * page[DELTA + k]
    return with_sums(now, loss, star, delta)


# The memory in which loops for one model work. A loop that makes no arrays need not count references to them.


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
