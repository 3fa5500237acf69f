"""The choice of the loss and of the labels of classes, from the labels of the first rows."""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from giftrl.config.class_labels import takes_signs
from giftrl.errors import BadRow, BadSource, Given, InvalidInput, TooFewLabels, UnknownName
from giftrl.losses import EVERY, MULTICLASS
from giftrl.streams.batch import LabelNames, is_exact, listed
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.first_labels import first_labels
from giftrl.streams.source import Stream, find_sources
from giftrl.streams.tables.csv_fallback import NUMBER_PATTERN
from giftrl.training.settings import SIGNS, LabelValues, names_of

AUTO = "auto"
#: The most labels that are whole numbers and yet classes, and the number of rows that each must have on average.
MAX_NUMBER_CLASSES, ROWS_EACH = 20, 5
#: The most names of classes. More are probably text of another kind.
MAX_NAMED_CLASSES = 100
_NUMBER = re.compile(NUMBER_PATTERN)


class Target(NamedTuple):
    """A loss, the labels of its classes, and the reason for both in one line; None if there is nothing to say.

    There are no labels if they are those of the loss: real numbers, or -1 and +1.
    """

    loss: str
    label_values: LabelValues | None
    reason: str | None = None


def look(
    sources: Any,
    loss: str,
    label_values: LabelValues | None,
    *,
    format: str | None,  # noqa: A002
    columns: Columns,
    schema: Schema | None = None,
    on_error: str = "stop",
    **_: Any,
) -> tuple[Target, dict[str, Stream]]:
    """Choose the target of a run by what is given, and by the first rows if that is not enough.

    Args:
        sources: of rows, as for :class:`giftrl.streams.Reader`.
        loss: a name, or "auto".
        label_values: the labels of all classes, or None.
        format, columns, schema, on_error: as for :class:`giftrl.streams.Reader`.

    Returns:
        the target, and what the reader needs of sources that cannot be opened again.
    """
    if label_values is not None:
        return target_of(label_values, loss), {}
    if loss != AUTO and not needs_labels(loss):
        return Target(loss, None), {}
    first = first_labels(sources, format=format, columns=columns, schema=schema)
    try:
        return choose_target(first.labels, loss), first.opened
    except InvalidInput:  # which may be due to rows that cannot be read
        if first.rejected is not None and (on_error == "stop" or not first.rows):
            raise BadRow(first.rejected.source, str(first.rejected), first.rejected, first.rejected.hints) from None
        if not first.rows:
            name = find_sources(sources)[0].name
            raise BadSource(name, "holds no row", "give a file with rows, or leave it out") from None
        if first.labels or not first.names:
            raise
        if columns.label is not None and str(columns.label) not in first.names:
            raise UnknownName("label", columns.label, first.names) from None
        raise _no_label(loss, first.names) from None


def _no_label(loss: str, names: Sequence[str] = ()) -> InvalidInput:
    automatic = loss == AUTO
    rule = (
        "cannot be chosen, as the first rows have no label"
        if automatic
        else "needs labels, and the first rows have none"
    )
    columns = f" ({listed(map(repr, names))})" if names else ""
    remedy = ("name the column of labels with ", Given("label"), columns, ", or choose a loss" if automatic else "")
    return TooFewLabels("loss", loss, rule, remedy)


def chosen_by_rows(loss: str, label_values: LabelValues | None) -> tuple[str, ...]:
    """The settings that the first rows choose if these are given.

    >>> chosen_by_rows("auto", None), chosen_by_rows("hinge", None), chosen_by_rows("squared", None)
    (('loss', 'label_values'), ('label_values',), ())
    """
    if label_values is not None:
        return ("loss",) if loss == AUTO else ()
    return ("loss", "label_values") if loss == AUTO else ("label_values",) if needs_labels(loss) else ()


def placeholder_target(loss: str, label_values: LabelValues | None) -> Target:
    """A target that agrees with what is given, for a run whose checkpoint has the right one."""
    if label_values is not None:
        return target_of(label_values, loss)
    return Target("logistic" if loss == AUTO else loss, SIGNS if loss in MULTICLASS else None)


def needs_labels(loss: str) -> bool:
    """True if a loss is one of classes.

    >>> needs_labels("hinge"), needs_labels("softmax"), needs_labels("squared")
    (True, True, False)
    """
    return loss in MULTICLASS or (loss in EVERY and takes_signs(EVERY.member(loss, "slope"), only=True))


def choose_target(labels: Sequence[str], loss: str = AUTO) -> Target:
    """Choose the loss and the labels of classes.

    Labels are numbers if nine out of ten are; the others are then mistakes, which reading will name. Two different
    labels are two classes. Text, and up to 20 different whole numbers with five rows each or more, are several classes.
    Other numbers are real labels.

    Args:
        labels: of the first rows, as they are written.
        loss: a name, or "auto" to choose it.

    >>> choose_target(["no", "yes", "no"])[:2]
    ('logistic', ('no', 'yes'))
    >>> choose_target(["2.5", "7", "8.25"]).loss, choose_target([*"123"] * 9)[:2]
    ('squared', ('softmax', (1.0, 2.0, 3.0)))
    >>> print(choose_target(["1", "0"], "hinge").reason)
    labels 0 and 1 stand for -1 and +1; --labels chooses others
    """
    values = distinct(labels)
    if loss == AUTO:
        return _automatic(values, len(labels))
    if loss in MULTICLASS:
        _require_several(values, len(labels), loss)
        return _noting_alike(Target(loss, values, f"{_classes(values)}; --labels names others"))
    if not needs_labels(loss):
        return Target(loss, None)
    if values and (set(values) <= set(SIGNS) or set(SIGNS) <= set(values)):
        return Target(loss, None)  # others are mistakes, which reading will name
    _require_several(values, len(labels), loss)
    if len(values) > 2:
        rule = f"takes two labels, and the first rows have {len(values)}: {listed(names_of(values))}"
        remedy = ("use ", Given("loss", "softmax"), ", or name two of them with ", Given("label_values"))
        raise InvalidInput("loss", loss, rule, remedy)
    first, second = names_of(values)
    reason = f"labels {first} and {second} stand for -1 and +1; --labels chooses others"
    return _noting_alike(Target(loss, values, reason))


