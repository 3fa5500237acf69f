"""How busy is a processor? A regression on cpusmall by files and by model, as a program in production would do it.

``python examples/processors.py`` downloads the data set, checks its fingerprint and keeps it (1 MB, once). With
``--offline`` the example learns the diabetes data that comes with scikit-learn in its place.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_diabetes

from giftrl.datasets import get
from giftrl.streams import Reader
from giftrl.training import LinearModel, Settings, train


def file(offline, folder):
    """A file of rows."""
    if not offline:
        return get("cpusmall")
    path = Path(folder, "diabetes.svm")
    dump_svmlight_file(*load_diabetes(return_X_y=True, scaled=False), str(path), zero_based=False)
    return path


def main():
    """Train, save, load and predict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offline", action="store_true", help="learn a data set that is here already")
    offline = parser.parse_args().offline
    with tempfile.TemporaryDirectory() as folder:
        path, saved = file(offline, folder), Path(folder, "load.giftrl")
        model = train(Settings(loss="squared", bits=10), path)
        model.save(saved)
        print(f"{model.examples:,} rows; mean loss before each label was used: {model.average_loss:.1f}")
        print(model.certificate.in_words())
        again, _ = LinearModel.load(saved)
        again.features.freeze()
        labels, made = [], []
        for batch in Reader(path, again.features):
            labels.append(batch.labels)
            made.append(again.predict(batch))
    y, p = np.concatenate(labels), np.concatenate(made)
    print(f"the saved model explains {1.0 - np.mean((y - p) ** 2) / np.var(y):.0%} of the variance of these rows")


if __name__ == "__main__":
    main()
