"""VW text: ``[label [importance [base]]] ['tag|tag]|namespace[:factor] feature[:value] ... |namespace ...``.

The format is that of Vowpal Wabbit's wiki, page Input format, with these differences, each of which is an error with a
message rather than a guess: a line without a bar; a tab before the first bar; a base other than 0; a negative
importance; a value that is not a number (write ``city=Paris`` for a category, not ``city:Paris``); a feature without a
name (``:3``); numbers that are not finite; text that is not UTF-8.

Written by hand because no library reads the format: Vowpal Wabbit's own package parses it into its internal examples.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.errors import require
from giftrl.streams.batch import Batch, Position
from giftrl.streams.names.features import Dictionary, Features
from giftrl.streams.names.loops import Sections
from giftrl.streams.sources.lines import as_block
from giftrl.streams.text.rows import Count, RowsFound, as_batch, scan, scan_start
from giftrl.streams.text.vw_scan import KINDS, Buffers, make_buffers, scan_vw

__all__ = ["VwText"]

OTHERS = 255  # the number of all namespaces after the first 254


class VwText:
    """Reads blocks of VW text.

    A row without a label has the label NaN, one without an importance the weight 1, a feature without a value the
    value 1. The factor of a namespace multiplies its values. Equal features of a row are summed; zeros are left out.
    Lines of blanks are no rows. A line that breaks a rule is rejected whole, and reading goes on with the next one.

    Args:
        features: what turns a name into a coordinate.
        groups: whether to tell the namespace of each entry, as a number.
        namespaces: the first numbers' namespaces, in order from 1 on; others get theirs as they come. All that come
            after the first 254 share 255.
        compiled: False to run the loops as plain Python.

    >>> from giftrl.streams.names.features import Dictionary
    >>> parser = VwText(Dictionary(), groups=True)
    >>> batch = parser.parse(b"1 2.0 'first|user:0.5 age:30 |item red\\n | red:-1\\n", "a.vw", Position())
    >>> batch.labels.tolist(), batch.weights.tolist(), batch.tags
    ([1.0, nan], [2.0, 1.0], ('first', ''))
    >>> [parser.features.name(slot) for slot in batch.indices], batch.data.tolist()
    (['user^age', 'item^red', 'red'], [15.0, 1.0, -1.0])
    >>> batch.groups.tolist(), parser.namespaces
    ([1, 2, 0], ('', 'user', 'item'))
    """

    def __init__(
        self, features: Features, *, groups: bool = False, namespaces: Sequence[str] = (), compiled: bool = True
    ) -> None:
        self.features = features
        self.groups = groups
        self.compiled = compiled
        self._buffers = make_buffers(0)
        self._namespaces = Dictionary(compiled=compiled)
        few = len(namespaces) < OTHERS and "" not in namespaces
        require(few, "namespaces", namespaces, "must be at most 254 names", "leave out the default one, which is 0")
        self._namespaces.slots(namespaces)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces by their numbers; the default one, 0, has the empty name, and 255 is not listed."""
        return ("", *(str(self._namespaces.name(k)) for k in range(1, min(OTHERS, self._namespaces.dimension))))

    def parse(self, data: Any, source: str, start: Position) -> Batch:
        """The rows of a block of whole lines.

        Args:
            data: the bytes; the last line may lack its newline.
            source: the name of the source, for messages.
            start: the position of the first byte.
        """
        block = as_block(data)
        state = scan_start(block, start)
        buffers = self._buffers if len(self._buffers.values) > len(block) // 8 else make_buffers(len(block))
        loop = ready(scan_vw, self.compiled, counted=False)
        found = self._buffers = scan(loop, block, state, buffers, KINDS)
        entries, rows, count = int(state[Count.ENTRIES]), int(state[Count.ROWS]), int(state[Count.SECTIONS])
        values = found.values[:entries].copy()
        sections = Sections(*(array[:count] for array in found[3:6]))
        slots = self.features.name_slots(block, found.starts[:entries], found.ends[:entries], sections, values)
        groups = np.empty(0, np.uint8)
        if self.groups:
            numbers = self._numbers(block, sections)
            groups = np.repeat(numbers, np.diff(sections.first, append=entries))
        return as_batch(
            block, source, Position(start.source, start.offset + len(data), int(state[Count.LINE])),
            RowsFound(*found[9:]).cut(state), found.weights[:rows].copy(), _tags(block, found, rows), values, slots,
            groups, compiled=self.compiled,
        )  # fmt: skip

    def _numbers(self, block: NDArray[np.uint8], sections: Sections) -> NDArray[np.uint8]:
        """The number of the namespace of each section."""
        named = sections.end > sections.start
        none = np.zeros(1, np.int64)
        starts, ends = sections.start[named], sections.end[named]
        whole = Sections(none, none, none)
        slots = self._namespaces.name_slots(block, starts, ends, whole, np.empty(len(starts)))
        if self._namespaces.dimension > OTHERS:
            self._namespaces.freeze()
        numbers = np.zeros(len(named), np.uint8)
        numbers[named] = np.where((slots < 0) | (slots > OTHERS), OTHERS, slots)
        return numbers


def _tags(block: NDArray[np.uint8], found: Buffers, rows: int) -> tuple[str, ...]:
    """The tag of each row, or nothing where no row has one."""
    starts, ends = found.tag_starts[:rows], found.tag_ends[:rows]
    if not (ends > starts).any():
        return ()
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return tuple(block[start:end].tobytes().decode() if end > start else "" for start, end in pairs)
