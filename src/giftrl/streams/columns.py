"""Roles of the columns of a table: label, weight, numbers, categories, dates, text."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from giftrl.errors import BadSource, Given, InvalidInput, UnknownName, require
from giftrl.ops import validated

#: The names of the label where none is given, in order of preference and in upper or lower case.
LABEL_NAMES = ("label", "target", "y", "class")
#: Spellings of a missing number.
MISSING_NUMBERS = ("NA", "N/A", "null", "NULL", "?")

Reference = str | int


class Kind:
    """The role of a column."""

    LABEL = "label"
    WEIGHT = "weight"
    IGNORED = "ignored"
    NUMBER = "number"  # the feature "column", with the number as its value, or "column=missing"; 0 adds nothing
    CATEGORY = "category"  # the feature "column=value", with value 1
    NUMBERS = "numbers"  # a list: the features "column^0", "column^1", ...
    CATEGORIES = "categories"  # a list of categories: a feature for each
    DATE = (
        "date"  # the number "column", in years since 2000, and "column^weekday=Mon", "column^month=3", "column^hour=12"
    )
    TEXT = "text"  # the features "column=word", with value 1, for the words that are in the text

    ALL = (LABEL, WEIGHT, IGNORED, NUMBER, CATEGORY, NUMBERS, CATEGORIES, DATE, TEXT)
    WRITTEN = (CATEGORY, DATE, TEXT)  # those that CSV delivers as text


@validated
class Columns(NamedTuple):
    """Options for tables: CSV, Parquet, Arrow, and JSON, whose keys are columns.

    A column is given by its name or by its number: 0 is the first and -1 the last.

    Args:
        label: the column with the label. If none is given: the one that is called label, target, y or class; else the
            last one. In JSON lines: the first of these names that the first object has.
        weight: the column with the weight of the row. If none is given every row weighs 1; in JSON lines with a
            "features" object, the key "weight".
        ignore: columns to leave out.
        categorical: columns whose values are categories even if they are numbers or dates. Text is always
            categorical.
        date: columns of ISO dates and times. Tables show by themselves which these are; in JSON they must be given.
        text: columns of text whose words are features, each with value 1 if the text has it.
        delimiter: between the columns of CSV; found among tab, semicolon, comma and bar if not given.
        header: whether CSV begins with the names of its columns; found if not given.
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
        require(good, "delimiter", mark, "must be one character that is no part of numbers or lines", "try ','")


class Schema(NamedTuple):
    """Names and roles of columns, decided once and then the same for all sources.

    >>> schema = Schema(("y", "age"), ("label", "number"))
    >>> Schema.restore(schema.state()) == schema
    True
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]

    def state(self) -> dict[str, list[str]]:
        """The schema as :meth:`restore` takes it; fits into JSON."""
        return {"names": list(self.names), "kinds": list(self.kinds)}

    @staticmethod
    def restore(state: Mapping[str, Any]) -> "Schema":
        """The schema that a state was taken from."""
        names, kinds = tuple(state.get("names", ())), tuple(state.get("kinds", ()))
        rule = f"must have a kind for each name, and has {len(names)} names and {len(kinds)} kinds"
        require(len(names) == len(kinds), "schema", state, rule, "use what Schema.state() gave")
        for kind in kinds:
            if kind not in Kind.ALL:
                raise UnknownName("schema", kind, Kind.ALL)
        return Schema(names, kinds)

    @property
    def label(self) -> str | None:
        """The name of the column of labels, or None."""
        return next((name for name, kind in zip(self.names, self.kinds, strict=True) if kind == Kind.LABEL), None)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> "Schema":
        """The schema in a JSON file: ``{"names": [...], "kinds": [...]}``, or that under the key "schema"."""
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
        counts = Counter(schema.names)
        for rule, bad in (
            ("has the name {} twice", [name for name in counts if counts[name] > 1]),
            ("has the kind {} twice", [kind for kind in (Kind.LABEL, Kind.WEIGHT) if schema.kinds.count(kind) > 1]),
        ):
            require(
                not bad, "schema", str(path), rule.format(repr(*bad[:1])) if bad else "", "leave one out, or ignore it"
            )
        return schema

    def kinds_of(self, names: Sequence[str], source: str, columns: Columns) -> tuple[str, ...]:
        """The roles of the columns of another source, by their names; label and weight may be missing.

        Args:
            names: of the columns.
            source: for messages.
            columns: what the user said. Columns that are not known may be ignored, or be the label or the weight; the
                others must be what they are known for.
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
        if unknown and not {Kind.NUMBER, Kind.NUMBERS} & set(self.kinds):  # a schema of JSON lines names no numbers
            raise BadSource(
                source,
                f"has {_some(unknown)}, of which the model knows nothing; it learnt either rows of JSON, or a table of "
                f"{_some(self.names)} alone",
                [
                    "give JSON lines if it learnt these; else leave the column out, or give ",
                    Given("ignore", unknown[0]),
                ],
            )
        if unknown:
            raise BadSource(
                source,
                f"has {_some(unknown)}, which the table that the columns were learned from had not",
                ["leave it out, or give ", Given("ignore", unknown[0]), f"; known: {_some(self.names)}"],
            )
        present = set(names)
        lost = [
            name
            for name, kind in by_name.items()
            if name not in present and kind not in (Kind.LABEL, Kind.WEIGHT, Kind.IGNORED)
        ]
        if lost:
            raise BadSource(source, f"lacks {_some(lost)}", "add it; empty fields will do if the values are not known")
        return tuple(by_name[name] for name in names)


