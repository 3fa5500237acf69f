"""Made the pickles beside this file, with version 1 (``giftrl`` 0.1.0 before ``giftrl.config``); kept as their recipe.

Each pickle holds a fitted estimator, rows, and what the version that wrote it predicts for them.
"""

import gzip
import pickle
from pathlib import Path

import numpy as np

from giftrl.adapters import river
from giftrl.linear import FTRLClassifier, FTRLRegressor

HERE = Path(__file__).parent


def main() -> None:
    rng = np.random.default_rng(12)
    X = rng.normal(size=(60, 4)) * [1.0, 10.0, 0.1, 3.0]
    names = np.array(["apple", "pear", "plum"])
    three = names[np.argmax(X @ rng.normal(size=(4, 3)), axis=1)]
    score = X @ rng.normal(size=4)
    two, targets = score > 0.0, np.column_stack([score, 2.0 - score])
    estimators = {
        "one": FTRLClassifier(normalize="unit").fit(X, two),
        "together": FTRLClassifier(beta=1.0).fit(X, three),
        "apart": FTRLClassifier("hinge", preset="light").fit(X, three),
        "by_class": FTRLClassifier("softmax", preset="light").fit(X, three),
        "regressor": FTRLRegressor("poisson").fit(X, np.round(np.exp(two))),
        "regressor_two": FTRLRegressor(beta=1.0).fit(X, targets),
    }
    for name, model in estimators.items():
        y = three if model.__class__ is FTRLClassifier and name != "one" else two
        keep(name, model, X[:5], (three if y is three else two)[:5], model.predict(X[:5]))
    rows = [dict(zip("abcd", row, strict=True)) for row in X.tolist()]
    for name, other, y in (
        ("river_classifier", river.FTRLClassifier(preset="light"), two.tolist()),
        ("river_regressor", river.FTRLRegressor(beta=1.0, normalize="unit"), score.tolist()),
    ):
        for row, label in zip(rows, y, strict=True):
            other.learn_one(row, label)
        keep(name, other, rows[:5], y[:5], [other.predict_one(row) for row in rows[:5]])


def keep(name, model, X, y, predicted):
    (HERE / f"{name}.pickle.gz").write_bytes(gzip.compress(pickle.dumps((model, X, y, predicted)), mtime=0))


if __name__ == "__main__":
    main()
