"""What hashing keeps of the names and products that came to its coordinates, so that weights can be shown by name."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.streams.names.tables import CUT, NAMELESS

SHOWN = CUT - 1  # bytes of a name that are shown; a name of CUT bytes is longer


class KeptNames:
    """Names by coordinate; new ones are appended, and sorted in when a name is asked for.

    Args:
        slots: coordinates that have a name.
        begins: where each name begins in the text; -1 for a name that is not kept.
        sizes: how many bytes it has, CUT where it is longer.
        text: the names.
    """

    def __init__(self, slots: ArrayLike, begins: ArrayLike, sizes: ArrayLike, text: ArrayLike) -> None:
        texts = np.asarray(text, np.uint8)
        self._size = len(texts)
        self._parts = [(np.asarray(slots, np.int32), np.asarray(begins, np.int64), np.asarray(sizes, np.uint8), texts)]

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


class KeptProducts:
    """The factors of the first product at each coordinate; new ones are appended, and sorted in when they are wanted.

    Args:
        rows: of each product its coordinate and those of its factors; -1 stands behind the factors of a short product.
    """

    def __init__(self, rows: NDArray[np.int32]) -> None:
        self._parts = [rows]
        self._sorted = True

    def add(self, rows: NDArray[np.int32]) -> None:
        """Add products; where a coordinate has one, that one stays."""
        if len(rows):
            self._parts.append(rows)
            self._sorted = False

    def rows(self) -> NDArray[np.int32]:
        """All products, sorted by coordinate."""
        if not self._sorted:
            whole = joined(self._parts)
            whole = whole[np.argsort(whole[:, 0], kind="stable")]
            first = np.diff(whole[:, 0], prepend=-1) > 0  # two readers may have brought a product to one coordinate
            self._parts, self._sorted = [whole[first]], True
        return self._parts[0]

    def factors(self, slot: int) -> list[int]:
        """The factors of the product of a coordinate; none where it has no product."""
        rows = self.rows()
        at = int(np.searchsorted(rows[:, 0], slot))
        if at == len(rows) or rows[at, 0] != slot:
            return []
        return [factor for factor in rows[at, 1:].tolist() if factor >= 0]


def no_products() -> NDArray[np.int32]:
    """The rows of :class:`KeptProducts` where there are none."""
    return np.empty((0, 1), np.int32)


def joined(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Rows of products of different lengths in one array."""
    width = max((part.shape[1] for part in parts if len(part)), default=1)
    longer = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1) for part in parts if len(part)]
    return np.concatenate(longer) if longer else no_products()
