"""Roles of the columns of a table: label, weight, numbers, categories, dates, text."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import BadSource, Given, InvalidInput, Message, UnknownName, between, require
from giftrl.ops import validated
from giftrl.streams.names.dates import moment
from giftrl.streams.names.objects import words_of

#: Names of the label if the user gives none, in order of preference; case does not matter.
LABEL_NAMES = ("label", "target", "y", "class")
#: Spellings of a missing number.
MISSING_NUMBERS = ("NA", "N/A", "null", "NULL", "?")

Reference = str | int


class Kind:
    """The role of a column."""

    LABEL = "label"
    WEIGHT = "weight"
    IGNORED = "ignored"
    NUMBER = "number"  # the feature "column" with the number as its value, or "column=missing"; 0 adds no feature
    CATEGORY = "category"  # the feature "column=value", with value 1
    NUMBERS = "numbers"  # a list: the features "column^0", "column^1", ...
    CATEGORIES = "categories"  # a list of categories: a feature for each
    DATE = "date"  # the number "column", in years since 2000; "column^weekday=Mon", "column^month=3", "column^hour=12"
    TEXT = "text"  # the features "column=word", with value 1, for the words that are in the text

    ALL = (LABEL, WEIGHT, IGNORED, NUMBER, CATEGORY, NUMBERS, CATEGORIES, DATE, TEXT)
    WRITTEN = (CATEGORY, DATE, TEXT)  # kinds that CSV reads as text


@validated
class Columns(NamedTuple):
    """Options for tables: CSV, Parquet, Arrow, and JSON, whose keys are columns.

    A column is given by its name or by its number: 0 is the first and -1 the last.

    Args:
        label: the column with the label. Default: the column called label, target, y or class, else the last column; in
        JSON lines, the first of these names in the first object.
        weight: the column with the weight of the row. Default: every weight is 1; in JSON lines with a "features"
        object, the key "weight".
        ignore: columns to leave out.
        categorical: columns whose values are categories even if they are numbers or dates. Text is always
            categorical.
        date: columns of ISO dates and times. They are detected in tables, but must be given for JSON.
        text: columns of text. Each word of a text is a feature with value 1.
        delimiter: the delimiter of CSV. Default: detected among tab, semicolon, comma and bar.
        header: whether CSV begins with the names of its columns. Default: detected.
        missing: spellings of a missing number in columns of numbers. An empty field is always missing.

    >>> Columns(label="clicked", ignore=("id",)).label
    'clicked'
    """

    label: Reference | None = None
    weight: Reference | None = None
    ignore: tuple[Reference, ...] = ()
    categorical: tuple[Reference, ...] = ()
    date: tuple[Reference, ...] = ()
    text: tuple[Reference, ...] = ()
    delimiter: str | None = None
    header: bool | None = None
    missing: tuple[str, ...] = MISSING_NUMBERS

    def validate(self) -> None:
        for argument in ("ignore", "categorical", "date", "text", "missing"):
            value = getattr(self, argument)
            require(isinstance(value, tuple), argument, value, "must be a tuple", f"write ({value!r},)")
        mark = self.delimiter
        good = mark is None or (len(mark) == 1 and mark.isascii() and mark not in '\r\n"0123456789+-.eE')
        require(good, "delimiter", mark, "must be one character that numbers and line ends do not contain", "try ','")


class Schema(NamedTuple):
    """Names and roles of columns, decided by the first source and used for all others.

    >>> schema = Schema(("y", "age"), ("label", "number"))
    >>> Schema.restore(schema.state()) == schema
    True
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]

    def state(self) -> dict[str, list[str]]:
        """The schema as a dict for JSON; :meth:`restore` reads it."""
        return {"names": list(self.names), "kinds": list(self.kinds)}

    @staticmethod
    def restore(state: Mapping[str, Any]) -> "Schema":
        """The schema from a dict that :meth:`state` made."""
        names, kinds = tuple(state.get("names", ())), tuple(state.get("kinds", ()))
        rule = f"must have a kind for each name, and has {len(names)} names and {len(kinds)} kinds"
        require(len(names) == len(kinds), "schema", state, rule, "pass the result of Schema.state()")
        for kind in kinds:
            if kind not in Kind.ALL:
                raise UnknownName("schema", kind, Kind.ALL)
        return Schema(names, kinds)

    @property
    def label(self) -> str | None:
        """The name of the label column, or None."""
        return next((name for name, kind in zip(self.names, self.kinds, strict=True) if kind == Kind.LABEL), None)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> "Schema":
        """The schema in a JSON file: ``{"names": [...], "kinds": [...]}``, or the same under the key "schema"."""
        form = 'write {"names": ["age", "y"], "kinds": ["number", "label"]}, or use what inspect --json prints'
        try:
            given = json.loads(Path(path).read_bytes())
        except ValueError as problem:
            raise InvalidInput("schema", str(path), f"is not JSON ({problem})", form) from None
        given = given.get("schema", given) if isinstance(given, dict) else given
        lists = [given.get(key) for key in ("names", "kinds")] if isinstance(given, dict) else [None]
        good = all(isinstance(each, list) and all(isinstance(one, str) for one in each) for each in lists)
        require(good, "schema", str(path), "must have two lists of text, names and kinds", form)
        try:
            schema = Schema.restore(given)
        except InvalidInput as problem:
            shown = f"{problem.value!r} {problem.rule}" if isinstance(problem, UnknownName) else problem.rule
            raise InvalidInput("schema", str(path), shown, problem.remedy) from None
        names = [name for name, count in Counter(schema.names).items() if count > 1]
        kinds = [kind for kind in (Kind.LABEL, Kind.WEIGHT) if schema.kinds.count(kind) > 1]
        for what, twice in (("name", names), ("kind", kinds)):
            rule = f"has the {what} {twice[0]!r} twice" if twice else ""
            require(not twice, "schema", str(path), rule, "leave one out, or ignore it")
        return schema

    def kinds_of(self, names: Sequence[str], source: str, columns: Columns) -> tuple[str, ...]:
        """Match the columns of another source to this schema by name; label and weight may be missing.

        If the user named columns that are not known, these may be ignored, or be the label or the weight; all others
        must have the role that they are known for.
        """
        by_name = dict(zip(self.names, self.kinds, strict=True))
        for argument, reference, kinds in _said(columns):
            if reference in by_name and reference not in names:
                continue
            name = names[find(names, reference, argument)]
            known = by_name.setdefault(name, kinds[0])
            if known not in kinds:
                rule = f"is known as a column of the kind {known}, and not {kinds[0]}"
                raise InvalidInput(argument, reference, rule, "leave that out, or train anew")
        if columns.label is not None:
            labels = [name for name in names if by_name.get(name) == Kind.LABEL]
            rule = f"is not the column of labels, which is {self.label!r}"
            require(len(labels) < 2, "label", columns.label, rule, ["leave that out, or ", Given("ignore", self.label)])
        unknown = [name for name in names if name not in by_name]
        if unknown:
            ignore, known = Given("ignore", unknown[0]), _some(self.names)
            rule = f"has {_some(unknown)}, which the table that the columns were learned from had not"
            remedy: Message = ["leave it out, or give ", ignore, f"; known: {known}"]
            if not {Kind.NUMBER, Kind.NUMBERS} & set(self.kinds):  # a schema of JSON lines names no numbers
                rule = (
                    f"has {_some(unknown)}, which the model has not seen; it learned from JSON lines, or from a table "
                )
                rule += f"with the columns {known} alone"
                remedy = ["give JSON lines if it learned from them; else leave the column out, or give ", ignore]
            raise BadSource(source, rule, remedy)
        optional = {name for name, kind in by_name.items() if kind in (Kind.LABEL, Kind.WEIGHT, Kind.IGNORED)}
        lost = [name for name in by_name if name not in optional.union(names)]
        if lost:
            raise BadSource(source, f"lacks {_some(lost)}", "add it; empty fields will do if the values are not known")
        return tuple(by_name[name] for name in names)


