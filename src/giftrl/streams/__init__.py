"""Streams: from files, in whatever format, to batches of rows for a learner.

>>> import pathlib, tempfile
>>> from giftrl import streams
>>> folder = tempfile.TemporaryDirectory()
>>> path = pathlib.Path(folder.name, "a.svm")
>>> _ = path.write_text("1 1:0.5 7:2\\n-1 3:1\\n")
>>> sum(len(batch) for batch in streams.Reader(path, streams.Hashing(18)))
2
>>> folder.cleanup()
"""

from giftrl.errors import BadRow, BadSource
from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.names.features import Dictionary, Features, Hashing, Report, restore
from giftrl.streams.names.interactions import Interactions, Ngrams
from giftrl.streams.reader import NORMALIZATIONS, Progress, Reader
from giftrl.streams.source import FORMATS
from giftrl.streams.tables.arrow import ConvertedWriter

__all__ = [
    "FORMATS",
    "NORMALIZATIONS",
    "BadRow",
    "BadSource",
    "Batch",
    "Columns",
    "ConvertedWriter",
    "Dictionary",
    "Features",
    "Hashing",
    "Interactions",
    "Ngrams",
    "Position",
    "Progress",
    "Reader",
    "Rejected",
    "Report",
    "Schema",
    "restore",
]
