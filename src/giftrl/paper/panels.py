"""The panels of Figures 1 to 3, on the paper's data or on data that comes with scikit-learn."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from giftrl.errors import GiftrlError, InvalidInput
from giftrl.paper.curves import PREPARATION
from giftrl.sweeps import Data, fingerprint, load, parse_betas, prepare, signed

CLASSIFICATION_BETAS = parse_betas("1e-3:1e3:13")
REGRESSION_BETAS = parse_betas("1e-3:1e8:23")


class PaperPanel(NamedTuple):
    """A panel of a figure: its loss, its data set, and the ends of the published vertical axis if there is one.

    >>> PAPER[0].title
    'Figure 1: a9a, hinge'
    """

    figure: int
    loss: str
    dataset: str
    axis: tuple[float, float] | None

    @property
    def title(self) -> str:
        """The title of the panel."""
        return f"Figure {self.figure}: {self.dataset}, {self.loss}"

    @property
    def name(self) -> str:
        """The name of the panel in file names."""
        return f"figure{self.figure}-{self.dataset}-{self.loss}".replace("_", "-")

    @property
    def betas(self) -> tuple[float, ...]:
        """The betas on the horizontal axis."""
        return REGRESSION_BETAS if self.loss == "absolute" else CLASSIFICATION_BETAS


#: Panels, each with a function that loads its data.
Panels = list[tuple[PaperPanel, Callable[[], Data]]]

#: The panels of the paper's figures 1 to 3.
PAPER = (
    PaperPanel(1, "hinge", "a9a", (0.3, 1.0)),
    PaperPanel(1, "hinge", "ijcnn1", (0.1, 1.0)),
    PaperPanel(1, "hinge", "phishing", (0.1, 1.1)),
    PaperPanel(2, "logistic", "a9a", (0.3, 0.8)),
    PaperPanel(2, "logistic", "ijcnn1", (0.15, 0.55)),
    PaperPanel(2, "logistic", "phishing", (0.1, 0.8)),
    PaperPanel(3, "absolute", "abalone", (0.0, 14.0)),
    PaperPanel(3, "absolute", "cpusmall", (0.0, 120.0)),
    PaperPanel(3, "absolute", "bng_stock", (0.0, 120.0)),
)

#: Panels like those of the paper, on data that comes with scikit-learn.
BUNDLED = (
    PaperPanel(1, "hinge", "breast_cancer", None),
    PaperPanel(1, "hinge", "digits", None),
    PaperPanel(2, "logistic", "breast_cancer", None),
    PaperPanel(2, "logistic", "digits", None),
    PaperPanel(3, "absolute", "diabetes", None),
)

#: The class of digits against all others.
POSITIVE_DIGIT = 8.0


def locate(folder: Path, dataset: str) -> Path | None:
    """The file of a data set in a folder, with or without a usual ending such as .gz; None if there is none."""
    paths = (folder / f"{dataset}{ending}" for ending in ("", ".gz", ".bz2", ".svm", ".libsvm"))
    return next(filter(Path.is_file, paths), None)


def available(folder: Path) -> Panels:
    """The panels whose data is in a folder, each with a function that loads it."""
    panels: Panels = [
        (panel, partial(load, path, panel.loss, PREPARATION, name=panel.dataset))
        for panel in PAPER
        if (path := locate(folder, panel.dataset))
    ]
    if not panels:
        names = ", ".join(dict.fromkeys(panel.dataset for panel in PAPER))
        remedy = "download them with 'giftrl datasets get all --to DIR', or leave out --data"
        raise InvalidInput("data", str(folder), f"must hold at least one of {names} (.gz or .bz2)", remedy)
    return panels


def bundled() -> Panels:
    """The panels on data that comes with scikit-learn, each with a function that loads it."""
    return [(panel, partial(_load_bundled, panel)) for panel in BUNDLED]


def _load_bundled(panel: PaperPanel) -> Data:
    try:
        from sklearn import datasets
    except ImportError as missing:
        raise GiftrlError("the bundled data needs scikit-learn; pip install 'giftrl[experiments]'") from missing
    x, y = (np.asarray(part, dtype=np.float64) for part in getattr(datasets, f"load_{panel.dataset}")(return_X_y=True))
    prepared, how = prepare(x, PREPARATION)
    labels = signed(y, panel.loss, POSITIVE_DIGIT if panel.dataset == "digits" else None)
    return Data(panel.dataset, prepared, labels, fingerprint(x, y), how)
