"""Who earns more than $50,000? One pass over the census of 1994 (a9a), beside scikit-learn's SGD at nine rates.

``python examples/census.py`` downloads the data set, checks its fingerprint and keeps it (2 MB, once). With
``--offline`` the example learns the breast cancer data that comes with scikit-learn in its place, standardised as SGD
needs it.
"""

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer, load_svmlight_file
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from giftrl import FTRLClassifier
from giftrl.datasets import get

BLOCK = 100


def data(offline):
    """Rows in random order, and their labels."""
    if offline:
        x, y = load_breast_cancer(return_X_y=True)
        x = StandardScaler().fit_transform(x)
    else:
        x, y = load_svmlight_file(str(get("a9a")))
    order = np.random.default_rng(0).permutation(len(y))
    return x[order], y[order]


def one_pass(model, x, y):
    """The mean loss of predictions, each block of rows made before its labels are learnt; the first is learnt only."""
    classes, seen = np.unique(y), []
    for first in range(0, len(y), BLOCK):
        block = slice(first, first + BLOCK)
        if first > 0:
            seen.append(np.clip(model.predict_proba(x[block]), 1e-6, 1.0))
        model.partial_fit(x[block], y[block], classes=classes)
    made = np.concatenate(seen)
    return log_loss(y[BLOCK:], made / made.sum(axis=1, keepdims=True), labels=classes)


def main():
    """Print the losses, and what is proved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offline", action="store_true", help="learn a data set that is here already")
    x, y = data(parser.parse_args().offline)
    print(f"{x.shape[0]:,} rows, {x.shape[1]} features")
    model = FTRLClassifier()
    print(f"giftrl, nothing set         {one_pass(model, x, y):.4f}")
    for rate in 10.0 ** np.arange(-4, 5):
        sgd = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=rate, random_state=0)
        print(f"SGDClassifier, rate {rate:<7g} {one_pass(sgd, x, y):.4f}")
    print(model.certificate_.in_words())


if __name__ == "__main__":
    main()
