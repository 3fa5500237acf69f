"""Texts of many words: lower-cased, and taken apart at all that is neither a letter nor a digit."""

import re

#: What stands between words, for Arrow; what a word is, for Python.
BETWEEN = r"[^\p{L}\p{N}]+"
_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The words of a text, in their order. Each letter is lower-cased by itself, as Arrow does it.

    >>> words_of("It's 5 o'clock, ÉMILE!")
    ['it', 's', '5', 'o', 'clock', 'émile']
    """
    lower = text.lower() if text.isascii() else "".join(letter.lower()[0] for letter in text)
    return _WORD.findall(lower)
