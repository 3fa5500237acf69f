"""The loops that keep rows within a budget, or have them committed.

Rows are kept within a budget of nonzeros. Beyond it each row has a key log(U) / (h phi''), with U a random number from
(0, 1), and those with the largest keys are kept: a random sample in which a row's chance grows with its curvature
(Efraimidis and Spirakis 2006). U is a function of the number of the row, so that there is nothing else to remember.
"""

import math
from typing import Any

import numpy as np

from giftrl.certificates.steering import commit, curvature
from giftrl.certificates.store import (
    BUDGET,
    COST,
    KEPT,
    MISSING,
    NEXT,
    PLACE,
    RECORD,
    ROOM,
    ROWS,
    THRESHOLD,
)
from giftrl.compiled.rows import begin, column, end
from giftrl.ops import formula

#: The key of a row without curvature: below all others, and above the threshold while every row is kept.
LAST = -1e308
MASK = 0xFFFFFFFF


@formula
def chance(number: int) -> float:
    """U in (0, 1) for the row of a number: a hash of its bits.

    >>> [round(chance(n), 3) for n in range(4)]
    [0.443, 0.069, 0.049, 0.765]
    """
    x = (number & MASK) ^ ((number >> 32) * 0x7FEB352D & MASK)
    for _ in range(2):
        x = (x + 0x1E3779B9) & MASK
        x = ((x ^ (x >> 16)) * 0x7FEB352D) & MASK
        x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & MASK
        x = x ^ (x >> 16)
    return (x + 0.5) / 4294967296.0


@formula
def count_entries(rows: Any, i: int) -> int:
    """How many entries of row i are not 0."""
    count = 0
    for k in range(begin(rows, i), end(rows, i)):
        count += 1 if rows.data[k] != 0.0 else 0
    return count


@formula
def put(store: Any, given: Any, i: int, y: Any, h: float) -> int:
    """Keep row i; return how many entries it has."""
    at = int(store.sums[KEPT])
    first = store.ends[at]
    place = first
    for k in range(begin(given.rows, i), end(given.rows, i)):
        s = np.float64(given.rows.data[k])
        if s != 0.0:
            store.data[place], store.indices[place] = s, column(given.rows, i, k)
            place += 1
    store.ends[at + 1], store.labels[at], store.weights[at] = place, y, h
    for m in range(store.scores.shape[1]):
        store.scores[at, m] = given.scores[i, m]
    return int(place - first)


@formula
def key_of(number: int, bent: float) -> float:
    """The key of a row by its number and its weight times curvature."""
    return max(LAST, math.log(chance(number)) / bent) if bent > 0.0 else LAST


@formula
def remember(kind: Any, loss: Any, store: Any, given: Any, first: int) -> None:
    """Keep or commit rows from ``first`` on, as far as nothing is missing; ``sums`` then say what, and where to go on.

    As long as every row is kept, none needs a key. (A call without a result takes half the time of one with a result.)
    """
    sums, every = store.sums, store.sums[THRESHOLD] == -math.inf
    sums[MISSING], sums[NEXT] = 0.0, 0.0
    for i in range(first, len(given.labels)):
        h = given.weights[i] if len(given.weights) > 0 else 1.0
        if not h > 0.0:
            continue
        y, at, bent, key = given.labels[i], int(sums[KEPT]), 0.0, 0.0
        stays = not (len(given.bases) > 0 and given.bases[i] != 0.0)  # a row with a base is never kept
        if stays and not every:
            bent = curvature(kind, loss, store, given, i, y)
            key = key_of(int(sums[ROWS]), h * bent)
            stays = key > sums[THRESHOLD]
        if stays:
            size = end(given.rows, i) - begin(given.rows, i)
            if sums[COST] + size + kind.cost > sums[BUDGET] or store.ends[at] + size > len(store.data):
                size = count_entries(given.rows, i)  # zeros do not count; mostly there are none
            stays = size + kind.cost <= sums[BUDGET]
            if stays and sums[COST] + size + kind.cost > sums[BUDGET]:
                sums[MISSING], sums[NEXT] = PLACE, i
                return
            if stays and (store.ends[at] + size > len(store.data) or at == len(store.labels)):
                sums[MISSING], sums[NEXT] = ROOM, i
                return
        if stays:
            size = put(store, given, i, y, h)
            if not every:
                store.keys[at] = key
            sums[KEPT] += 1.0
            sums[COST] += size + kind.cost
        else:
            if len(store.record) == 0:
                sums[MISSING], sums[NEXT] = RECORD, i
                return
            commit(kind, loss, store, given, i, y, h, curvature(kind, loss, store, given, i, y))
        sums[ROWS] += 1.0


@formula
def give_keys(kind: Any, loss: Any, store: Any, own: Any, count: int) -> None:
    """Give the rows of the store their keys."""
    for i in range(count):
        bent = own.weights[i] * curvature(kind, loss, store, own, i, own.labels[i])
        store.keys[i] = key_of(i, bent)


@formula
def drop(kind: Any, loss: Any, store: Any, own: Any, stay: Any) -> None:
    """Commit rows of the store that do not stay, and move the others together; ``own`` are the rows as they were."""
    for i in range(len(stay)):
        if not stay[i]:
            y = own.labels[i]
            commit(kind, loss, store, own, i, y, own.weights[i], curvature(kind, loss, store, own, i, y))
    at, place = 0, 0
    for i in range(len(stay)):
        if stay[i]:
            for k in range(own.rows.indptr[i], own.rows.indptr[i + 1]):
                store.data[place], store.indices[place] = store.data[k], store.indices[k]
                place += 1
            store.labels[at], store.weights[at], store.keys[at] = store.labels[i], store.weights[i], store.keys[i]
            for m in range(store.scores.shape[1]):
                store.scores[at, m] = store.scores[i, m]
            at += 1
            store.ends[at] = place
    store.sums[KEPT], store.sums[COST] = at, place + at * kind.cost