def _said(columns: Columns) -> Iterator[tuple[str, Reference, tuple[str, ...]]]:
    """Columns named by the user: the argument, the name or number, and the allowed kinds."""
    for argument, references, kinds in (
        ("ignore", columns.ignore, (Kind.IGNORED,)),
        ("weight", (columns.weight,), (Kind.WEIGHT,)),
        ("categorical", columns.categorical, (Kind.CATEGORY, Kind.CATEGORIES)),
        ("date", columns.date, (Kind.DATE,)),
        ("text", columns.text, (Kind.TEXT,)),
        ("label", (columns.label,), (Kind.LABEL,)),
    ):
        for reference in references:
            if reference is not None:
                yield argument, reference, kinds


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ("the column " if len(names) == 1 else "the columns ") + shown + more


def decide(
    columns: Columns, names: Sequence[str], looks: Sequence["InferredColumn"], source: str, delimiter: str | None = None
) -> tuple[Schema, tuple[Message, ...]]:
    """Decide the role of each column of a table from the user's options and the column's fields.

    Also returns remarks about columns whose kind was inferred. ``delimiter`` is the delimiter of CSV.
    """
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise BadSource(source, f"has two columns of the same name: {_some(twice)}", "rename one")
    kinds = [look.kind for look in looks]
    taken: dict[int, str] = {}
    for argument, reference, allowed in _said(columns):
        at = find(names, reference, argument)
        if taken.setdefault(at, argument) != argument:
            rule = f"must not be the column of {taken[at]} as well"
            raise InvalidInput(argument, reference, rule, f"columns: {_some(names)}")
        kinds[at] = allowed[-1 if kinds[at] in (Kind.NUMBERS, Kind.CATEGORIES) else 0]
    label = _usual_label(names, taken) if columns.label is None else None
    if label is not None:
        kinds[label] = Kind.LABEL
    asked = {at for at, argument in taken.items() if argument in ("ignore", "categorical", "date", "text")}
    unasked = {
        name: look
        for at, (name, look) in enumerate(zip(names, looks, strict=True))
        if at not in asked and kinds[at] == look.kind
    }
    return Schema(tuple(names), tuple(kinds)), remarks(unasked, source, delimiter)


