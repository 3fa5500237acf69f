"""Settings of stream training, and the choice of the loss and labels from the first rows."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates.reservoir import DEFAULT_BUDGET
from giftrl.config import AUTO, Labels, Recipe, make
from giftrl.config.recipe import KINDS, Learner, as_signs, takes_signs
from giftrl.config.upgrade import settings_of_now
from giftrl.errors import SKIP_HINT, BadRow, BadSource, Given, Hint, InvalidInput, TooFewLabels, UnknownName, require
from giftrl.losses import EVERY, MULTICLASS
from giftrl.ops.loss import accepts, labels, reach, residual
from giftrl.streams.batch import MAX_EXACT_INTEGER, LabelNames, is_exact, listed
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.first_labels import first_labels
from giftrl.streams.source import Stream, find_sources
from giftrl.streams.tables.csv_fallback import NUMBER_PATTERN

#: The labels of losses of two classes.
SIGNS = (-1.0, 1.0)
TWO_LABELS = "try (0, 1); or use softmax, for more classes"
#: With more labels than this, messages do not list all of them.
MAX_LISTED_LABELS = 20


#: Class labels: all numbers, or all names.
LabelValues = tuple[float, ...] | tuple[str, ...]


def names_of(values: LabelValues | None) -> tuple[str, ...]:
    """Labels as text.

    >>> names_of((0.0, 2.5, 1234567890123.0)), names_of(("no", "yes"))
    (('0', '2.5', '1234567890123'), ('no', 'yes'))
    """

    def name(value: float | str) -> str:
        if isinstance(value, str):
            return value
        return f"{value:.0f}" if float(value).is_integer() and abs(value) <= MAX_EXACT_INTEGER else f"{value:.12g}"

    return tuple(map(name, values or ()))


@dataclass(frozen=True)
class Settings(Recipe):
    """A recipe with parts given by name, and the preparation of rows and labels.

    Args:
        loss, update, lookahead, regularizer, schedule, beta, preset, parameters, dtype, witness_nonzeros: as for
            :class:`giftrl.config.Recipe`, by name.
        bits: 2^bits coordinates for hashed names; None for an exact dictionary that grows.
        normalize: "none", or "unit": rows are given Euclidean norm 1.
        constant: whether every row has the constant feature 1.
        interactions: groups of namespaces or columns to multiply.
        ngrams: namespaces of VW text with their maximum n.
        label_values: the two labels in the data for -1 and +1, numbers or names; None if the data has -1 and +1 or
        regression targets. With a multiclass loss, all class labels.

    >>> Settings(loss="quantile", parameters={"tau": 0.9}).make_loss()
    Quantile(tau=0.9)
    >>> Settings(beta=2.0).schedule
    'temporal'
    >>> Settings(loss="softmax", label_values=(1.0, 2.0, 3.0)).classes
    3
    """

    bits: int | None = 18
    normalize: str = "none"
    constant: bool = True
    interactions: tuple[tuple[str, ...], ...] = ()
    ngrams: tuple[tuple[str, int], ...] = ()
    label_values: LabelValues | None = None
    witness_nonzeros: int | None = DEFAULT_BUDGET

    def __post_init__(self) -> None:
        for name, (kind, _) in KINDS.items():
            part = getattr(self, name)
            if not isinstance(part, str) and (part is not None or name == "loss"):
                raise UnknownName(kind.kind, part, kind)
        super().__post_init__()
        given = self.label_values or ()
        names = [isinstance(label, str) and label != "" for label in given]
        alike = all(names) or not any(isinstance(label, str) for label in given)
        require(alike, "label_values", given, "must be numbers only, or names only", "try (0, 1), or ('no', 'yes')")
        if self.many:
            rule, example = f"must be the different labels of all classes for {self.loss}", (0, 1, 2)
            different = len(set(given)) == len(given) >= 2
            require(different, "label_values", self.label_values, rule, ("try ", Given("label_values", example)))
        elif self.label_values is not None:
            two = len(given) == 2 and given[0] != given[1]
            require(two, "label_values", self.label_values, f"must be two different labels for {self.loss}", TWO_LABELS)

    @property
    def classes(self) -> int:
        """The number of scores of a prediction: one for each class, or 1."""
        return len(self.label_values) if self.many and self.label_values is not None else 1

    @cached_property
    def labels(self) -> Labels | None:
        """The class labels in order; None if the data has the loss's own labels."""
        if self.label_values is None:
            return None
        return Labels(np.arange(len(self.label_values)) if self.label_names else np.array(self.label_values))

    @cached_property
    def label_names(self) -> LabelNames | None:
        """The names of labels; None if labels are numbers."""
        named = self.label_values is not None and isinstance(self.label_values[0], str)
        return LabelNames(self.class_names) if named else None

    @cached_property
    def class_values(self) -> LabelValues | None:
        """The class labels (-1 and +1 by default); None in regression."""
        signs = not self.many and takes_signs(self.parts.loss, only=True)
        return SIGNS if self.label_values is None and signs else self.label_values

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """The class labels as text; empty in regression."""
        return names_of(self.class_values)

    def make_loss(self) -> Any:
        """The loss."""
        return self.parts.loss

    def make_learner(self, dimension: int, constant: int | None = None) -> Learner:
        """An untrained learner; ``constant`` is the coordinate of the constant feature, or None.

        >>> Settings(loss="hinge").make_learner(5)
        MixtureLearner(5, Hinge(), preset='default', dtype='float32')
        """
        learner: Learner = make(self, dimension, self.classes, constant=constant)
        return learner

    def accepts(self, given: NDArray[np.float64]) -> NDArray[np.bool_]:
        """A mask of valid labels."""
        if self.labels is not None:
            return self.labels.codes(given) >= 0
        distinct, where = np.unique(given, return_inverse=True)
        return np.array([accepts(self.parts.loss, label) for label in distinct.tolist()], dtype=bool)[where]

    @cached_property
    def expected(self) -> str:
        """A description of the valid labels.

        >>> Settings(label_values=("no", "yes")).expected
        'no or yes'
        """
        if self.label_values is not None:
            return listed(self.class_names)
        return f"a label of the {self.loss} loss: {labels(self.parts.loss)}"

    def hints(self, label: str, can_add: bool = True) -> list[Hint]:
        """Arguments that help with an invalid or missing (empty) label.

        ``can_add`` is True while labels can still be chosen, before the first row is learned.

        >>> [str(hint.given) for hint in Settings(label_values=("no", "yes")).hints("maybe")]
        ["label_values=['no', 'yes', 'maybe']", "on_error='skip'"]
        """
        if not label:
            return [SKIP_HINT]
        if self.label_values is not None:
            more = Hint(Given("label_values", [*self.class_names, label]), "adds it")
            # The user chose a binary loss, which takes no third label.
            can_add = can_add and len(self.class_names) <= MAX_LISTED_LABELS
            can_add = can_add and (self.many or self.loss == "logistic")
        else:
            more = Hint(Given("label_values"), "says what stands for these")
            can_add = can_add and bool(accepts(self.parts.loss, -1.0))
        return [*([more] if can_add else []), SKIP_HINT._replace(effect="leaves it out")]

    def reader_options(self, learn: bool = False, can_add: bool = False) -> dict[str, Any]:
        """Arguments of :class:`giftrl.streams.Reader` from these settings. With ``learn``, rows with invalid labels are
        rejected with :meth:`hints`.
        """
        options: dict[str, Any] = {
            "interactions": self.interactions, "ngrams": self.ngrams, "normalize": self.normalize,
            "constant": self.constant, "labels": self.label_names, "no_base": self.no_base,
        }  # fmt: skip
        if learn:
            hints = partial(self.hints, can_add=can_add)
            options |= {"accepts": self.accepts, "expected": self.expected, "hints": hints}
        return options

    @property
    def no_base(self) -> str | None:
        """The reason why bases are not supported; None if they are.

        >>> Settings(loss="hinge").no_base
        'hinge has none with beta auto; give a number for beta'
        """
        if self.many:
            return "models of several classes have none"
        loss = self.parts.loss
        unbounded = not accepts(loss, 0.5) and reach(loss) == math.inf
        # A mixture clips and scales predictions in the same way for all rows, which excludes bases.
        able = not self.auto or residual(loss) or unbounded
        return None if able else f"{self.loss} has none with beta auto; give a number for beta"

    def mapped(self, given: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert labels of the data to labels of the loss."""
        if self.labels is None:
            return given
        codes = self.labels.codes(given)
        return codes.astype(np.float64) if self.many else as_signs(codes == 1)

    def state(self) -> dict[str, Any]:
        """The settings for JSON; with a number for beta, in the format of versions before "auto"."""
        state = asdict(self) | {
            "parameters": dict(self.parameters),
            "interactions": list(map(list, self.interactions)),
            "ngrams": list(map(list, self.ngrams)),
            "label_values": None if self.label_values is None else list(self.label_values),
        }
        # Settings unknown to version 1 are written only if used, so that it can read other files.
        written = {"preset": self.auto, "witness_nonzeros": self.witness_nonzeros is not None, "ngrams": self.ngrams}
        return {name: value for name, value in state.items() if written.get(name, True)}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "Settings":
        """Restore settings from a state."""
        strange = sorted(set(state) - {field.name for field in fields(cls)})
        if strange:
            remedy = "use the version of giftrl that wrote the model"
            raise InvalidInput("settings", strange[0], "is not known to this version", remedy)
        given = settings_of_now(state)
        given["interactions"] = tuple(map(tuple, given["interactions"]))
        given["ngrams"] = tuple((name, int(size)) for name, size in given["ngrams"])
        if given.get("label_values") is not None:
            given["label_values"] = tuple(given["label_values"])
        return cls(**given)

    def differences(self, before: "Settings") -> list[str | Given]:
        """The settings that differ from earlier ones.

        >>> [str(each) for each in Settings(loss="hinge").differences(Settings(loss="logistic"))]
        ["loss='logistic', now 'hinge'"]
        """
        pairs = [(field.name, getattr(before, field.name), getattr(self, field.name)) for field in fields(self)]
        return [Given(name, value, now) for name, value, now in pairs if value != now]


# The choice of the loss and of the labels of classes, from the labels of the first rows.

#: For whole numbers to be classes: the maximum number of labels, and the minimum average of rows per label.
MAX_NUMBER_CLASSES, ROWS_EACH = 20, 5
#: The maximum number of class names. More texts are probably not labels.
MAX_NAMED_CLASSES = 100
NUMBER = re.compile(NUMBER_PATTERN)


class Target(NamedTuple):
    """A loss, the labels of its classes, and the reason for both in one line; None if there is nothing to say.

    There are no labels for regression, or if the data has -1 and +1.
    """

    loss: str
    label_values: LabelValues | None
    reason: str | None = None


def look(
    sources: Any, loss: str, label_values: LabelValues | None, *, format: str | None,  # noqa: A002
    columns: Columns, schema: Schema | None = None, on_error: str = "stop", **_: Any,
) -> tuple[Target, dict[str, Stream]]:  # fmt: skip
    """Choose the target from the given loss and labels, or else from the first rows.

    The keyword arguments are those of :class:`giftrl.streams.Reader`. Also returns open streams of sources that can be
    read once, for the reader.
    """
    if label_values is not None:
        return target_of(label_values, loss), {}
    if loss != AUTO and not needs_labels(loss):
        return Target(loss, None), {}
    first = first_labels(sources, format=format, columns=columns, schema=schema)
    try:
        return choose_target(first.labels, loss), first.opened
    except InvalidInput:  # bad rows may be the reason
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
    columns = f" ({listed(map(repr, names))})" if names else ""
    rule, more = "needs labels, and the first rows have none", ""
    if loss == AUTO:
        rule, more = "cannot be chosen, as the first rows have no label", ", or choose a loss"
    return TooFewLabels("loss", loss, rule, ("name the column of labels with ", Given("label"), columns, more))


def chosen_by_rows(loss: str, label_values: LabelValues | None) -> tuple[str, ...]:
    """The names of the settings to be chosen from the first rows."""
    if label_values is not None:
        return ("loss",) if loss == AUTO else ()
    return ("loss", "label_values") if loss == AUTO else ("label_values",) if needs_labels(loss) else ()


def placeholder_target(loss: str, label_values: LabelValues | None) -> Target:
    """A placeholder consistent with the given settings, for a run that restores the target from a checkpoint."""
    if label_values is not None:
        return target_of(label_values, loss)
    return Target("logistic" if loss == AUTO else loss, SIGNS if loss in MULTICLASS else None)


def needs_labels(loss: str) -> bool:
    """True if a loss is one of classes."""
    return loss in MULTICLASS or (loss in EVERY and takes_signs(EVERY.member(loss, "slope"), only=True))


def choose_target(labels: Sequence[str], loss: str = AUTO) -> Target:
    """Choose the loss and the labels of classes.

    Labels are numeric if nine out of ten are; reading reports the others as errors. Two distinct labels mean binary
    classification. Text, or up to 20 distinct whole numbers with at least five rows each, mean multiclass. Other
    numbers mean regression.

    Args:
        labels: the labels of the first rows, as text.
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
        return Target(loss, None)  # reading reports others as errors
    _require_several(values, len(labels), loss)
    if len(values) > 2:
        rule = f"takes two labels, and the first rows have {len(values)}: {listed(names_of(values))}"
        remedy = ("use ", Given("loss", "softmax"), ", or name two of them with ", Given("label_values"))
        raise InvalidInput("loss", loss, rule, remedy)
    first, second = names_of(values)
    reason = f"labels {first} and {second} stand for -1 and +1; --labels chooses others"
    return _noting_alike(Target(loss, values, reason))


def distinct(labels: Sequence[str]) -> LabelValues:
    """The distinct labels, sorted: numbers if nine out of ten are numeric, else names. Whole numbers beyond 2^53 are
    names too, since float64 cannot tell them apart.

    >>> distinct(["2", "10", "2"]), distinct(["9007199254740993", "9007199254740992"])
    ((2.0, 10.0), ('9007199254740992', '9007199254740993'))
    """
    different = sorted(set(labels))
    numbers = [float(label) for label in labels if NUMBER.fullmatch(label) and math.isfinite(float(label))]
    numeric = 10 * (len(labels) - len(numbers)) <= len(labels)
    exact = len(different) > MAX_NUMBER_CLASSES or all(map(is_exact, different))
    return tuple(sorted(set(numbers))) if numeric and exact else tuple(different)


def names_where_text(labels: Sequence[str]) -> LabelNames | None:
    """Label names, if labels are text and few enough for classes."""
    values = distinct(labels)
    named = bool(values) and isinstance(values[0], str) and not _too_many(values, len(labels))
    return LabelNames(names_of(values)) if named else None


def _too_many(values: LabelValues, rows: int) -> bool:
    """True if the texts are probably not class labels."""
    return len(values) > MAX_NAMED_CLASSES or len(values) > max(10, rows // 2)


def target_of(label_values: LabelValues, loss: str) -> Target:
    """The target for given class labels."""
    return Target(loss, label_values) if loss != AUTO else _classes_target(label_values, "--labels")


def _automatic(values: LabelValues, rows: int) -> Target:
    if not values:
        raise _no_label(AUTO)
    if set(values) <= set(SIGNS):
        return _classes_target(SIGNS, _first(rows))._replace(label_values=None)
    text = isinstance(values[0], str)
    whole = not text and all(float(value).is_integer() for value in values)
    few = len(values) <= MAX_NUMBER_CLASSES and rows >= ROWS_EACH * len(values)
    if not text and len(values) > 2 and not (whole and few):
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
    if not values:
        raise _no_label(loss)
    rule = f"needs two labels, and in {_first(rows)} there is only {names_of(values)[0]}"
    remedy: list[str | Given] = ["name all labels, such as ", Given("label_values", ("no", "yes"))]
    if loss == AUTO and not isinstance(values[0], str):
        remedy += [", or ", Given("loss", "squared"), " for numbers"]
    raise TooFewLabels("loss", loss, rule, remedy)


def _classes(values: LabelValues) -> str:
    return f"labels: {listed(names_of(values)).replace(' or ', ' and ')}"


def _first(rows: int) -> str:
    return "the first row" if rows == 1 else f"the first {rows:,} rows"


def _noting_alike(target: Target) -> Target:
    """The target, with a note about names that differ only in case or in blanks around them."""
    alike: dict[str, list[str]] = {}
    for name in names_of(target.label_values):
        alike.setdefault(name.strip().casefold(), []).append(name if name == name.strip() else repr(name))
    pairs = [" and ".join(names[:2]) for names in alike.values() if len(names) > 1]
    words = ", and so do ".join([f"{pairs[0]} count as two labels", *pairs[1:3]]) if pairs else ""
    return target._replace(reason=f"{target.reason}. Note: {words}") if pairs else target
