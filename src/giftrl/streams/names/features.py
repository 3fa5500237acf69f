"""How the name of a feature becomes a coordinate: by hashing, or by a dictionary.

The name of a feature is ``feature`` in the default namespace and ``namespace^feature`` in any other; the value of a
categorical column is the feature ``column=value``. Names are hashed and compared as UTF-8. The features of a LIBSVM
file are whole numbers.

Both have one more coordinate, ``constant``, for the feature that is 1 in every row. Neither is for use by two threads
at once: a thread that reads ahead works on a copy (:meth:`Features.ahead`).
"""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from giftrl.errors import InvalidInput, UnknownName
from giftrl.streams.names.base import Features, News, Report
from giftrl.streams.names.dictionary import Dictionary
from giftrl.streams.names.hashing import Hashing

__all__ = ["Dictionary", "Features", "Hashing", "News", "Report", "restore"]


def restore(settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, compiled: bool = True) -> Features:
    """What :meth:`Features.state` was taken from, as it was then and not frozen.

    >>> features = Dictionary()
    >>> _ = features.slots(["red", "green"])
    >>> restore(*features.state()).name(2)
    'green'
    """
    kind = settings.get("kind")
    if kind not in ("hashing", "dictionary"):
        raise UnknownName("kind", kind, ["dictionary", "hashing"])
    try:
        features = Hashing(settings["bits"], compiled=compiled) if kind == "hashing" else Dictionary(compiled=compiled)
        features._restore(settings, arrays)
    except KeyError as missing:
        raise InvalidInput("state", missing.args[0], "is missing", "the file is damaged; use another copy") from None
    return features
