"""Columns of dates and texts as columns of numbers, categories and lists of categories."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.names.dates import EPOCH, ISO, WEEKDAYS, offset, years
from giftrl.streams.tables.types import as_arrow, as_numpy, is_text, words

_DAY = np.datetime64(EPOCH.isoformat(), "D").astype(np.int64)


class Moments(NamedTuple):
    """Dates and times; see :class:`giftrl.streams.names.dates.Moment`."""

    years: NDArray[np.float64]  # NaN where there is a value that is no date
    there: NDArray[np.bool_]  # whether there is a value at all
    weekday: NDArray[np.int64]  # from Monday, 0; this and the rest are -1 where there is no date
    month: NDArray[np.int64]
    hour: NDArray[np.int64]  # -1 for a date without a time of day too

    def parts(self) -> dict[str, Any]:
        """The weekday, month and hour as Arrow's dictionaries of text, those that occur at all."""
        import pyarrow as pa

        names = {
            "weekday": (self.weekday, WEEKDAYS),
            "month": (self.month - 1, tuple(map(str, range(1, 13)))),
            "hour": (self.hour, tuple(map(str, range(24)))),
        }
        made = {}
        for name, (codes, texts) in names.items():
            if (codes >= 0).any():
                indices = as_arrow(np.where(codes < 0, len(texts), codes))  # which stands for empty text
                made[name] = pa.DictionaryArray.from_arrays(indices, pa.array([*texts, ""], pa.large_string()))
        return made


def moments(array: Any, missing: tuple[str, ...] = ()) -> Moments:
    """The dates of a column of text, or of one of Arrow's dates or timestamps.

    >>> import pyarrow as pa
    >>> found = moments(pa.array(["2024-03-05", "2000-01-01 06:00", None, "March"]))
    >>> found.years.round(3).tolist(), found.weekday.tolist(), found.hour.tolist()
    ([24.175, 0.001, 0.0, nan], [1, 5, -1, -1], [-1, 6, -1, -1])
    """
    import pyarrow as pa

    if not (pa.types.is_dictionary(array.type) or is_text(array.type)):
        return _of_times(array)
    found = words(array)
    each = _of_texts(found.words, missing)
    # Code -1, of an item without text, stands for the last element.
    nothing = Moments(*(np.array([value]) for value in (0.0, False, -1, -1, -1)))
    return Moments(*(np.append(a, b)[found.codes] for a, b in zip(each, nothing, strict=True)))


def _of_texts(texts: Any, missing: tuple[str, ...]) -> Moments:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.ascii_trim(texts, " \t")
    there = ~as_numpy(pc.is_in(texts, pa.array(["", *missing], texts.type)))
    fields = pc.extract_regex(texts, f"^(?:{ISO})$")
    good = as_numpy(fields.is_valid()).copy()

    def numbers(name: str, absent: str, type_: Any) -> NDArray[Any]:
        field = pc.struct_field(fields, name)
        return as_numpy(pc.if_else(pc.equal(field, ""), absent, field).fill_null(absent).cast(type_))

    year, month, day, hour, minute = (
        numbers(name, absent, pa.int64())
        for name, absent in (("year", "0"), ("month", "1"), ("day", "1"), ("hour", "-1"), ("minute", "0"))
    )
    second = numbers("second", "0", pa.float64())
    zones = pc.struct_field(fields, "zone").fill_null("").dictionary_encode()
    aheads = [offset(zone) for zone in zones.dictionary.to_pylist()]
    ahead = np.array([np.nan if each is None else each for each in aheads], np.float64)[as_numpy(zones.indices)]
    first = (12 * (year - 1970) + month - 1).view("M8[M]")
    date = first.astype("M8[D]") + (day - 1)
    good &= (year > 0) & (month >= 1) & (month <= 12) & (date.astype("M8[M]") == first)
    good &= (hour < 24) & (minute < 60) & (second < 60.0) & ~np.isnan(ahead)
    days = date.astype(np.int64)
    time = years(days - _DAY, 3600.0 * np.maximum(hour, 0) + 60.0 * minute + second - ahead)
    time = np.where(there, np.where(good, time, np.nan), 0.0)
    weekday, month, hour = (np.where(good & there, part, -1) for part in ((days + 3) % 7, month, hour))
    return Moments(time, there, weekday, month, hour)


def _of_times(array: Any) -> Moments:
    """Those of Arrow's own types; the parts of a timestamp with a zone are those of the clocks there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    there = as_numpy(array.is_valid())
    timed = pa.types.is_timestamp(array.type)
    local = pc.local_timestamp(array) if timed and array.type.tz is not None else array
    if timed:
        per_day = 86400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    else:
        per_day = 1 if pa.types.is_date32(array.type) else 86_400_000
    days, rest = np.divmod(_whole(array), per_day)
    local_days, local_rest = np.divmod(_whole(local), per_day)
    month = local_days.view("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1
    hour = 24 * local_rest // per_day if timed else np.full(len(array), -1)
    weekday, month, hour = (np.where(there, part, -1) for part in ((local_days + 3) % 7, month, hour))
    return Moments(np.where(there, years(days - _DAY, 86400.0 * rest / per_day), 0.0), there, weekday, month, hour)


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

    from giftrl.streams.names.texts import BETWEEN

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
