"""How numbers of several workers that began from the same state become one."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def added(base: ArrayLike, *workers: ArrayLike) -> Any:
    """What was there before, and what each worker has added; infinite where one of them is.

    >>> float(added(1.0, 3.0, 6.0))
    8.0
    """
    start = np.asarray(base, np.float64)
    total = start.copy()
    with np.errstate(invalid="ignore", over="ignore"):
        for worker in workers:
            total = total + np.where(np.isfinite(start), np.asarray(worker) - start, 0.0)
    return total[()]


def mean(values: list[Any], weights: list[Any]) -> Any:
    """The mean of all rows, from the means of the rows until now: of the state before and of each worker.

    The first value and weight are those of the state before; a worker's are of its rows and those before.

    >>> float(mean([1.0, 2.0, 4.0], [1.0, 2.0, 2.0]))  # rows 1, 3 and 7
    3.6666666666666665
    """
    before = np.asarray(values[0]) * weights[0]
    total = before + sum(
        np.asarray(value) * weight - before for value, weight in zip(values[1:], weights[1:], strict=True)
    )
    weight = weights[0] + sum(each - weights[0] for each in weights[1:])
    return (total / weight if weight > 0.0 else np.asarray(values[0], np.float64))[()]
