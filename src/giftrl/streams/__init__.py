"""Streams: from files, in whatever format, to batches of rows that a learner takes.

>>> import pathlib, tempfile
>>> from giftrl import streams
>>> folder = tempfile.TemporaryDirectory()
>>> path = pathlib.Path(folder.name, "a.svm")
>>> _ = path.write_text("1 1:0.5 7:2\\n-1 3:1\\n")
>>> sum(len(batch) for batch in streams.Reader(path, streams.Hashing(18)))
2
>>> folder.cleanup()
"""

from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.converted import ConvertedWriter
from giftrl.streams.features import Dictionary, Features, Hashing, Report, restore
from giftrl.streams.formats import FORMATS
from giftrl.streams.interactions import Interactions
from giftrl.streams.prepare import NORMALIZATIONS
from giftrl.streams.reader import Progress, Reader
from giftrl.streams.rejects import BadRow
from giftrl.streams.sources import BadSource

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
    "Position",
    "Progress",
    "Reader",
    "Rejected",
    "Report",
    "Schema",
    "restore",
]
