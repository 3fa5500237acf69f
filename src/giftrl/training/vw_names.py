"""The names of rows for Vowpal Wabbit's hashes."""

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import InvalidInput
from giftrl.streams.names.features import Dictionary
from giftrl.streams.names.loops import Sections


class VwNames(Dictionary):
    """A dictionary whose names ``namespace^feature`` have one meaning: the first caret ends the namespace.

    Vowpal Wabbit hashes the feature ``a^b`` without a namespace, and ``b`` of the namespace ``a``, in different ways.
    In a dictionary they have one name. So a caret in a feature without a namespace, or in a namespace, is refused.

    >>> from giftrl.streams.batch import Position
    >>> from giftrl.streams.text.vw import VwText
    >>> rows = VwText(VwNames(), compiled=False)
    >>> rows.parse(b"1 |a b^c\\n", "a.vw", Position()).data.tolist()
    [1.0]
    >>> rows.parse(b"1 | a^b\\n", "a.vw", Position())
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: name='a^b': has a caret and no namespace, so it looks like a feature of a namespace;
    rename it
    """

    def name_slots(
        self,
        text: NDArray[np.uint8],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        sections: Sections,
        values: NDArray[np.float64],
    ) -> NDArray[np.int32]:
        """The coordinates of names, as of any dictionary."""
        carets = np.cumsum(np.append(0, text == ord("^")))  # how many there are before each byte

        def refuse(wrong: NDArray[np.bool_], begin: NDArray[np.int64], end: NDArray[np.int64], rule: str) -> None:
            if wrong.any():
                k = int(np.argmax(wrong))
                name = text[begin[k] : end[k]].tobytes().decode(errors="replace")
                raise InvalidInput("name", name, rule, "rename it")

        # Sections begin behind a bar in VW text. The one section of other formats begins at 0.
        bare = (sections.end == sections.start) & (sections.start > 0)
        alone = np.repeat(bare, np.diff(sections.first, append=len(starts)))
        rule = "has a caret and no namespace, so it looks like a feature of a namespace"
        refuse(alone & (carets[ends] > carets[starts]), starts, ends, rule)
        wrong = carets[sections.end] > carets[sections.start]
        refuse(wrong, sections.start, sections.end, "is a namespace with a caret, which should end it")
        return super().name_slots(text, starts, ends, sections, values)