def distinct(labels: Sequence[str]) -> LabelValues:
    """The different labels among some, sorted; numbers if nine out of ten are, and else all as names.

    A few whole numbers beyond 2^53 are names, too, as float64 would have several of them as one.

    >>> distinct(["2", "10", "2"]), distinct(["9007199254740993", "9007199254740992"])
    ((2.0, 10.0), ('9007199254740992', '9007199254740993'))
    """
    different = sorted(set(labels))
    numbers = [float(label) for label in labels if _NUMBER.fullmatch(label) and math.isfinite(float(label))]
    numeric = 10 * (len(labels) - len(numbers)) <= len(labels)
    exact = len(different) > MAX_NUMBER_CLASSES or all(map(is_exact, different))
    return tuple(sorted(set(numbers))) if numeric and exact else tuple(different)


def names_where_text(labels: Sequence[str]) -> LabelNames | None:
    """The names of labelsif these are text, and few enough for classes.

    >>> names_where_text(["yes", "no", "no"]).names, names_where_text(["1", "0"])
    (('no', 'yes'), None)
    """
    values = distinct(labels)
    named = bool(values) and isinstance(values[0], str) and not _too_many(values, len(labels))
    return LabelNames(names_of(values)) if named else None


def _too_many(values: LabelValues, rows: int) -> bool:
    """True if texts are probably not labels of classes."""
    return len(values) > MAX_NAMED_CLASSES or len(values) > max(10, rows // 2)


def target_of(label_values: LabelValues, loss: str) -> Target:
    """The target if the labels of all classes are given.

    >>> target_of(("no", "yes", "maybe"), "auto").loss
    'softmax'
    """
    return Target(loss, label_values) if loss != AUTO else _classes_target(label_values, "--labels")


def _automatic(values: LabelValues, rows: int) -> Target:
    if not values:
        raise _no_label(AUTO)
    if set(values) <= set(SIGNS):
        return _classes_target(SIGNS, _first(rows))._replace(label_values=None)
    text = isinstance(values[0], str)
    whole = not text and all(float(value).is_integer() for value in values)
    if (
        not text
        and len(values) > 2
        and not (whole and len(values) <= MAX_NUMBER_CLASSES and rows >= ROWS_EACH * len(values))
    ):
        low, *_, high = names_of(values)
        words = f"labels: numbers from {low} to {high} in {_first(rows)}; so the loss is squared"
        return Target("squared", None, f"{words}. --loss chooses another")
    _require_several(values, rows, AUTO)
    if text and _too_many(values, rows):
        rule = f"cannot be chosen: {_first(rows)} have {len(values):,} different labels, such as {values[0]!r}"
        problem = InvalidInput if len(values) > MAX_NAMED_CLASSES else TooFewLabels
        remedy = ("name another column of labels with ", Given("label"), ", or all labels with ", Given("label_values"))
        raise problem("loss", AUTO, rule, remedy)
    return _noting_alike(_classes_target(values, _first(rows)))


def _classes_target(values: LabelValues, where: str) -> Target:
    loss, several = ("logistic", "two") if len(values) == 2 else ("softmax", "several")
    words = f"{_classes(values)} in {where}" if where != "--labels" else _classes(values)
    return Target(loss, values, f"{words}; so the loss is {loss}, for {several} classes. --loss chooses another")


def _require_several(values: LabelValues, rows: int, loss: str) -> None:
    if len(values) >= 2:
        return
    given = names_of(values)
    if not given:
        raise _no_label(loss)
    rule = f"needs two labels, and in {_first(rows)} there is only {given[0]}"
    remedy: list[str | Given] = ["name all labels, such as ", Given("label_values", ("no", "yes"))]
    if loss == AUTO and not isinstance(values[0], str):
        remedy += [", or ", Given("loss", "squared"), " for numbers"]
    raise TooFewLabels("loss", loss, rule, remedy)


def _classes(values: LabelValues) -> str:
    return f"labels: {listed(names_of(values)).replace(' or ', ' and ')}"


def _first(rows: int) -> str:
    return "the first row" if rows == 1 else f"the first {rows:,} rows"


def _noting_alike(target: Target) -> Target:
    """The target, with a word about names that differ in case or in blanks around them, if there are any."""
    alike: dict[str, list[str]] = {}
    for name in names_of(target.label_values):
        alike.setdefault(name.strip().casefold(), []).append(name if name == name.strip() else repr(name))
    pairs = [" and ".join(names[:2]) for names in alike.values() if len(names) > 1]
    words = ", and so do ".join([f"{pairs[0]} count as two labels", *pairs[1:3]]) if pairs else ""
    return target._replace(reason=f"{target.reason}. Note: {words}") if pairs else target
