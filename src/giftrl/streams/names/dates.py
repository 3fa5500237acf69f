"""ISO 8601 dates and times as features: the time in years, and its weekday, month and hour."""

import re
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: 2024-03-05, 2024-03-05T12:30, 2024-03-05 12:30:00.5; a time may have a zone: Z, UTC, +02, +0200 or +02:00.
ZONE_PATTERN = r" ?(?:Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)"
ISO_PATTERN = (
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,15}))?)?"
    rf"(?P<zone>{ZONE_PATTERN})?)?"
)
#: What a bad date should have been.
EXPECTED_DATE = (
    "an ISO date that exists, such as 2024-03-05 or 2024-03-05T12:30; if these are categories, --categorical COLUMN "
    "reads them as such"
)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Time is counted from the beginning of 2000, in UTC, in years of so many days.
EPOCH, DAYS_PER_YEAR = date(2000, 1, 1), 365.25
_ISO, _ZONE = re.compile(ISO_PATTERN), re.compile(ZONE_PATTERN)
_DIGITS = str.maketrans("", "", " ZUTC+-:")
_EPOCH_DAY, _LAST_DAY_OF_YEAR_0 = (EPOCH - date(1970, 1, 1)).days, (date.min - date(1970, 1, 1)).days - 1


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
    return (days + seconds / 86400.0) / DAYS_PER_YEAR


def offset(zone: str) -> int | None:
    """The seconds by which the clocks of a zone are ahead of UTC; None if there is no such zone.

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
    """Parse an ISO date or time; None for any other text. Times without a zone are UTC.

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


_NO_DATE = Moment(np.nan, -1, -1, None)


class MomentArrays(NamedTuple):
    """Dates and times, as arrays; see :class:`Moment`."""

    years: NDArray[np.float64]  # NaN for what is no date
    weekday: NDArray[np.int64]  # this and the rest are -1 for what is no date
    month: NDArray[np.int64]
    hour: NDArray[np.int64]  # -1 for a date without a time of day too


def moments_of(days: Any, seconds: Any, ahead: Any, timed: Any, good: Any) -> MomentArrays:
    """Dates from days since 1970 and seconds of the day, both of local time, and the seconds that this is ahead of UTC.

    Args:
        days, seconds, ahead: as arrays.
        timed: which of them have a time of day.
        good: which of them are dates at all.
    """
    time = years(days - _EPOCH_DAY, seconds - ahead)
    month = days.view("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1
    parts = (days + 3) % 7, month, np.where(timed, np.floor(seconds / 3600.0).astype(np.int64), -1)
    return MomentArrays(np.where(good, time, np.nan), *(np.where(good, part, -1) for part in parts))


def moments_in(texts: Any) -> MomentArrays:
    """The dates in an Arrow array of text without nulls; each as :func:`moment` reads it.

    A regular expression checks the form and Arrow reads the digits. If a text has the form and is no date, such as
    2023-02-29, or has more than six digits behind the point, :func:`moment` reads them all.

    >>> import pyarrow as pa
    >>> found = moments_in(pa.array(["2024-03-05T12:30", "2024-03-05", "March"], pa.large_string()))
    >>> found.years.round(4).tolist(), found.month.tolist(), found.hour.tolist()
    ([24.1766, 24.1752, nan], [3, 3, -1], [12, -1, -1])
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    def as_integers(array: Any) -> NDArray[np.int64]:
        return np.frombuffer(array.cast(pa.int64()).fill_null(0).buffers()[1], np.int64, len(array), 8 * array.offset)

    matched = pc.match_substring_regex(texts, f"^{ISO_PATTERN}$")
    local = pc.replace_substring_regex(texts, f"(:[0-9]{{2}}(?:[.][0-9]+)?){ZONE_PATTERN}$", r"\1")
    zoned = pc.and_(matched, pc.not_equal(pc.binary_length(local), pc.binary_length(texts)))
    sizes = pc.binary_length(local).filter(zoned).to_pylist()
    zones = [text[size:] for text, size in zip(texts.filter(zoned).to_pylist(), sizes, strict=True)]
    offsets = {zone: offset(zone) for zone in set(zones)}
    try:
        stored = as_integers(pc.if_else(matched, local, None).cast(pa.timestamp("us")))
    except pa.ArrowInvalid:
        stored = None
    if stored is None or None in offsets.values():
        found = [moment(text) or _NO_DATE for text in texts.to_pylist()]
        return MomentArrays(
            *(np.array([-1 if part is None else part for part in each]) for each in zip(*found, strict=True))
        )
    ahead = np.zeros(len(texts), np.int64)
    ahead[np.flatnonzero(as_integers(zoned))] = [offsets[zone] or 0 for zone in zones]
    days, rest = np.divmod(stored, 86_400_000_000)
    whole, fraction = np.divmod(rest, 1_000_000)
    good = (as_integers(matched) == 1) & (days > _LAST_DAY_OF_YEAR_0)
    return moments_of(days, whole + fraction / 1e6, ahead, as_integers(pc.binary_length(texts)) > 10, good)
