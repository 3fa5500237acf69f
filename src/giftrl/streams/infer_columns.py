"""Infer the roles of columns from their first fields: dates, numbers with commas or units, long texts, ids."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import BadSource, Given, Message, between
from giftrl.streams.columns import Columns, Kind, Schema, find
from giftrl.streams.names.dates import moment
from giftrl.streams.names.objects import words_of

#: How many fields of a column are looked at, one by one.
FIELDS_TO_INFER = 200
#: With fewer rows it is no wonder that they are all different.
MIN_ROWS_TO_COMPARE = 20
#: A column whose fields have more words on average is text, and not a category.
MAX_CATEGORY_WORDS = 4

_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]*),[0-9]+")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_CLOCK = (
    r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?: ?[ap]\.?m\.?)?(?: ?(?:[a-z]{3,4}|[+-][0-9]{2}:?[0-9]{2}))?"
)
#: Dates in spellings that have more than one meaning, or a meaning in one language only.
_DATE = re.compile(
    rf"(?:[a-z]{{2,9}}[,.]? +)?(?:[0-9]{{1,2}}/[0-9]{{1,2}}/(?:[0-9]{{2}}|[0-9]{{4}})"
    rf"|[0-9]{{1,2}}([.-])[0-9]{{1,2}}\1(?:19|20)[0-9]{{2}}|(?:19|20)[0-9]{{2}}([/.])[0-9]{{1,2}}\2[0-9]{{1,2}}"
    rf"|[0-9]{{1,2}}[. -]*{_MONTH}[ ,-]*(?:[0-9]{{2}}|[0-9]{{4}})|{_MONTH} *[0-9]{{1,2}}(?:st|nd|rd|th)?,? +[0-9]{{4}})"
    rf"(?:[ ,T]+{_CLOCK})?",
    re.IGNORECASE,
)
_CURRENCY = r"(?:[$€£¥₹₩₽₺₪฿]|USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|BRL|Rs\.?)"
#: A number with a currency before it, or with a currency, a percent sign or a unit behind it.
_UNIT = re.compile(
    rf"[+-]?(?:(?P<currency>{_CURRENCY}) ?[+-]?)?(?:[0-9]+(?:[.,][0-9]+)*|\.[0-9]+)"
    rf"(?(currency)| ?(?:[%‰]|{_CURRENCY}|(?P<letters>[°µ]?[a-zA-Z]{{1,7}}(?:/[a-z]{{1,4}})?[²³]?)))"
)
#: Of so many different numbers letters behind them are a unit: 2D and 3D are names.
MIN_NUMBERS_WITH_UNIT = 3
_ID = re.compile(r"(?:^|[^a-zA-Z])(?:id|ID|Id|uuid|UUID|guid|GUID)(?:$|[^a-zA-Z])|[a-z0-9]I[dD]$")
#: Counters of these names are time, and not ids.
_TIME = re.compile(r"t|time|date|second|minute|hour|day|week|month|quarter|year|step|age", re.IGNORECASE)


class InferredColumn(NamedTuple):
    """The inferred kind of a column, and remarks about its fields."""

    kind: str
    comma: str = ""  # one of its numbers with a comma, if these are most of its fields
    date: str = ""  # one of its dates that can be read in several ways
    unit: str = ""  # one of its numbers with a unit
    words: float = 0.0  # how many a field has on average, where texts of many words are mostly different
    different: bool = False  # whether it seems to be an id: different in each row


def infer_from_texts(fields: Sequence[str], rows: int, distinct: int) -> InferredColumn:
    """Infer the kind of a column of text.

    Args:
        fields: some of its fields that are not missing, without spaces around them.
        rows: how many fields it has.
        distinct: how many of them are different.

    >>> infer_from_texts(["2024-03-05", "2024-03-06"], 2, 2).kind, infer_from_texts(["5/3/24", "6/3/24"], 2, 2).kind
    ('date', 'ignored')
    >>> infer_from_texts(["3,14", "1.234,56", "-"], 3, 3).comma
    '3,14'
    >>> infer_from_texts(["$99.10", "$1,250.00", "$5"], 3, 3).unit, infer_from_texts(["1st", "2nd", "3rd"], 3, 3).unit
    ('$99.10', '')
    """
    if not fields:
        return InferredColumn(Kind.CATEGORY)
    comma = [field for field in fields if _DECIMAL.fullmatch(field) or _THOUSANDS.fullmatch(field)]
    if 2 * len(comma) > len(fields):
        telling = [field for field in comma if not _THOUSANDS.fullmatch(field)]
        return InferredColumn(Kind.CATEGORY, comma=(telling or comma)[0])
    if _most(fields, moment):
        return InferredColumn(Kind.DATE)
    if _most(fields, _DATE.fullmatch):
        return InferredColumn(Kind.IGNORED, date=fields[0])
    if _same_unit(fields, distinct):
        return InferredColumn(Kind.CATEGORY, unit=fields[0])
    words = sum(len(words_of(field)) for field in fields) / len(fields)
    if words > MAX_CATEGORY_WORDS and 2 * distinct > rows:
        return InferredColumn(Kind.CATEGORY, words=words if rows >= MIN_ROWS_TO_COMPARE else 0.0)
    return InferredColumn(Kind.CATEGORY, different=rows >= MIN_ROWS_TO_COMPARE and distinct == rows)


def infer_from_numbers(name: str, values: NDArray[Any]) -> InferredColumn:
    """Infer the kind of a column of numbers: distinct whole numbers are ids if the name of the column says so.

    So are those that count the rows from 0 or 1, unless they are called time.

    >>> squares = np.arange(50) ** 2
    >>> infer_from_numbers("user_id", squares).different, infer_from_numbers("paid", squares).different
    (True, False)
    """
    if len(values) < MIN_ROWS_TO_COMPARE:
        return InferredColumn(Kind.NUMBER)
    counts = values[0] in (0, 1) and values[1] == values[0] + 1 and not _TIME.fullmatch(name)
    if counts and (values[1:] == values[:-1] + 1).all():
        return InferredColumn(Kind.NUMBER, different=True)
    called = _ID.search(name) is not None and bool((np.floor(values) == values).all())
    return InferredColumn(Kind.NUMBER, different=called and len(np.unique(values)) == len(values))


def infer_from_values(name: str, values: Sequence[Any]) -> InferredColumn:
    """Infer the kind of a key of JSON objects from its values, without lists and nulls.

    >>> infer_from_values("when", ["2024-03-05", ""]).kind, infer_from_values("when", ["2024-03-05", 3]).kind
    ('date', 'category')
    """
    if all(isinstance(value, (int, float)) for value in values):
        return infer_from_numbers(name, np.array(values, np.float64))
    if not all(isinstance(value, str) for value in values):
        return InferredColumn(Kind.CATEGORY)
    return infer_from_texts([value for value in values if value], len(values), len(set(values)))


def _most(fields: Sequence[str], good: Callable[[str], object]) -> bool:
    """True if at least nine out of ten fields are good: the others are mistakes to report."""
    bad = 0
    for field in fields:
        bad += good(field) is None
        if 10 * bad > len(fields):
            return False
    return True


def _same_unit(fields: Sequence[str], distinct: int) -> bool:
    """True if nine out of ten fields are percents or amounts of money, or have the unit of the first field."""

    def unit(field: str) -> str | None:
        found = _UNIT.fullmatch(field)
        return found and (found["letters"] or "").removesuffix("s")  # 1 month, 2 months

    first = unit(fields[0])
    if first is None or (first and distinct < MIN_NUMBERS_WITH_UNIT):
        return False
    return _most(fields, lambda field: True if unit(field) == first else None)


def unasked(schema: Schema, looks: Mapping[str, InferredColumn], columns: Columns) -> dict[str, InferredColumn]:
    """The columns whose inferred kind was used because nobody gave another one."""
    given = (*columns.ignore, *columns.categorical, *columns.date, *columns.text)
    asked = {schema.names[find(schema.names, each, "columns")] for each in given}
    kinds = dict(zip(schema.names, schema.kinds, strict=True))
    return {name: look for name, look in looks.items() if name not in asked and kinds[name] == look.kind}


def remarks(seen: Mapping[str, InferredColumn], source: str, delimiter: str | None = None) -> tuple[Message, ...]:
    """Remarks about columns for users, one for each kind; raises an error for numbers with commas.

    >>> from giftrl.errors import render
    >>> print(*map(render, remarks({"id": InferredColumn(Kind.NUMBER, different=True)}, "a.csv")))
    id is different in every row, and teaches nothing about new ones; ignore='id' leaves it out
    """
    for name, look in seen.items():
        if look.comma:
            raise _no_commas(name, look.comma, source, delimiter)
    said = list[Message]()
    dates = [name for name, look in seen.items() if look.date]
    if dates:
        looks_, is_ = ("look", "are") if len(dates) > 1 else ("looks", "is")
        said.append(
            [
                f"{_some(dates)} {looks_} like dates that can be read in several ways, such as "
                f"{seen[dates[0]].date!r}, and {is_} ignored; write 2024-03-05, or give ",
                *_each("categorical", dates),
            ]
        )
    units = [name for name, look in seen.items() if look.unit]
    if units:
        look_, is_ = ("look", "are") if len(units) > 1 else ("looks", "is")
        said.append(
            f"{_some(units)} {look_} like numbers with a unit ({seen[units[0]].unit}), and {is_} read as categories; "
            "remove the unit to have numbers"
        )
    texts = [name for name, look in seen.items() if look.words]
    if texts:
        is_ = "are" if len(texts) > 1 else "is"
        said.append(
            [
                f"{_some(texts)} {is_} text of many words ({seen[texts[0]].words:.0f} on average), read as a category "
                "that hardly occurs twice; ",
                *_each("text", texts),
                " makes features of the words",
            ]
        )
    ids = [name for name, look in seen.items() if look.different]
    if ids:
        is_, teaches, it = ("are", "teach", "them") if len(ids) > 1 else ("is", "teaches", "it")
        said.append(
            [
                f"{_some(ids)} {is_} different in every row, and {teaches} nothing about new ones; ",
                *_each("ignore", ids),
                f" leaves {it} out",
            ]
        )
    return tuple(said)


def _no_commas(name: str, value: str, source: str, delimiter: str | None) -> BadSource:
    """The error for a column of numbers with commas; with a command that converts CSV, whose delimiter is given."""
    remedy = "write 3.14 in place of 3,14"
    if _THOUSANDS.fullmatch(value):  # as are all others
        remedy = f"write {value.replace(',', '')} if the comma is between thousands, and a dot if it is a decimal comma"
    elif delimiter is not None:
        decimal = "decimal=','" + (", thousands='.'" if "." in value else "")
        read = f"pd.read_csv({source!r}, sep={delimiter!r}, {decimal})"
        remedy += f" (python -c \"import pandas as pd; {read}.to_csv('new.csv', index=False)\")"
    rule = f"the column {name!r} has numbers with a comma, such as {value!r}"
    otherwise = (Given("categorical", name), " or ", Given("ignore", name))
    return BadSource(source, rule, [f"{remedy}; if they are no numbers, give ", *otherwise])


def _some(names: Sequence[str]) -> str:
    """Names in a sentence; not more than six."""
    shown = list(names) if len(names) <= 6 else [*names[:5], f"{len(names) - 5} others"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _each(argument: str, names: Sequence[str]) -> list[str | Given]:
    """An argument for each of some names, not more than six."""
    shown = [Given(argument, name) for name in names[:6]]
    return between([*shown, "..."] if len(names) > 6 else shown, " ")
