"""The names that hashing keeps to show: the first one of each coordinate."""

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.names.tables import CUT, NAMELESS

__all__ = ["SHOWN", "KeptNames"]

SHOWN = CUT - 1  # bytes of a name that are shown; a name of CUT bytes is longer

_NO_SLOTS, _NO_PLACES, _NO_BYTES = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint8)


class KeptNames:
    """Names by coordinate; new ones are appended, and sorted in when a name is asked for.

    Args:
        slots: coordinates that have a name.
        begins: where each name begins in the text; -1 for a name that is not kept.
        sizes: how many bytes it has, CUT where it is longer.
        text: the names.

    >>> kept = KeptNames()
    >>> kept.add(np.array([7, 3], np.int32), np.array([0, 3]), np.array([3, 8]), np.frombuffer(b"redgreen", np.uint8))
    >>> kept.name(3), kept.name(4)
    ('green', None)
    """

    def __init__(
        self,
        slots: NDArray[np.int32] = _NO_SLOTS,
        begins: NDArray[np.int64] = _NO_PLACES,
        sizes: NDArray[np.uint8] = _NO_BYTES,
        text: NDArray[np.uint8] = _NO_BYTES,
    ) -> None:
        self._size = len(text)
        self._parts = [(slots, begins, sizes, text)]

    def add(
        self, slots: NDArray[np.int32], begins: NDArray[np.int64], ends: NDArray[np.int64], text: NDArray[np.uint8]
    ) -> None:
        """Add the names of coordinates that have none; NAMELESS is added to a coordinate whose name is not kept."""
        places = np.where(slots < NAMELESS, self._size + begins, -1)
        self._parts.append((slots % NAMELESS, places, (ends - begins).astype(np.uint8), text))
        self._size += len(text)

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8]]:
        """What the names can be made from again, sorted by coordinate."""
        if len(self._parts) > 1:
            slots, begins, sizes, text = (np.concatenate(each) for each in zip(*self._parts, strict=True))
            order = np.argsort(slots)
            self._parts = [(slots[order].astype(np.int32), begins[order], sizes[order], text)]
        return self._parts[0]

    def name(self, slot: int) -> str | None:
        """The name of a coordinate; None where it has none, or it is not kept."""
        slots, begins, sizes, text = self.arrays()
        at = int(np.searchsorted(slots, slot))
        if at == len(slots) or slots[at] != slot or begins[at] < 0:
            return None
        raw = text[begins[at] : begins[at] + min(int(sizes[at]), SHOWN)].tobytes()
        return raw.decode(errors="ignore") + "…" if sizes[at] == CUT else raw.decode(errors="replace")
