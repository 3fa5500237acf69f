"""Dates and times, written as ISO 8601 has them: the time as a number of years, and its weekday, month and hour."""

import re
from datetime import date
from typing import Any, NamedTuple

#: 2024-03-05, 2024-03-05T12:30, 2024-03-05 12:30:00.5; a time may have a zone: Z, UTC, +02, +0200 or +02:00.
ISO = (
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}(?:\.[0-9]+)?))?"
    r"(?P<zone> ?(?:Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)
#: What a bad date should have been.
EXPECTED = (
    "an ISO date that exists, such as 2024-03-05 or 2024-03-05T12:30; if these are categories, name the column in "
    "categorical"
)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Time is counted from the beginning of 2000, in UTC, in years of so many days.
EPOCH, DAYS = date(2000, 1, 1), 365.25
_ISO = re.compile(ISO)


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

    >>> offset("Z"), offset(" +0230"), offset("-05"), offset("+25:00")
    (0, 9000, -18000, None)
    """
    digits = re.sub("[^0-9]", "", zone).ljust(4, "0")
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
    hour, minute, second = int(found["hour"] or 0), int(found["minute"] or 0), float(found["second"] or 0)
    ahead = offset(found["zone"] or "")
    try:
        day = date(int(found["year"]), int(found["month"]), int(found["day"]))
    except ValueError:
        return None
    if hour > 23 or minute > 59 or second >= 60.0 or ahead is None:
        return None
    seconds = 3600.0 * hour + 60.0 * minute + second - ahead
    return Moment(years((day - EPOCH).days, seconds), day.weekday(), day.month, None if found["hour"] is None else hour)
