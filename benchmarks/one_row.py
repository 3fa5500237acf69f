"""One row a call: what learning from a single row, and predicting it, takes in each library.

    python -m benchmarks.one_row --out docs/performance.md

Rows have 20 features, or 20 of 1,000 where they are sparse. The SGDClassifier is that of scikit-learn with the logistic
loss; River's learner is its StandardScaler before its LogisticRegression; ours are at their defaults. Every way makes
some hundreds of calls at a time, on rows that it has not seen; the ways take turns, and the results are medians over
the turns. All models have learnt from some rows before, so that nothing is compiled while the clock runs.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.table import Grid, parse, publish, replaced, wide_console

FEATURES = 20
CALLS = 300
REPETITIONS = 15
NAMES = [f"feature {j}" for j in range(FEATURES)]
WIDE = 1000  # the features of sparse rows, of which 20 are not zero
WARM_UP = 100  # rows that are learnt before the clock runs

#: Our ways, and the rivals' ways to compare them with.
AGAINST = {
    "FTRLClassifier.partial_fit, dense": "SGDClassifier.partial_fit, dense",
    "FTRLClassifier.partial_fit, sparse": "SGDClassifier.partial_fit, sparse",
    "FTRLClassifier.predict_proba, dense": "SGDClassifier.predict_proba, dense",
    "giftrl in River, learn_one": "River, learn_one",
    "giftrl in River, predict_proba_one": "River, predict_proba_one",
}


class Way(NamedTuple):
    """A call for one row and its label, with its rows."""

    call: Callable[[Any, Any], Any]
    rows: Sequence[Any]
    labels: Sequence[Any]

    def seconds(self, begin: int, end: int) -> float:
        """The mean time of a call on these rows, in seconds."""
        call, pairs = self.call, list(zip(self.rows[begin:end], self.labels[begin:end], strict=True))
        begun = time.perf_counter()
        for row, label in pairs:
            call(row, label)
        return (time.perf_counter() - begun) / len(pairs)


def ways(rows: int) -> dict[str, Way]:
    """Every way to learn or predict one row, by name, ready for that many rows."""
    from river import linear_model, preprocessing
    from sklearn.linear_model import SGDClassifier

    from giftrl import FTRLClassifier
    from giftrl.adapters import river
    from giftrl.mixtures import MixtureLearner

    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, FEATURES))
    y = x[:, 0] + rng.normal(size=rows) > 0.0
    places = np.array([rng.choice(WIDE, FEATURES, replace=False) for _ in range(rows)], np.int32)
    begins = np.arange(0, x.size + 1, FEATURES, dtype=np.int32)
    wide = sparse.csr_array((x.ravel(), np.sort(places).ravel(), begins), shape=(rows, WIDE))
    dense, few = list(_one_by_one(x)), list(_one_by_one(wide))
    named = [dict(zip(NAMES, row, strict=True)) for row in x.tolist()]
    signs, labels, truths = list(_one_by_one(np.where(y, 1.0, -1.0))), list(_one_by_one(y)), y.tolist()

    ours, theirs = FTRLClassifier(), SGDClassifier(loss="log_loss")
    ours_few, theirs_few = FTRLClassifier(), SGDClassifier(loss="log_loss")
    for model, matrix in ((ours, x), (theirs, x), (ours_few, wide), (theirs_few, wide)):
        model.partial_fit(matrix[:WARM_UP], y[:WARM_UP], classes=[False, True])
    in_river: Any = river.FTRLClassifier()
    of_river: Any = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    return {
        "SGDClassifier.partial_fit, dense": Way(theirs.partial_fit, dense, labels),
        "MixtureLearner.learn, dense": Way(MixtureLearner(FEATURES).learn, dense, signs),
        "FTRLClassifier.partial_fit, dense": Way(ours.partial_fit, dense, labels),
        "SGDClassifier.partial_fit, sparse": Way(theirs_few.partial_fit, few, labels),
        "MixtureLearner.learn, sparse": Way(MixtureLearner(WIDE).learn, few, signs),
        "FTRLClassifier.partial_fit, sparse": Way(ours_few.partial_fit, few, labels),
        "SGDClassifier.predict_proba, dense": Way(lambda row, _: theirs.predict_proba(row), dense, labels),
        "FTRLClassifier.predict_proba, dense": Way(lambda row, _: ours.predict_proba(row), dense, labels),
        "River, learn_one": Way(of_river.learn_one, named, truths),
        "giftrl in River, learn_one": Way(in_river.learn_one, named, truths),
        "River, predict_proba_one": Way(lambda row, _: of_river.predict_proba_one(row), named, truths),
        "giftrl in River, predict_proba_one": Way(lambda row, _: in_river.predict_proba_one(row), named, truths),
    }


def _one_by_one(values: Any) -> Iterator[NDArray[Any]]:
    """The rows of a matrix, or the items of a vector, each as a batch of one."""
    return (values[i : i + 1] for i in range(values.shape[0]))


def measure(calls: int = CALLS, repetitions: int = REPETITIONS) -> dict[str, list[float]]:
    """The seconds of a call in every repetition, by way.

    >>> {len(each) for each in measure(calls=2, repetitions=3).values()}
    {3}
    """
    every = ways(calls * (repetitions + 1))
    for way in every.values():
        way.seconds(0, calls)
    seconds: dict[str, list[float]] = {name: [] for name in every}
    for repetition in range(1, repetitions + 1):
        for name, way in every.items():
            seconds[name].append(way.seconds(calls * repetition, calls * (repetition + 1)))
    return seconds


def grid(seconds: dict[str, list[float]]) -> Grid:
    """A table of all ways. A ratio is the median over the repetitions of the ratio in each.

    >>> print(grid({"River, learn_one": [2e-6, 4e-6], "giftrl in River, learn_one": [1e-6, 3e-6]}).markdown())
    **One row a call**
    <BLANKLINE>
    | call | microseconds | over the time of | ratio |
    |---|---:|---:|---:|
    | River, learn_one | 3.0 | - | - |
    | giftrl in River, learn_one | 2.0 | River, learn_one | 0.625 |
    """
    rows = []
    for name, each in seconds.items():
        compared = ["-", "-"]
        if (other := AGAINST.get(name)) is not None:
            ratio = statistics.median(a / b for a, b in zip(each, seconds[other], strict=True))
            compared = [other, f"{ratio:.3g}"]
        rows.append([name, f"{1e6 * statistics.median(each):,.1f}", *compared])
    return Grid("One row a call", ["call", "microseconds", "over the time of", "ratio"], rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    options = parse(
        argv, "benchmarks.one_row", __doc__, out=replaced("one-row"),
        calls=(CALLS, "calls at a time"), repetitions=(REPETITIONS, "how often"),
    )  # fmt: skip
    console = wide_console()
    with console.status("one row a call"):
        table = grid(measure(options.calls, options.repetitions))
    publish(console, [table], options.out, "one-row")


if __name__ == "__main__":
    main()
