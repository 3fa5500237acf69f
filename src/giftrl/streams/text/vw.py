"""VW text: ``[label [importance [base]]] ['tag|tag]|namespace[:factor] feature[:value] ... |namespace ...``.

The format is that of Vowpal Wabbit's wiki, page Input format, with these differences, each of which is an error with a
message rather than a guess: a line without a bar; a tab before the first bar; a base other than 0; a negative
importance; a value that is not a number (write ``city=Paris`` for a category, not ``city:Paris``); a feature without a
name (``:3``); numbers that are not finite; text that is not UTF-8.

Written by hand because no library reads the format: Vowpal Wabbit's own package parses it into its internal examples.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.errors import require
from giftrl.streams.batch import Position
from giftrl.streams.names.features import Dictionary, Features
from giftrl.streams.names.loops import Sections
from giftrl.streams.sources.lines import count_lines
from giftrl.streams.text.rows import Content, Names, TextParser, scan
from giftrl.streams.text.scan import mark_broken
from giftrl.streams.text.vw_scan import BAR, BROKEN, make_buffers, scan_vw

__all__ = ["VwText"]

OTHERS = 255  # the number of all namespaces after the first 254


class VwText(TextParser):
    """Reads blocks of VW text.

    A row without a label has the label NaN, one without an importance the weight 1, a feature without a value the
    value 1. The factor of a namespace multiplies its values. Equal features of a row are summed; zeros are left out.
    Lines of blanks are no rows. A line that breaks a rule is rejected whole, and reading goes on with the next one.

    Args:
        groups: whether to tell the namespace of each entry, as a number.
        namespaces: the first numbers' namespaces, in order from 1 on; others get theirs as they come. All that come
            after the first 254 share 255.

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
        super().__init__(features, compiled=compiled)
        self.groups = groups
        self._namespaces = Dictionary(compiled=compiled)
        few = len(namespaces) < OTHERS and "" not in namespaces
        require(few, "namespaces", namespaces, "must be at most 254 names", "leave out the default one, which is 0")
        self._namespaces.slots(namespaces)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces by their numbers; the default one, 0, has the empty name, and 255 is not listed."""
        return ("", *(str(self._namespaces.name(k)) for k in range(1, min(OTHERS, self._namespaces.dimension))))

    def _read(self, block: NDArray[np.uint8], source: str, start: Position) -> Content:
        bars = int(np.count_nonzero(block == BAR))
        buffers = self._large_enough(make_buffers, len(block), count_lines(block), bars)
        loop = ready(scan_vw, self.compiled, counted=False)
        (line, count, entries, named), bad = scan(loop, mark_broken(block, BROKEN), start, buffers)
        names = Names._make(array[:entries] for array in buffers.names)
        sections = Sections._make(array[:named] for array in buffers.sections)
        values = names.values.copy()
        slots = self.features.name_slots(block, names.starts, names.ends, sections, values)
        groups = np.empty(0, np.uint8)
        if self.groups:
            groups = np.repeat(self._numbers(block, sections), np.diff(sections.first, append=entries))
        rows = buffers.rows.first(count)
        return Content(line, rows, rows.tags(block), values, slots, groups, bad=tuple(bad))

    def _numbers(self, block: NDArray[np.uint8], sections: Sections) -> NDArray[np.uint8]:
        """The number of the namespace of each section."""
        named = sections.end > sections.start
        starts, ends = sections.start[named], sections.end[named]
        slots = self._namespaces.name_slots(block, starts, ends, Sections.none(), np.empty(len(starts)))
        if self._namespaces.dimension > OTHERS:
            self._namespaces.freeze()
        numbers = np.zeros(len(named), np.uint8)
        numbers[named] = np.where((slots < 0) | (slots > OTHERS), OTHERS, slots)
        return numbers
