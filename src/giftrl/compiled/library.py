"""The package's own library: the usual loops, compiled when the package was built.

It is there in a wheel for a platform (see ``hatch_build.py``) and not in a copy of the sources. ``index.json`` says of
each entry how its result is packed and everything that it was made from, so that no entry can be taken for another.
"""

import ctypes
import functools
import json
from pathlib import Path
from typing import Any

from giftrl.compiled.entry import Place

FOLDER = Path(__file__).parent / "library"
LIBRARY, INDEX = "loops.so", "index.json"


def find(symbol: str, key: str) -> Place | None:
    """The loop of this key, if the package brings it."""
    index, library = _opened()
    entry = index.get(symbol)
    if entry is None or entry["key"] != key:
        return None
    return Place(ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0, entry["result"])


@functools.cache
def _opened() -> tuple[dict[str, Any], Any]:
    """The index and the library; an empty index where there is none, or where this system cannot load it."""
    try:
        index = json.loads((FOLDER / INDEX).read_text(encoding="utf-8"))
        return index, ctypes.CDLL(str(FOLDER / LIBRARY))
    except (OSError, ValueError):
        return {}, None
