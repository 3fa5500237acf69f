"""What is to be learnt: the loss, and what the labels of the data stand for, from the labels of the first rows."""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from giftrl.errors import InvalidInput
from giftrl.losses import EVERY, MULTICLASS
from giftrl.recipes.labels import takes_signs
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.first_labels import first_labels
from giftrl.streams.label_names import LabelNames, listed
from giftrl.streams.sources.source import Stream
from giftrl.streams.tables.csv_rows import NUMBER
from giftrl.training.settings import SIGNS, LabelValues, names_of

AUTO = "auto"
#: The most labels that are whole numbers and yet classes, and how many rows each must have on average.
FEW, ROWS_EACH = 20, 5
#: The most names of classes. More are probably text of another kind.
MANY = 100
_NUMBER = re.compile(NUMBER)


class Target(NamedTuple):
    """A loss, the labels of its classes, and the reason for both in one line; None where there is nothing to say.

    There are no labels where they are those of the loss: real numbers, or -1 and +1.
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
    **_: Any,
) -> tuple[Target, dict[str, Stream]]:
    """Choose the target of a run by what is given, and by the first rows where that is not enough.

    Args:
        sources: of rows, as for :class:`giftrl.streams.Reader`.
        loss: a name, or "auto".
        label_values: the labels of all classes, or None.
        format, columns, schema: as for :class:`giftrl.streams.Reader`.

    Returns:
        the target, and what the reader needs of sources that cannot be opened again.
    """
    if label_values is not None:
        return target_of(label_values, loss), {}
    if loss != AUTO and not needs_labels(loss):
        return Target(loss, None), {}
    labels, opened = first_labels(sources, format=format, columns=columns, schema=schema)
    return choose_target(labels, loss), opened


def chosen_by_rows(loss: str, label_values: LabelValues | None) -> tuple[str, ...]:
    """The settings that the first rows choose where these are given.

    >>> chosen_by_rows("auto", None), chosen_by_rows("hinge", None), chosen_by_rows("squared", None)
    (('loss', 'label_values'), ('label_values',), ())
    """
    if label_values is not None:
        return ("loss",) if loss == AUTO else ()
    return ("loss", "label_values") if loss == AUTO else ("label_values",) if needs_labels(loss) else ()


def anything(loss: str, label_values: LabelValues | None) -> Target:
    """A target that agrees with what is given, for a run whose checkpoint has the right one."""
    if label_values is not None:
        return target_of(label_values, loss)
    return Target("logistic" if loss == AUTO else loss, SIGNS if loss in MULTICLASS else None)


def needs_labels(loss: str) -> bool:
    """Whether a loss is one of classes.

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
        return Target(loss, values, f"{_classes(values)}; --labels names others")
    if not needs_labels(loss):
        return Target(loss, None)
    if values and (set(values) <= set(SIGNS) or set(SIGNS) <= set(values)):
        return Target(loss, None)  # others are mistakes, which reading will name
    _require_several(values, len(labels), loss)
    if len(values) > 2:
        rule = f"takes two labels, and the first rows have {len(values)}: {listed(names_of(values))}"
        raise InvalidInput("loss", loss, rule, "use --loss softmax, or name two of them with --labels")
    first, second = names_of(values)
    return Target(loss, values, f"labels {first} and {second} stand for -1 and +1; --labels chooses others")


def distinct(labels: Sequence[str]) -> LabelValues:
    """The different labels among some, sorted; numbers if nine out of ten are, and else all as names."""
    numbers = [float(label) for label in labels if _NUMBER.fullmatch(label) and math.isfinite(float(label))]
    numeric = 10 * (len(labels) - len(numbers)) <= len(labels)
    return tuple(sorted(set(numbers))) if numeric else tuple(sorted(set(labels)))


def names_where_text(labels: Sequence[str]) -> LabelNames | None:
    """The names of labels, where these are text, and few enough for classes.

    >>> names_where_text(["yes", "no", "no"]).names, names_where_text(["1", "0"])
    (('no', 'yes'), None)
    """
    values = distinct(labels)
    named = bool(values) and isinstance(values[0], str) and not _too_many(values, len(labels))
    return LabelNames(names_of(values)) if named else None


def _too_many(values: LabelValues, rows: int) -> bool:
    """Whether texts are probably not labels of classes."""
    return len(values) > MANY or len(values) > max(10, rows // 2)


def target_of(label_values: LabelValues, loss: str) -> Target:
    """The target where the labels of all classes are given.

    >>> target_of(("no", "yes", "maybe"), "auto").loss
    'softmax'
    """
    return Target(loss, label_values) if loss != AUTO else _classes_target(label_values, "--labels")


def _automatic(values: LabelValues, rows: int) -> Target:
    if not values:
        raise InvalidInput(
            "loss", AUTO, "cannot be chosen, as the first rows have no label",
            "name the column of labels with --label, or choose a loss",
        )  # fmt: skip
    if set(values) <= set(SIGNS):
        return _classes_target(SIGNS, f"the first {rows:,} rows")._replace(label_values=None)
    text = isinstance(values[0], str)
    whole = not text and all(float(value).is_integer() for value in values)
    if not text and len(values) > 2 and not (whole and len(values) <= FEW and rows >= ROWS_EACH * len(values)):
        low, *_, high = names_of(values)
        words = f"labels: numbers from {low} to {high} in the first {rows:,} rows; so the loss is squared"
        return Target("squared", None, f"{words}. --loss chooses another")
    _require_several(values, rows, AUTO)
    if text and _too_many(values, rows):
        rule = f"cannot be chosen: the first {rows:,} rows have {len(values):,} different labels, such as {values[0]!r}"
        raise InvalidInput(
            "loss", AUTO, rule, "name another column of labels with --label, or all labels with --labels"
        )
    return _classes_target(values, f"the first {rows:,} rows")


def _classes_target(values: LabelValues, where: str) -> Target:
    loss, several = ("logistic", "two") if len(values) == 2 else ("softmax", "several")
    words = f"{_classes(values)} in {where}" if where != "--labels" else _classes(values)
    return Target(loss, values, f"{words}; so the loss is {loss}, for {several} classes. --loss chooses another")


def _require_several(values: LabelValues, rows: int, loss: str) -> None:
    if len(values) >= 2:
        return
    given = names_of(values)
    rule = f"needs two labels, and the first {rows:,} rows have only {given[0]}" if given else "needs labels"
    other = "" if loss != AUTO or isinstance(next(iter(values), ""), str) else ", or --loss squared for numbers"
    raise InvalidInput("loss", loss, rule, f"name all labels, such as --labels no,yes{other}")


def _classes(values: LabelValues) -> str:
    return f"labels: {listed(names_of(values)).replace(' or ', ' and ')}"