def _said(columns: Columns) -> Iterator[tuple[str, Reference, tuple[str, ...]]]:
    """For each column that the user named: the argument, the name or number, and the kinds that it may have."""
    for argument, references, kinds in (
        ("label", (columns.label,), (Kind.LABEL,)),
        ("weight", (columns.weight,), (Kind.WEIGHT,)),
        ("ignore", columns.ignore, (Kind.IGNORED,)),
        ("categorical", columns.categorical, (Kind.CATEGORY, Kind.CATEGORIES)),
        ("date", columns.date, (Kind.DATE,)),
        ("text", columns.text, (Kind.TEXT,)),
    ):
        for reference in references:
            if reference is not None:
                yield argument, reference, kinds


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ("the column " if len(names) == 1 else "the columns ") + shown + more


def decide(columns: Columns, names: Sequence[str], found: Sequence[str], source: str) -> Schema:
    """Decide the role of each column of a table; ``found`` has the kind of its values."""
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise BadSource(source, f"has two columns of the same name: {_some(twice)}", "rename one")
    kinds = list(found)
    taken: dict[int, str] = {}

    def take(argument: str, reference: Reference, kind: str) -> None:
        at = find(names, reference, argument)
        if taken.setdefault(at, argument) != argument:
            raise InvalidInput(
                argument, reference, f"must not be the column of {taken[at]} as well", f"columns: {_some(names)}"
            )
        kinds[at] = kind

    for reference in columns.ignore:
        take("ignore", reference, Kind.IGNORED)
    if columns.weight is not None:
        take("weight", columns.weight, Kind.WEIGHT)
    for reference in columns.categorical:
        at = find(names, reference, "categorical")
        listed = kinds[at] in (Kind.NUMBERS, Kind.CATEGORIES)
        take("categorical", reference, Kind.CATEGORIES if listed else Kind.CATEGORY)
    for reference in columns.date:
        take("date", reference, Kind.DATE)
    for reference in columns.text:
        take("text", reference, Kind.TEXT)
    label = columns.label if columns.label is not None else _usual_label(names, taken)
    if label is not None:
        take("label", label, Kind.LABEL)
    return Schema(tuple(names), tuple(kinds))


def _usual_label(names: Sequence[str], taken: Mapping[int, str]) -> int | None:
    lower = [name.lower() for name in names]
    for name in LABEL_NAMES:
        if name in lower:
            at = lower.index(name)
            return None if at in taken else at
    free = [at for at in range(len(names)) if at not in taken]
    return free[-1] if free else None


def find(names: Sequence[str], reference: Reference, argument: str) -> int:
    """The number of the column that a name or number refers to."""
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
    """The group of a column: what is before a caret, or all of its name."""
    return name.partition("^")[0]
