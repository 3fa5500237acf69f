"""ISO 8601 dates and times as features: the time in years, and its weekday, month and hour.

Dates are 2024-03-05, 2024-03-05T12:30, 2024-03-05 12:30:00.5; a time may have a zone: Z, UTC, +02, +0200 or +02:00.
"""

from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.streams.names.tables import byte, digit

#: The expected text in the message about a bad date.
EXPECTED_DATE = (
    "an ISO date that exists, such as 2024-03-05 or 2024-03-05T12:30; if these are categories, --categorical COLUMN "
    "reads them as such"
)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Suffixes of a date column's categories: weekday, month and hour.
DATE_PARTS = (
    *(f"^weekday={day}" for day in WEEKDAYS),
    *(f"^month={month}" for month in range(1, 13)),
    *(f"^hour={hour}" for hour in range(24)),
)
#: What is added to a month and an hour for their numbers in :data:`DATE_PARTS`; those of weekdays are their own.
FIRST_MONTH, FIRST_HOUR = 6, 19
#: The number of days in a year; times are in years since the beginning of 2000, UTC.
EPOCH, DAYS_PER_YEAR = date(2000, 1, 1).toordinal(), 365.25
UNIX_EPOCH = date(1970, 1, 1).toordinal()
#: Days of a year before the end of each month, without February 29.
MONTH_ENDS = np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
MAX_FRACTION = 1e15  # of a second: 15 digits


class Moment(NamedTuple):
    """A date, or a date and a time of day; or arrays of them."""

    years: Any  # years since the beginning of 2000, UTC; NaN for no date
    weekday: Any  # Monday is 0; local time, as the fields below; -1 for no date
    month: Any
    hour: Any  # -1 also for a date without a time of day


@formula
def years(days: Any, seconds: Any) -> Any:
    """Years since the beginning of 2000: (days + seconds / 86400) / 365.25."""
    return (days + seconds / 86400.0) / DAYS_PER_YEAR


@formula
def whole_number(text: Any, at: Any, count: Any, limit: Any) -> Any:
    """Parse a fixed number of digits; -1 if one is not a digit or the number exceeds a limit."""
    n = 0
    for k in range(at, at + count):
        c = byte(text, k)
        n = n * 10 + (c - 48) if n >= 0 and digit(c) else -1
    return n if n <= limit else -1


@formula
def read_zone(text: Any, at: Any, end: Any) -> tuple[Any, Any]:
    """The UTC offset of the time zone ``text[at:end]`` in seconds, and whether it is valid."""
    at += 1 if byte(text, at) == 32 else 0
    size = end - at
    ahead, good = 0, False
    if size == 1:
        good = byte(text, at) == 90
    elif size == 3 and byte(text, at) == 85:
        good = byte(text, at + 1) == 84 and byte(text, at + 2) == 67
    elif (size == 3 or size == 5 or (size == 6 and byte(text, at + 3) == 58)) and byte(text, at) in (43, 45):
        hours = whole_number(text, at + 1, 2, 23)
        minutes = whole_number(text, end - 2, 2, 59) if size > 3 else 0
        good = hours >= 0 and minutes >= 0
        ahead = (-60 if byte(text, at) == 45 else 60) * (60 * hours + minutes)
    return ahead, good


