"""A stream to a model in one call."""

import os
from collections.abc import Sequence
from typing import Any

from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings
from giftrl.training.trainer import Trainer

Named = str | os.PathLike[str]


def train(settings: Settings, sources: Named | Sequence[Named], **options: Any) -> LinearModel:
    """A model trained on a stream; options as for :class:`Trainer`.

    >>> import pathlib, tempfile
    >>> from giftrl.training import Settings
    >>> folder = tempfile.TemporaryDirectory()
    >>> data = pathlib.Path(folder.name, "rows.svm")
    >>> _ = data.write_text("1 1:1\\n-1 2:1\\n1 1:1 2:0.5\\n")
    >>> round(train(Settings(loss="logistic", beta=1.0), data).average_loss, 6)
    0.743923
    >>> folder.cleanup()
    """
    return Trainer(LinearModel(settings), sources, **options).run()
