"""Strong and weak scaling: two workers as measured, and more by a model of what a run costs.

Strong scaling has the same rows for any number of workers, and tells how many times faster they are. Weak scaling has
the same rows for each worker, and tells which part of a worker's speed is left.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.table import Grid
from giftrl.merging.schedule import first_rows, next_round

#: The numbers of workers and rows of the model.
MODELLED = (2, 4, 16, 64)
ROWS = (10**6, 10**7, 10**8, 10**9)
EACH = (10**5, 10**6, 10**7, 10**8)
#: A cluster, as its model has it: how fast the frequency of features falls with their rank, nonzeros of a row, rows
#: that a worker reads and learns in a second, bytes of the state of a feature with its certificate, and bytes a second
#: of the network of the driver, through which all states go.
FALL, NONZEROS, RATE, BYTES, NETWORK = 1.1, 30, 333_000, 168, 1.25e9


class Scaled(NamedTuple):
    """The seconds of one worker over rows, over half of them, and of two workers over all of them."""

    name: str
    rows: int
    alone: float
    half: float
    together: float


class Cost(NamedTuple):
    """The seconds of learning a row, and of a merge of two workers; and how many features there are."""

    a_row: float
    a_merge: float
    features: int


def modelled(rows: int, workers: int, cost: Cost) -> float:
    """The seconds of a run: rows of a round side by side, windows and merges one after the other.

    The time of a merge grows with the states that are merged, one more than there are workers.

    >>> modelled(10**6, 1, Cost(1e-6, 1.0, 10))
    1.0
    """
    a_row, a_merge, features = cost
    if workers == 1:
        return rows * a_row
    done = min(rows, first_rows(workers, features))
    total = done * a_row
    while done < rows:
        parted, window = next_round(done, workers, features)
        part = min(1.0, (rows - done) / (parted + window))  # the last round may be shorter
        total += part * (parted / workers + window) * a_row + a_merge * (workers + 1) / 3.0
        done += parted + window
    return total


def measured_table(scaled: Sequence[Scaled]) -> Grid:
    """Two workers, as measured."""
    head = ["", "rows", "strong: speed over one worker", "rows for each worker", "weak: part of its speed"]
    rows = [
        [
            each.name, f"{each.rows:,}", f"{each.alone / each.together:.2f}", f"{each.rows // 2:,}",
            f"{each.half / each.together:.2f}",
        ]
        for each in scaled
    ]  # fmt: skip
    return Grid("Measured: strong and weak scaling, W = 2", head, rows)


def strong_table(cost: Cost) -> Grid:
    """How many times faster many workers are, by the model."""
    lines = [
        [
            f"{rows:,}",
            *(f"{modelled(rows, 1, cost) / modelled(rows, w, cost):.1f}" for w in MODELLED),
        ]
        for rows in ROWS
    ]
    title = "By a model, not measured: strong scaling, speed over one worker, rows like rcv1 in memory, a core for each"
    return Grid(title, ["rows", *(f"W = {w}" for w in MODELLED)], lines)


def weak_table(cost: Cost) -> Grid:
    """Which part of the speed of a worker is left where each has so many rows, by the model."""
    lines = [
        [f"{each:,}", *(f"{each * cost.a_row / modelled(each * w, w, cost):.2f}" for w in MODELLED)] for each in EACH
    ]
    title = "By a model, not measured: weak scaling, part of a worker's speed that is left, the same rows"
    return Grid(title, ["rows for each worker", *(f"W = {w}" for w in MODELLED)], lines)


def different(entries: float, features: int) -> float:
    """How many different features so many nonzeros have, on average, where frequencies fall with the rank.

    >>> round(different(1.0, 1 << 24), 6), 1e5 < different(1e6, 1 << 24) < 1e6, round(different(1e12, 1 << 18))
    (1.0, True, 262144)
    """
    edges = np.unique(np.geomspace(1, features + 1, 4000).astype(np.int64))  # ranks of about the same frequency
    counts = np.diff(edges)
    chances = np.sqrt(edges[:-1] * (edges[1:] - 1.0)) ** -FALL
    chances /= counts @ chances
    return float(counts @ -np.expm1(entries * np.log1p(-chances)))


def on_cluster(rows: int, workers: int, features: int, a_feature: float) -> tuple[float, float]:
    """The seconds of a run on a cluster, and the bytes through the network of the driver.

    Args:
        rows: of all workers.
        workers: how many.
        features: how many there are.
        a_feature: the seconds in which the driver merges the state of a worker at one feature.
    """
    done, total, moved = 0, 0.0, 0.0
    while done < rows:
        known = int(different(done * NONZEROS, features))
        alone = min(rows, first_rows(workers, known)) - done
        if alone > 0:  # by one worker, whose state goes to the driver and back
            alone = min(alone, max(first_rows(workers), done))
            met = 2.0 * different(alone * NONZEROS, features)
            total += alone / RATE + met * BYTES / NETWORK
            moved += met * BYTES
            done += alone
            continue
        parted, window = next_round(done, workers, known)
        part = min(1.0, (rows - done) / (parted + window))
        sent = workers * different(part * parted / workers * NONZEROS, features)
        back = workers * different(part * (parted + window) * NONZEROS, features)
        total += part * (parted / workers + window) / RATE + (sent + back) * BYTES / NETWORK + sent * a_feature
        moved += (sent + back) * BYTES
        done += parted + window
    return total, moved


def cluster_table(a_feature: float) -> Grid:
    """What many machines gain, by the model."""
    lines = []
    for bits in (18, 24):
        for rows in (10**8, 10**9, 10**10):
            found = [on_cluster(rows, w, 1 << bits, a_feature) for w in (4, 16, 64)]
            speeds = (f"{rows / RATE / time:.1f} ({moved / 1e12:.2f} TB)" for time, moved in found)
            lines.append([f"2^{bits}", f"{rows:,}", *speeds])
    title = "By a model, not measured: a cluster, speed over one worker (and what is moved)"
    return Grid(title, ["features", "rows", "W = 4", "W = 16", "W = 64"], lines)
