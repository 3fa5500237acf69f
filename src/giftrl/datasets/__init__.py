"""The paper's data sets, downloaded from the LIBSVM collection, verified and kept.

>>> from giftrl.datasets import REGISTRY
>>> REGISTRY["a9a"].rows
32561
"""

from giftrl.datasets.download import default_folder, get
from giftrl.datasets.registry import REGISTRY, SITE, Dataset
from giftrl.errors import DownloadFailed

__all__ = ["REGISTRY", "SITE", "Dataset", "DownloadFailed", "default_folder", "get"]
