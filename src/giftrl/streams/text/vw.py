"""VW text: ``[label [importance [base]]] ['tag|tag]|namespace[:factor] feature[:value] ... |namespace ...``.

The format is that of Vowpal Wabbit's wiki, page Input format, with these differences, each of which is an error with a
message rather than a guess: a line without a bar; a tab before the first bar; a negative
importance; a value that is not a number (write ``city=Paris`` for a category, not ``city:Paris``); a feature without a
name (``:3``); numbers that are not finite; text that is not UTF-8.

Written by hand because no library reads the format: Vowpal Wabbit's own package parses it into its internal examples.
"""

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.streams.batch import Position
from giftrl.streams.label_names import LabelNames
from giftrl.streams.names.features import Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.ngrams import Named, Ngrams, with_ngrams
from giftrl.streams.sources.lines import count_lines
from giftrl.streams.text.rows import Content, GroupCodes, Names, TextParser, scan
from giftrl.streams.text.scan import mark_broken
from giftrl.streams.text.vw_scan import BAR, BROKEN, make_buffers, scan_vw


class VwText(TextParser):
    """Reads blocks of VW text.

    A row without a label has the label NaN, one without an importance the weight 1, one without a base the base 0, a
    feature without a value the value 1. The factor of a namespace multiplies its values. Equal features of a row are
    summed; zeros are left out. Lines of blanks are no rows. A line that breaks a rule is rejected whole, and reading
    goes on with the next one. With interactions, a group is a namespace, with its n-grams.

    Args:
        features: what gives names their coordinates.
        interactions: which products will be added; entries are marked with their groups.
        ngrams: which n-grams to add.
        labels: the names of labels; None where labels are numbers.
        compiled: False to run the loops as plain Python.

    >>> from giftrl.streams.names.features import Dictionary
    >>> parser = VwText(Dictionary())
    >>> batch = parser.parse(b"1 2.0 'first|user:0.5 age:30 |item red\\n | red:-1\\n", "a.vw", Position())
    >>> batch.labels.tolist(), batch.weights.tolist(), batch.tags
    ([1.0, nan], [2.0, 1.0], ('first', ''))
    >>> [parser.features.name(slot) for slot in batch.indices], batch.data.tolist()
    (['user^age', 'item^red', 'red'], [15.0, 1.0, -1.0])
    """

    def __init__(
        self, features: Features, interactions: Interactions | None = None, ngrams: Ngrams | None = None, *,
        labels: LabelNames | None = None, compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(features, interactions, labels=labels, compiled=compiled)
        self.ngrams = ngrams
        self._gram_sizes = None if ngrams is None else GroupCodes(ngrams.size, compiled)

    def _read(self, block: NDArray[np.uint8], source: str, start: Position) -> Content:
        bars = int(np.count_nonzero(block == BAR))
        buffers = self._large_enough(make_buffers, len(block), count_lines(block), bars)
        buffers = buffers._replace(labels=self._label_words)
        if self.ngrams is not None:
            buffers = buffers._replace(most_names=self.ngrams.most_names)
        loop = ready(scan_vw, self.compiled, counted=False)
        (line, count, entries, named), bad = scan(loop, mark_broken(block, BROKEN), start, buffers)
        rows = buffers.rows.first(count)
        names = Names._make(array[:entries] for array in buffers.names)
        sections = Sections._make(array[:named] for array in buffers.sections)
        found = Named(block, names.values.copy(), names.starts, names.ends, sections)
        if self._gram_sizes is not None:
            sizes = self._gram_sizes.of(block, sections.start, sections.end).astype(np.int64)
            found, row_ends = with_ngrams(found, sizes, rows.ends, compiled=self.compiled)
            rows = rows._replace(ends=row_ends)
        bases = buffers.bases[:count].copy() if buffers.bases[:count].any() else np.empty(0)
        slots = self.features.name_slots(found.text, found.starts, found.ends, found.sections, found.values)
        groups = np.empty(0, np.uint8)
        if self._codes is not None:
            codes = self._codes.of(block, sections.start, sections.end)
            groups = np.repeat(codes, np.diff(found.sections.first, append=len(found.values)))
        return Content(line, rows, rows.tags(block), found.values, slots, groups, bad=tuple(bad), bases=bases)