def _usual_label(names: Sequence[str], taken: Mapping[int, str]) -> int | None:
    lower = [name.lower() for name in names]
    for name in LABEL_NAMES:
        if name in lower:
            at = lower.index(name)
            return None if at in taken else at
    free = [at for at in range(len(names)) if at not in taken]
    return free[-1] if free else None


def find(names: Sequence[str], reference: Reference, argument: str) -> int:
    """The position of the column with a name or number."""
    if isinstance(reference, str) and reference in names:
        return list(names).index(reference)
    try:
        number = int(reference)
    except ValueError:
        raise UnknownName(argument, reference, names) from None
    good = -len(names) <= number < len(names)
    require(good, argument, reference, f"must be one of {len(names)} columns", f"give a name: {_some(names)}")
    return number % len(names)


def group_of(name: str) -> str:
    """The group of a column: the part before the caret, or the whole name."""
    return name.partition("^")[0]


# Infer the roles of columns from their first fields: dates, numbers with commas or units, long texts, ids.

#: The number of fields of a column that are examined.
FIELDS_TO_INFER = 200
#: With fewer rows, distinct values do not suggest an id.
MIN_ROWS_TO_COMPARE = 20
#: A column with more words per field on average is free text, not a category.
MAX_CATEGORY_WORDS = 4

_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]*),[0-9]+")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_CLOCK = (
    r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?: ?[ap]\.?m\.?)?(?: ?(?:[a-z]{3,4}|[+-][0-9]{2}:?[0-9]{2}))?"
)
#: Dates in ambiguous spellings, or with month names.
_DATE = re.compile(
    rf"(?:[a-z]{{2,9}}[,.]? +)?(?:[0-9]{{1,2}}/[0-9]{{1,2}}/(?:[0-9]{{2}}|[0-9]{{4}})"
    rf"|[0-9]{{1,2}}([.-])[0-9]{{1,2}}\1(?:19|20)[0-9]{{2}}|(?:19|20)[0-9]{{2}}([/.])[0-9]{{1,2}}\2[0-9]{{1,2}}"
    rf"|[0-9]{{1,2}}[. -]*{_MONTH}[ ,-]*(?:[0-9]{{2}}|[0-9]{{4}})|{_MONTH} *[0-9]{{1,2}}(?:st|nd|rd|th)?,? +[0-9]{{4}})"
    rf"(?:[ ,T]+{_CLOCK})?",
    re.IGNORECASE,
)
_CURRENCY = r"(?:[$€£¥₹₩₽₺₪฿]|USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|BRL|Rs\.?)"
#: A number with a currency before it, or a currency, percent sign or unit after it.
_UNIT = re.compile(
    rf"[+-]?(?:(?P<currency>{_CURRENCY}) ?[+-]?)?(?:[0-9]+(?:[.,][0-9]+)*|\.[0-9]+)"
    rf"(?(currency)| ?(?:[%‰]|{_CURRENCY}|(?P<letters>[°µ]?[a-zA-Z]{{1,7}}(?:/[a-z]{{1,4}})?[²³]?)))"
)
#: Letters after a number are a unit only if at least this many numbers differ: 2D and 3D are names.
MIN_NUMBERS_WITH_UNIT = 3
_ID = re.compile(r"(?:^|[^a-zA-Z])(?:id|ID|Id|uuid|UUID|guid|GUID)(?:$|[^a-zA-Z])|[a-z0-9]I[dD]$")
#: Row counters with these names are times, not ids.
_TIME = re.compile(r"t|time|date|second|minute|hour|day|week|month|quarter|year|step|age", re.IGNORECASE)


class InferredColumn(NamedTuple):
    """The inferred kind of a column, and remarks about its fields."""

    kind: str
    comma: str = ""  # an example of a number with a comma, if most fields are like it
    date: str = ""  # an example of an ambiguous date
    unit: str = ""  # an example of a number with a unit
    words: float = 0.0  # words per field on average, for mostly distinct long texts
    different: bool = False  # True if every row has a different value, as an id has


