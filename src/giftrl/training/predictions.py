"""Predictions as lines of text, one for each row of the data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Batch

#: What would break a line or a column apart.
ESCAPED = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


def shown(answer: float | str) -> str:
    """A number or a label as it is printed."""
    return answer.translate(ESCAPED) if isinstance(answer, str) else f"{answer:.9g}"


def lines_of(batch: Batch, answers: NDArray[Any], between: str = " ") -> bytes:
    """A line for each row of a batch: its answers, and its tag if it has one; nan for a row that was skipped.

    Args:
        batch: the rows.
        answers: for each row a number or a label, or several.
        between: what stands between them.

    >>> from giftrl.streams.batch import Position
    >>> from giftrl.streams.names.features import Hashing
    >>> from giftrl.streams.text.libsvm import LibsvmText
    >>> batch = LibsvmText(Hashing(4), compiled=False).parse(b"1 1:1\\n-1 x\\n1 2:1\\n", "a", Position())
    >>> lines_of(batch, np.array([0.5, 2.0]))
    b'0.5\\nnan\\n2\\n'
    """
    lines = [between.join(map(shown, row)) for row in np.atleast_2d(answers.T).T.tolist()]
    if batch.tags:
        lines = [f"{line}{between}{tag}".rstrip() for line, tag in zip(lines, batch.tags, strict=True)]
    if batch.rejected:
        bad = [each.line for each in batch.rejected]
        where = np.concatenate([batch.lines, bad]).argsort(kind="stable")
        lines = [(lines + ["nan"] * len(bad))[k] for k in where]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
