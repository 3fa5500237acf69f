"""giftrl in River against River's own logistic regression, in rows a second on rows like those of RCV1.

    python -m benchmarks.river_rows [rows]

All learners learn from the same rows in one process and take turns. The output is the median, over repetitions, of the
ratio of the times in a repetition. River's own model gets dictionaries, because its ``learn_many`` makes every batch
dense.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.rcv1_like import rcv1_like

__all__ = ["measure"]

BATCH = 5_000


def _clock(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def measure(rows: int = 20_000, features: int = 47_236, repetitions: int = 5) -> dict[str, float]:
    """The time of River's ``learn_one`` divided by the time of each way to learn.

    >>> sorted(measure(rows=50, features=100, repetitions=1))
    ['giftrl learn_many, dictionaries', 'giftrl learn_many, sparse matrix', 'giftrl learn_one', 'river learn_one']
    """
    from river import linear_model, optim

    from giftrl.adapters.river import FTRLClassifier

    x, y = rcv1_like(rows, features)
    bounds = zip(x.indptr[:-1].tolist(), x.indptr[1:].tolist(), strict=True)
    indices, values = x.indices.tolist(), x.data.tolist()
    dictionaries = [dict(zip(indices[a:b], values[a:b], strict=True)) for a, b in bounds]
    labels = (y > 0.0).tolist()
    slices = [slice(begin, begin + BATCH) for begin in range(0, rows, BATCH)]

    def one_by_one(model: Any) -> None:
        for row, label in zip(dictionaries, labels, strict=True):
            model.learn_one(row, label)

    def many(model: Any, batches: Any) -> None:
        for part in slices:
            model.learn_many(batches[part], labels[part])

    ways = {
        "river learn_one": lambda: one_by_one(linear_model.LogisticRegression(optim.SGD(0.1))),
        "giftrl learn_one": lambda: one_by_one(FTRLClassifier(beta=1.0)),
        "giftrl learn_many, dictionaries": lambda: many(FTRLClassifier(beta=1.0), dictionaries),
        "giftrl learn_many, sparse matrix": lambda: many(FTRLClassifier(beta=1.0), x),
    }
    for run in ways.values():
        run()  # compile before the clock starts
    seconds = [{name: _clock(run) for name, run in ways.items()} for _ in range(repetitions)]
    return {name: statistics.median(s["river learn_one"] / s[name] for s in seconds) for name in ways}


if __name__ == "__main__":
    for name, ratio in measure(*(int(argument) for argument in sys.argv[1:2])).items():
        print(f"{name:35s} {ratio:6.2f} x River's learn_one")
