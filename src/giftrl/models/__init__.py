"""Model files: named arrays and a header of settings, in one file that nothing in it can run.

>>> import tempfile, numpy as np
>>> from giftrl import models
>>> with tempfile.TemporaryDirectory() as folder:
...     models.save(f"{folder}/a.giftrl", {"theta": np.array([1.0, 2.0])}, {"loss": "logistic"})
...     arrays, header = models.load(f"{folder}/a.giftrl")
>>> arrays["theta"].sum(), header
(np.float64(3.0), {'loss': 'logistic'})
"""

from giftrl.errors import ModelFileError
from giftrl.models.files import load, save

__all__ = ["ModelFileError", "load", "save"]
