"""The real tables that come with scikit-learn, with the names of their columns and of their classes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from giftrl.errors import GiftrlError
from giftrl.samples.sample import Sample, as_csv

ORIGIN = "real; it comes with scikit-learn"
SEED = 20250101  # of the order of the rows; some of the tables are sorted by class


def load(name: str, **options: Any) -> Any:
    """A data set of scikit-learn by its name.

    >>> load("iris").target_names.tolist()
    ['setosa', 'versicolor', 'virginica']
    """
    try:
        from sklearn import datasets
    except ImportError as missing:
        raise GiftrlError("this data comes with scikit-learn; pip install 'giftrl[experiments]'") from missing
    return getattr(datasets, f"load_{name}")(**options)


def rows(name: str, label: str, **options: Any) -> bytes:
    """A table as CSV, its rows in a random order that is always the same, with the label in the last column.

    >>> rows("iris", "species").decode().splitlines()[0]
    'sepal_length_cm,sepal_width_cm,petal_length_cm,petal_width_cm,species'
    """
    table = load(name, **options)
    head = [column.replace("(", "").replace(")", "").replace(" ", "_") for column in table.feature_names]
    names = table.target_names if name not in ("diabetes", "digits") else None
    labels = [f"{each:g}" for each in table.target] if names is None else [str(names[each]) for each in table.target]
    order = np.argsort(np.random.default_rng(SEED).random(len(labels)), kind="stable").tolist()
    cells = table.data.tolist()
    lines = [[*(f"{value:.10g}" for value in cells[row]), labels[row]] for row in order]
    return as_csv([*head, label], lines)


def _sample(name: str, what: str, rows: Callable[[], bytes], training: str, certain: bool = True) -> Sample:
    return Sample(name, f"{name}.csv", what, ORIGIN, rows, training, certain)


CANCER = _sample(
    "cancer",
    "is a tumour malignant or benign? 30 measurements of its cells",
    partial(rows, "breast_cancer", "diagnosis"),
    "--label diagnosis",
)
WINE = _sample(
    "wine",
    "which of three cultivars is a wine made of? 13 chemical measurements",
    partial(rows, "wine", "cultivar"),
    "--label cultivar",
)
IRIS = _sample(
    "iris",
    "which of three species is a flower? 4 lengths",
    partial(rows, "iris", "species"),
    "--label species",
)
DIGITS = _sample(
    "digits",
    "which digit is written in an image of 8 by 8 pixels?",
    partial(rows, "digits", "digit"),
    "--label digit --loss softmax --labels 0..9",
)
DIABETES = _sample(
    "diabetes",
    "how far has a disease progressed after a year? A number, from 10 measurements",
    partial(rows, "diabetes", "progression", scaled=False),
    "--label progression --loss squared",
    certain=False,
)