def infer_from_texts(fields: Sequence[str], rows: int, distinct: int) -> InferredColumn:
    """Infer the kind of a column of text from a sample of its present fields.

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
    """Infer the kind of a column of numbers: distinct whole numbers are ids if the column is named like an id.

    Row counters from 0 or 1 are ids too, unless the column is named like a time.

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
    """Infer the kind of a key of JSON objects from its values, without lists and nulls."""
    if all(isinstance(value, (int, float)) for value in values):
        return infer_from_numbers(name, np.array(values, np.float64))
    if not all(isinstance(value, str) for value in values):
        return InferredColumn(Kind.CATEGORY)
    return infer_from_texts([value for value in values if value], len(values), len(set(values)))


def _most(fields: Sequence[str], good: Callable[[str], object]) -> bool:
    """True if at least nine out of ten fields are good."""
    bad = 0
    for field in fields:
        bad += good(field) is None
        if 10 * bad > len(fields):
            return False
    return True


def _same_unit(fields: Sequence[str], distinct: int) -> bool:
    """True if nine out of ten fields are percentages, amounts of money or in the unit of the first."""

    def unit(field: str) -> str | None:
        found = _UNIT.fullmatch(field)
        return found and (found["letters"] or "").removesuffix("s")  # 1 month, 2 months

    first = unit(fields[0])
    if first is None or (first and distinct < MIN_NUMBERS_WITH_UNIT):
        return False
    return _most(fields, lambda field: True if unit(field) == first else None)


#: Remarks about columns: a field of :class:`InferredColumn`, the argument that changes the role, and the text around
#: it.
REMARKS = (
    (
        "date",
        "categorical",
        "{names} {look} like dates that can be read in several ways, such as {first!r}, and {are} ignored; "
        "write 2024-03-05, or give ",
        "",
    ),
    (
        "unit",
        "",
        "{names} {look} like numbers with a unit ({first}), and {are} read as categories; "
        "remove the unit to have numbers",
        "",
    ),
    (
        "words",
        "text",
        "{names} {are} text of many words ({first:.0f} on average), read as a category that hardly occurs twice; ",
        " makes features of the words",
    ),
    (
        "different",
        "ignore",
        "{names} {are} different in every row, and {teach} nothing about new ones; ",
        " leaves {it} out",
    ),
)


def remarks(seen: Mapping[str, InferredColumn], source: str, delimiter: str | None = None) -> tuple[Message, ...]:
    """Remarks about columns for users, one for each kind; raises an error for numbers with commas."""
    for name, look in seen.items():
        if look.comma:
            raise _no_commas(name, look.comma, source, delimiter)
    said = list[Message]()
    for mark, argument, text, end in REMARKS:
        names = [name for name, look in seen.items() if getattr(look, mark)]
        if names:
            forms = {"look": "look", "are": "are", "teach": "teach", "it": "them"}
            if len(names) == 1:
                forms = {"look": "looks", "are": "is", "teach": "teaches", "it": "it"}
            forms |= {"names": _joined(names), "first": getattr(seen[names[0]], mark)}
            given = _each(argument, names) if argument else []
            said.append([text.format(**forms), *given, end.format(**forms)])
    return tuple(said)


def _no_commas(name: str, value: str, source: str, delimiter: str | None) -> BadSource:
    """The error for a column of numbers with commas, with a command that converts a CSV file."""
    remedy = "write 3.14 in place of 3,14"
    if _THOUSANDS.fullmatch(value):  # the delimiter is never a decimal comma then
        remedy = f"write {value.replace(',', '')} if the comma is between thousands, and a dot if it is a decimal comma"
    elif delimiter is not None:
        decimal = "decimal=','" + (", thousands='.'" if "." in value else "")
        read = f"pd.read_csv({source!r}, sep={delimiter!r}, {decimal})"
        remedy += f" (python -c \"import pandas as pd; {read}.to_csv('new.csv', index=False)\")"
    rule = f"the column {name!r} has numbers with a comma, such as {value!r}"
    otherwise = (Given("categorical", name), " or ", Given("ignore", name))
    return BadSource(source, rule, [f"{remedy}; if they are no numbers, give ", *otherwise])


def _joined(names: Sequence[str]) -> str:
    """Names joined for a sentence, at most six."""
    shown = list(names) if len(names) <= 6 else [*names[:5], f"{len(names) - 5} others"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _each(argument: str, names: Sequence[str]) -> list[str | Given]:
    """One command-line argument per name, at most six."""
    shown = [Given(argument, name) for name in names[:6]]
    return between([*shown, "..."] if len(names) > 6 else shown, " ")
