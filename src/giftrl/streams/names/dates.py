"""Dates and times, written as ISO 8601 has them: the time as a number of years, and its weekday, month and hour."""

import re
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: 2024-03-05, 2024-03-05T12:30, 2024-03-05 12:30:00.5; a time may have a zone: Z, UTC, +02, +0200 or +02:00.
ZONE = r" ?(?:Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)"
ISO = (
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,15}))?)?"
    rf"(?P<zone>{ZONE})?)?"
)
#: What a bad date should have been.
EXPECTED = (
    "an ISO date that exists, such as 2024-03-05 or 2024-03-05T12:30; if these are categories, --categorical COLUMN "
    "reads them as such"
)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Time is counted from the beginning of 2000, in UTC, in years of so many days.
EPOCH, DAYS = date(2000, 1, 1), 365.25
_ISO, _ZONE = re.compile(ISO), re.compile(ZONE)
_DIGITS = str.maketrans("", "", " ZUTC+-:")
_FIRST = (EPOCH - date(1970, 1, 1)).days


class Moment(NamedTuple):
    """A date, or a date and a time of day."""

    years: Any  # since the beginning of 2000, UTC
    weekday: int  # from Monday, 0; this and the rest as they are written, and not in UTC
    month: int
    hour: int | None  # None for a date without a time of day


def years(days: Any, seconds: Any) -> Any:
    """A time in years since the beginning of 2000: (days + seconds / 86400) / 365.25.

    >>> years(8766, 0), years(-0.5, 43200)
    (24.0, 0.0)
    """
    return (days + seconds / 86400.0) / DAYS


def offset(zone: str) -> int | None:
    """The seconds by which the clocks of a zone are ahead of UTC; None where there is no such zone.

    >>> offset("Z"), offset(" +0230"), offset("-05"), offset("+25:00"), offset("PM")
    (0, 9000, -18000, None, None)
    """
    if _ZONE.fullmatch(zone) is None:
        return None
    digits = zone.translate(_DIGITS).ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        return None
    return (-60 if "-" in zone else 60) * (60 * hours + minutes)


def moment(text: str) -> Moment | None:
    """What a text says that is an ISO date; None for any other text. A time without a zone is taken for UTC.

    >>> moment("2024-03-05T12:30")
    Moment(years=24.17664841432809, weekday=1, month=3, hour=12)
    >>> moment("2000-01-01 02:00+02:00"), moment("2023-02-29")
    (Moment(years=0.0, weekday=5, month=1, hour=2), None)
    """
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    fraction = found["fraction"] or "0"
    ahead = offset(found["zone"] or "Z")
    try:
        day = date(int(found["year"]), int(found["month"]), int(found["day"]))
    except ValueError:
        return None
    if hour > 23 or minute > 59 or second > 59 or ahead is None:
        return None
    seconds = 3600 * hour + 60 * minute + second + int(fraction) / 10 ** len(fraction) - ahead
    return Moment(years((day - EPOCH).days, seconds), day.weekday(), day.month, None if found["hour"] is None else hour)


class Moments(NamedTuple):
    """Dates and times, as arrays; see :class:`Moment`."""

    years: NDArray[np.float64]  # NaN for what is no date
    weekday: NDArray[np.int64]  # this and the rest are -1 for what is no date
    month: NDArray[np.int64]
    hour: NDArray[np.int64]  # -1 for a date without a time of day too


def moments_of(days: Any, seconds: Any, ahead: Any, timed: Any, good: Any) -> Moments:
    """Dates from days since 1970 and seconds of the day, both of local time, and the seconds that this is ahead of UTC.

    Args:
        days, seconds, ahead: as arrays.
        timed: which of them have a time of day.
        good: which of them are dates at all.
    """
    time = years(days - _FIRST, seconds - ahead)
    month = days.view("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1
    parts = (days + 3) % 7, month, np.where(timed, np.floor(seconds / 3600.0).astype(np.int64), -1)
    return Moments(np.where(good, time, np.nan), *(np.where(good, part, -1) for part in parts))


def moments_in(text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Moments:
    """The dates ``text[start:end]``, all at once; each as :func:`moment` has it.

    >>> text = np.frombuffer(b"2024-03-05T12:30 March", np.uint8)
    >>> found = moments_in(text, np.array([0, 0, 17]), np.array([16, 10, 22]))
    >>> found.years.round(4).tolist(), found.month.tolist(), found.hour.tolist()
    ([24.1766, 24.1752, nan], [3, 3, -1], [12, -1, -1])
    """
    good = ends - starts >= 10

    def at(where: Any) -> NDArray[np.int64]:
        """The byte at a place, counted from the start; 0 from the end on."""
        places = starts + where
        inside = places < ends
        return np.where(inside, text[np.where(inside, places, 0)] if len(text) else 0, 0).astype(np.int64)

    def number(where: Any, size: int, needed: Any) -> NDArray[np.int64]:
        """The number of so many digits at a place; where it is needed and there is none, there is no date."""
        nonlocal good
        value = np.zeros(len(starts), np.int64)
        for k in range(size):
            digit = at(where + k) - ord("0")
            good = good & (~needed | ((digit >= 0) & (digit <= 9)))
            value = 10 * value + digit
        return np.where(needed & good, value, 0)

    every = np.ones(len(starts), np.bool_)
    year, month, day = number(0, 4, every), number(5, 2, every), number(8, 2, every)
    timed = ends - starts > 10
    hour, minute = number(11, 2, timed), number(14, 2, timed)
    good &= (at(4) == ord("-")) & (at(7) == ord("-"))
    good &= ~timed | (((at(10) == ord("T")) | (at(10) == ord(" "))) & (at(13) == ord(":")))
    with_seconds = timed & (at(16) == ord(":"))
    second = number(17, 2, with_seconds)
    place = np.where(timed, np.where(with_seconds, 19, 16), 10)
    pointed = with_seconds & (at(19) == ord("."))
    fraction, digits, going = np.zeros(len(starts)), np.zeros(len(starts), np.int64), pointed
    while going.any():
        digit = at(20 + digits) - ord("0")
        going = going & (digit >= 0) & (digit <= 9)
        fraction, digits = np.where(going, 10.0 * fraction + digit, fraction), digits + going
    good &= ~pointed | ((digits > 0) & (digits <= 15))
    place = place + np.where(pointed, 1 + digits, 0)
    ahead = np.zeros(len(starts), np.int64)
    zones: dict[bytes, int | None] = {}
    for k in np.flatnonzero(good & (starts + place < ends)).tolist():
        zone = text[starts[k] + place[k] : ends[k]].tobytes()
        if zone not in zones:
            zones[zone] = offset(zone.decode("ascii", "replace"))
        good[k], ahead[k] = zones[zone] is not None, zones[zone] or 0
    first = (12 * (year - 1970) + month - 1).view("M8[M]")
    days = first.astype("M8[D]") + (day - 1)
    good &= (year > 0) & (month >= 1) & (month <= 12) & (days.astype("M8[M]") == first)
    good &= (hour < 24) & (minute < 60) & (second < 60)
    seconds = 3600 * hour + 60 * minute + second + fraction / 10.0**digits
    return moments_of(days.astype(np.int64), seconds, ahead, timed, good)
