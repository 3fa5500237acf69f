"""How much of the sources has been read."""

from typing import NamedTuple


class Progress(NamedTuple):
    """How much of the sources has been read.

    >>> Progress(50, 200).fraction
    0.25
    """

    consumed: int  # bytes, before decompression
    total: int | None  # None where the size of a source is not known

    @property
    def fraction(self) -> float | None:
        """Between 0 and 1; None where the size of a source is not known."""
        return None if self.total is None else min(1.0, self.consumed / max(1, self.total))
