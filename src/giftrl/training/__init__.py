"""Training from streams: a linear model that can be saved, resumed and used anywhere.

>>> import pathlib, tempfile
>>> from giftrl.training import LinearModel, Settings, train
>>> folder = tempfile.TemporaryDirectory()
>>> data = pathlib.Path(folder.name, "rows.svm")
>>> _ = data.write_text("1 1:1\\n-1 2:1\\n1 1:1 2:0.5\\n")
>>> model = train(Settings(loss="logistic", beta=1.0), [data])  # beta="auto", the default, needs no choice
>>> model.examples, round(model.average_loss, 6)
(3, 0.743923)
>>> folder.cleanup()
"""

import os
from collections.abc import Sequence
from typing import Any

from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings
from giftrl.training.trainer import Checkpoint, Trainer

__all__ = ["Checkpoint", "LinearModel", "Settings", "Trainer", "train"]


def train(
    settings: Settings, sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Any
) -> LinearModel:
    """Train a model on a stream; options as for :class:`Trainer`.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = pathlib.Path(folder, "rows.svm")
    ...     _ = data.write_text("1 1:1\\n-1 2:1\\n")
    ...     train(Settings(loss="squared", beta=1.0), data).examples
    2
    """
    return Trainer(LinearModel(settings), sources, **options).run()
