"""Dates and texts of many words in JSON lines: the entries that the loop marks, and the features that they mean."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.names.dates import WEEKDAYS, moments_in
from giftrl.streams.names.texts import words_of
from giftrl.streams.names.walk import Keys
from giftrl.streams.text.rows import Names, Rows

Text = NDArray[np.uint8]
Places = NDArray[np.int64]


class Expanded(NamedTuple):
    """Rows with features in the place of marked entries; their entries, the text of names, and bad rows."""

    rows: Rows
    names: Names
    text: Text
    bad: list[list[int]]  # rows with something else than a date, as the loop records lines that are not plain


class _Features(NamedTuple):
    """Features: the place of the entry that each comes from, its value, and its name, by number."""

    places: Places
    values: NDArray[np.float64]
    numbers: Places
    names: list[bytes]


def expand(rows: Rows, names: Names, text: Text, keys: Keys) -> Expanded:
    """Put features in the place of entries whose value is NaN, which are called ``key=value``."""
    marked = np.flatnonzero(np.isnan(names.values))
    if not len(marked):
        return Expanded(rows, names, text, [])
    found: list[_Features] = []
    wrong = []
    for key, places in _by_key(text, names.starts, marked, sorted((*keys.dates, *keys.texts), key=len, reverse=True)):
        starts, ends = names.starts[places] + len(key.encode()) + 1, names.ends[places]
        if key in keys.texts:
            found.append(_words(key, places, text, starts, ends))
            continue
        dates = moments_in(text, starts, ends)
        wrong.append(places[np.isnan(dates.years)])
        found.append(_parts(key, places, dates.years, [dates.weekday, dates.month - 1, dates.hour]))
    # Behind the entries of the loop come the new ones, and all of them in the order of what they come from.
    plain = np.flatnonzero(~np.isnan(names.values))
    spans, made = list[tuple[Places, Places]](), text
    for each in found:
        stops = len(made) + np.cumsum([0, *map(len, each.names)])
        spans.append((stops[each.numbers], stops[each.numbers + 1]))
        made = np.append(made, np.frombuffer(b"".join(each.names), np.uint8))
    places = np.concatenate([plain, *(each.places for each in found)])
    both = Names(
        np.concatenate([names.values[plain], *(each.values for each in found)]),
        np.concatenate([names.starts[plain], *(start for start, _ in spans)]),
        np.concatenate([names.ends[plain], *(end for _, end in spans)]),
        names.group_sizes[places],
    )
    owners = np.repeat(np.arange(len(rows.ends)), np.diff(rows.ends, prepend=0))
    good = np.ones(len(rows.ends), np.bool_)
    good[owners[np.concatenate([marked[:0], *wrong])]] = False
    order = np.argsort(places, kind="stable")
    order = order[good[owners[places[order]]] & (both.values[order] != 0.0)]
    counts = np.bincount(owners[places[order]], minlength=len(good))
    return Expanded(
        Rows._make(array[good] for array in rows._replace(ends=np.cumsum(counts))),
        Names._make(array[order] for array in both),
        made,
        [[line, begin, 0, 0] for line, begin in zip(rows.lines[~good], rows.begins[~good], strict=True)],
    )


def _by_key(text: Text, starts: Places, marked: Places, keys: list[str]) -> Iterator[tuple[str, Places]]:
    """The marked entries of each key."""
    for key in keys:
        same = np.ones(len(marked), np.bool_)
        for at, letter in enumerate(f"{key}=".encode()):
            places = starts[marked] + at
            same &= text[np.minimum(places, len(text) - 1)] == letter
        yield key, marked[same]
        marked = marked[~same]


def _parts(key: str, places: Places, years: NDArray[np.float64], parts: list[Places]) -> _Features:
    """The features of dates: the years, and the weekday, month and hour where there are these."""
    names = [key, *(f"{key}^weekday={day}" for day in WEEKDAYS)]
    names += [*(f"{key}^month={month}" for month in range(1, 13)), *(f"{key}^hour={hour}" for hour in range(24))]
    numbers = np.stack([np.zeros(len(places), np.int64), parts[0] + 1, parts[1] + 8, parts[2] + 20], axis=1)
    values = np.ones(numbers.shape)
    values[:, 0] = years
    there = np.stack([np.ones(len(places), np.bool_), *(part >= 0 for part in parts)], axis=1)
    rows = np.broadcast_to(places[:, None], there.shape)
    return _Features(rows[there], values[there], numbers[there], [name.encode() for name in names])


def _words(key: str, places: Places, text: Text, starts: Places, ends: Places) -> _Features:
    """The features of texts: their words, each once."""
    raw = text.tobytes()
    known: dict[str, int] = {}
    owners, numbers = [], []
    for place, start, end in zip(places.tolist(), starts.tolist(), ends.tolist(), strict=True):
        for word in dict.fromkeys(words_of(raw[start:end].decode())):
            owners.append(place)
            numbers.append(known.setdefault(word, len(known)))
    named = [f"{key}={word}".encode() for word in known]
    return _Features(np.array(owners, np.int64), np.ones(len(owners)), np.array(numbers, np.int64), named)
