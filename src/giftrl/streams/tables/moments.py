"""Columns of dates and texts as columns of numbers, categories and lists of categories."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.names.dates import WEEKDAYS, Moments, moments_in, moments_of
from giftrl.streams.names.texts import BETWEEN
from giftrl.streams.tables.types import as_arrow, as_numpy, is_text, words


def date_columns(array: Any, missing: tuple[str, ...] = ()) -> tuple[Any, dict[str, Any], NDArray[np.bool_]]:
    """A column of text, or of one of Arrow's dates or timestamps, as columns of numbers and categories.

    Returns the times in years, with null where the value is missing and NaN where it is no date; the weekdays, months
    and hours as dictionaries of text, those that occur; and where the value is missing.

    >>> import pyarrow as pa
    >>> times, parts, missing = date_columns(pa.array(["2024-03-05", "2000-01-01 06:00", None, "March"]))
    >>> times.round(3).tolist(), parts["hour"].to_pylist(), missing.tolist()
    ([24.175, 0.001, 0.0, nan], ['', '6', '', ''], [False, False, True, False])
    """
    import pyarrow as pa

    if pa.types.is_dictionary(array.type) or is_text(array.type):
        found, there = _of_texts(array, missing)
    else:
        found, there = _of_times(array)
    made = {}
    for name, codes, texts in (
        ("weekday", found.weekday, WEEKDAYS),
        ("month", found.month - 1, [str(month) for month in range(1, 13)]),
        ("hour", found.hour, [str(hour) for hour in range(24)]),
    ):
        codes = np.where(there & (codes >= 0), codes, len(texts))  # which stands for empty text
        if (codes < len(texts)).any():
            made[name] = pa.DictionaryArray.from_arrays(as_arrow(codes), pa.array([*texts, ""], pa.large_string()))
    return np.where(there, found.years, 0.0), made, ~there


def _of_texts(array: Any, missing: tuple[str, ...]) -> tuple[Moments, NDArray[np.bool_]]:
    """The dates of a column of text, and where there is any text but a spelling of a missing one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = words(array)
    texts = pc.ascii_trim(column.words, " \t")
    there = ~as_numpy(pc.is_in(texts, pa.array(["", *missing], texts.type)))
    _, offsets, data = texts.buffers()
    ends = (
        np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        if len(texts)
        else np.zeros(1, np.int64)
    )
    found = moments_in(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), ends[:-1], ends[1:])
    # Code -1, of an item without text, stands for the last element.
    nothing = Moments(*(np.array([-1]) for _ in found))
    each = Moments(*(np.append(a, b)[column.codes] for a, b in zip(found, nothing, strict=True)))
    return each, np.append(there, False)[column.codes]


def _of_times(array: Any) -> tuple[Moments, NDArray[np.bool_]]:
    """Those of Arrow's own types; the parts of a timestamp with a zone are those of the clocks there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    timed = pa.types.is_timestamp(array.type)
    local = pc.local_timestamp(array) if timed and array.type.tz is not None else array
    if timed:
        per_day = 86400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    else:
        per_day = 1 if pa.types.is_date32(array.type) else 86_400_000
    days, rest = np.divmod(_whole(local), per_day)
    ahead = (_whole(local) - _whole(array)) * (86400.0 / per_day)
    there = as_numpy(array.is_valid())
    return moments_of(days, rest * (86400.0 / per_day), ahead, np.full(len(days), timed), there), there


def _whole(array: Any) -> NDArray[np.int64]:
    """What a date or timestamp is stored as."""
    import pyarrow as pa

    stored = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).cast(pa.int64())
    return as_numpy(stored.fill_null(0))


def word_lists(array: Any) -> Any:
    """The words of each text of a column, each of them once: a list of categories.

    >>> import pyarrow as pa
    >>> word_lists(pa.array(["To be, or not to be", None])).to_pylist()
    [['to', 'be', 'or', 'not'], []]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = words(array)
    split = pc.split_pattern_regex(pc.utf8_lower(found.words), BETWEEN)
    items = split.flatten().dictionary_encode()
    codes = as_numpy(items.indices).astype(np.int64)
    sizes = as_numpy(pc.list_value_length(split)).astype(np.int64)
    text = np.repeat(np.arange(len(sizes)), sizes)
    _, kept = np.unique(text * max(1, len(items.dictionary)) + codes, return_index=True)
    kept = np.sort(kept[as_numpy(pc.binary_length(items.dictionary))[codes[kept]] > 0])
    # One list more, and an empty one: that of an item without text, whose code is -1.
    ends = np.concatenate([[0], np.cumsum(np.bincount(text[kept], minlength=len(sizes) + 1))])
    values = pa.DictionaryArray.from_arrays(as_arrow(codes[kept]), items.dictionary)
    lists = pa.LargeListArray.from_arrays(as_arrow(ends.astype(np.int64)), values)
    return lists.take(as_arrow(found.codes % len(lists)))