@formula
def read_date(text: Any, at: Any, end: Any) -> tuple[Any, Any, Any, Any]:
    """Parse ``text[at:end]``: the fields of a :class:`Moment`."""
    size, ordinal = end - at, 0
    good = size >= 10 and byte(text, at + 4) == 45 and byte(text, at + 7) == 45
    year, month, day, hour, minute, second, fraction, ahead = 0, 0, 0, -1, 0, 0, 0.0, 0
    if good:
        year, month = whole_number(text, at, 4, 9999), whole_number(text, at + 5, 2, 12)
        day = whole_number(text, at + 8, 2, 31)
        good = year > 0 and month > 0 and day > 0
    if good:
        years_before, leap = year - 1, year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        good = day <= MONTH_ENDS[month] - MONTH_ENDS[month - 1] + (1 if leap and month == 2 else 0)
        ordinal = 365 * years_before + years_before // 4 - years_before // 100 + years_before // 400
        ordinal += MONTH_ENDS[month - 1] + (1 if leap and month > 2 else 0) + day
    if good and size > 10:
        good = size >= 16 and byte(text, at + 10) in (32, 84) and byte(text, at + 13) == 58
        if good:
            hour, minute = whole_number(text, at + 11, 2, 23), whole_number(text, at + 14, 2, 59)
            at += 16
        if good and end - at >= 3 and byte(text, at) == 58:
            second = whole_number(text, at + 1, 2, 59)
            at += 3
            if end - at >= 2 and byte(text, at) == 46 and digit(byte(text, at + 1)):
                at += 1
                scale = 1.0
                while at < end and digit(byte(text, at)) and scale <= MAX_FRACTION:
                    fraction = 10.0 * fraction + (byte(text, at) - 48)  # exact
                    scale *= 10.0
                    at += 1
                fraction /= scale
                good = scale <= MAX_FRACTION
        good = good and hour >= 0 and minute >= 0 and second >= 0
        if good and at < end:
            ahead, good = read_zone(text, at, end)
    if not good:
        return np.nan, -1, -1, -1
    seconds = 3600 * hour + 60 * minute + second + fraction if hour >= 0 else 0.0
    return years(ordinal - EPOCH, seconds - ahead), (ordinal + 6) % 7, month, hour


@formula
def read_dates(text: Any, starts: Any, ends: Any, time: Any, weekday: Any, month: Any, hour: Any) -> None:
    """Fill arrays with the fields of dates, given by their places in a text."""
    for k in range(len(starts)):
        time[k], weekday[k], month[k], hour[k] = read_date(text, starts[k], ends[k])


def moment(text: str) -> Moment | None:
    """Parse an ISO date or time; None for any other text. Times without a zone are UTC.

    >>> moment("2024-03-05T12:30")
    Moment(years=24.17664841432809, weekday=1, month=3, hour=12)
    >>> moment("2000-01-01 02:00+02:00"), moment("2023-02-29")
    (Moment(years=0.0, weekday=5, month=1, hour=2), None)
    """
    raw = text.encode("utf-8", "replace")
    time, weekday, month, hour = read_date(raw, 0, len(raw))
    return None if month < 0 else Moment(float(time), int(weekday), int(month), int(hour))


def moments_in(texts: Any, *, compiled: bool = True) -> Moment:
    """Parse an Arrow array of large strings without nulls, each like :func:`moment`.

    >>> import pyarrow as pa
    >>> found = moments_in(pa.array(["2024-03-05T12:30", "2024-03-05", "March"], pa.large_string()))
    >>> found.years.round(4).tolist(), found.month.tolist(), found.hour.tolist()
    ([24.1766, 24.1752, nan], [3, 3, -1], [12, -1, -1])
    """
    count = len(texts)
    found = Moment(np.empty(count), *(np.empty(count, np.int64) for _ in range(3)))
    if count:
        _, offsets, raw = texts.buffers()
        ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + count + 1]
        text = np.frombuffer(raw or b"", np.uint8)
        ready(read_dates, compiled, counted=False)(text, ends[:-1], ends[1:], *found)
    return found


def moments_of(days: Any, seconds: Any, ahead: Any, timed: Any, good: Any) -> Moment:
    """Dates from local days since 1970, seconds of the day, and seconds that local time is ahead of UTC.

    ``timed`` marks dates with a time of day, ``good`` marks valid dates.
    """
    time = years(days - (EPOCH - UNIX_EPOCH), seconds - ahead)
    month = days.view("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1
    parts: list[NDArray[np.int64]] = [(days + 3) % 7, month, np.where(timed, (seconds // 3600.0).astype(np.int64), -1)]
    return Moment(np.where(good, time, np.nan), *(np.where(good, part, -1) for part in parts))
