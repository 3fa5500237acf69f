"""The settings of a model that is trained on a stream, as plain values: everything that a model file says of itself."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates.reservoir import DEFAULT_BUDGET
from giftrl.config import Labels, Recipe, make
from giftrl.config.class_labels import as_signs, takes_signs
from giftrl.config.recipe import KINDS, Learner
from giftrl.config.upgrade import settings_of_now
from giftrl.errors import SKIP_HINT, Given, Hint, InvalidInput, UnknownName, require
from giftrl.ops.loss import accepts, labels, residual
from giftrl.ops.loss_scale import reach
from giftrl.streams.batch import MAX_EXACT_INTEGER, LabelNames, listed

#: The labels of losses of two classes.
SIGNS = (-1.0, 1.0)
TWO_LABELS = "try (0, 1); or use softmax, for more classes"
#: With more labels, a message does not suggest a list of them all.
MAX_LISTED_LABELS = 20


#: The labels of classes: all of them numbers, or all of them names.
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
    """A recipe whose parts are given by name, and how rows and labels are prepared for it.

    Args:
        loss, update, lookahead, regularizer, schedule, beta, preset, parameters, dtype, witness_nonzeros: as for
            :class:`giftrl.config.Recipe`, by name.
        bits: 2^bits coordinates for hashed names; None for an exact dictionary that grows.
        normalize: "none", or "unit": rows are given Euclidean norm 1.
        constant: whether every row has the constant feature 1.
        interactions: two or more namespaces or columns each, whose products are features too.
        ngrams: names of namespaces of VW text, and how many of their consecutive names are joined at most.
        label_values: the two labels in the data that stand for -1 and +1, numbers or names; None if the data has
            -1 and +1, or real labels. With a loss of a score for each class, the labels of all classes.

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
        alike = all(isinstance(each, str) and each for each in given) or not any(
            isinstance(each, str) for each in given
        )
        require(alike, "label_values", given, "must be numbers only, or names only", "try (0, 1), or ('no', 'yes')")
        if self.many:
            rule, remedy = (
                f"must be the different labels of all classes for {self.loss}",
                ("try ", Given("label_values", (0, 1, 2))),
            )
            require(len(set(given)) == len(given) >= 2, "label_values", self.label_values, rule, remedy)
        elif self.label_values is not None:
            two = len(given) == 2 and given[0] != given[1]
            require(two, "label_values", self.label_values, f"must be two different labels for {self.loss}", TWO_LABELS)

    @property
    def classes(self) -> int:
        """The number of scores of a prediction: one for each class, or 1."""
        return len(self.label_values) if self.many and self.label_values is not None else 1

    @cached_property
    def labels(self) -> Labels | None:
        """The labels of batches in the order of their classes; None if they are labels of the loss."""
        if self.label_values is None:
            return None
        return Labels(np.arange(len(self.label_values)) if self.label_names else np.array(self.label_values))

    @cached_property
    def label_names(self) -> LabelNames | None:
        """The reader of labels that are names; None if labels are numbers."""
        named = self.label_values is not None and isinstance(self.label_values[0], str)
        return LabelNames(self.class_names) if named else None

    @cached_property
    def class_values(self) -> LabelValues | None:
        """The labels of the classes, which are -1 and +1 where none are given; None if labels are real numbers."""
        signs = not self.many and takes_signs(self.parts.loss, only=True)
        return SIGNS if self.label_values is None and signs else self.label_values

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """The labels of the classes as text; none if labels are real numbers."""
        return names_of(self.class_values)

    def make_loss(self) -> Any:
        """The loss."""
        return self.parts.loss

    def make_learner(self, dimension: int, constant: int | None = None) -> Learner:
        """A learner before its first round; ``constant`` is the coordinate of the constant feature, or None.

        >>> Settings(loss="hinge").make_learner(5)
        MixtureLearner(5, Hinge(), preset='default', dtype='float32')
        """
        learner: Learner = make(self, dimension, self.classes, constant=constant)
        return learner

    def accepts(self, given: NDArray[np.float64]) -> NDArray[np.bool_]:
        """True for each label of the data that can be used."""
        if self.labels is not None:
            return self.labels.codes(given) >= 0
        distinct, where = np.unique(given, return_inverse=True)
        return np.array([accepts(self.parts.loss, label) for label in distinct.tolist()], dtype=bool)[where]

    @cached_property
    def expected(self) -> str:
        """The accepted labels in words.

        >>> Settings(label_values=("no", "yes")).expected
        'no or yes'
        """
        if self.label_values is not None:
            return listed(self.class_names)
        return f"a label of the {self.loss} loss: {labels(self.parts.loss)}"

    def hints(self, label: str, can_add: bool = True) -> list[Hint]:
        """Arguments that deal with a row whose label is not accepted.

        Args:
            label: that label; empty for a row without one.
            can_add: if labels can still be chosen, as before the first row is learned.

        >>> [str(hint.given) for hint in Settings(label_values=("no", "yes")).hints("maybe")]
        ["label_values=['no', 'yes', 'maybe']", "on_error='skip'"]
        """
        if not label:
            return [SKIP_HINT]
        if self.label_values is not None:
            more = Hint(Given("label_values", [*self.class_names, label]), "adds it")
            # A loss of two classes that is not the automatic one was asked for, and takes no third label.
            can_add = can_add and len(self.class_names) <= MAX_LISTED_LABELS
            can_add = can_add and (self.many or self.loss == "logistic")
        else:
            more = Hint(Given("label_values"), "says what stands for these")
            can_add = can_add and bool(accepts(self.parts.loss, -1.0))
        return [*([more] if can_add else []), SKIP_HINT._replace(effect="leaves it out")]

    def reader_options(self, learn: bool = False, can_add: bool = False) -> dict[str, Any]:
        """The arguments of :class:`giftrl.streams.Reader` that these settings decide.

        Args:
            learn: to refuse rows whose labels the loss does not accept.
            can_add: as for :meth:`hints`.
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
        """The reason why predictions cannot start from a base; None if they can.

        >>> Settings(loss="hinge").no_base
        'hinge has none with beta auto; give a number for beta'
        """
        if self.many:
            return "models of several classes have none"
        loss = self.parts.loss
        unbounded = not accepts(loss, 0.5) and reach(loss) == math.inf
        # A mixture keeps predictions in a range, or on the scale of real labels, which is the same for all rows.
        able = not self.auto or residual(loss) or unbounded
        return None if able else f"{self.loss} has none with beta auto; give a number for beta"

    def mapped(self, given: NDArray[np.float64]) -> NDArray[np.float64]:
        """The labels of the data as labels of the loss."""
        if self.labels is None:
            return given
        codes = self.labels.codes(given)
        return codes.astype(np.float64) if self.many else as_signs(codes == 1)

    def state(self) -> dict[str, Any]:
        """The settings as JSON takes them; with a number for beta, as versions before "auto" wrote and read them."""
        state = asdict(self)
        if not self.auto:
            del state["preset"]
        state["parameters"] = dict(self.parameters)
        state["interactions"] = [list(each) for each in self.interactions]
        # What a file of version 1 lacks is written only if it is used, so that versions before can read the file.
        if self.witness_nonzeros is None:
            del state["witness_nonzeros"]
        if not self.ngrams:
            del state["ngrams"]
        else:
            state["ngrams"] = [list(each) for each in self.ngrams]
        state["label_values"] = None if self.label_values is None else list(self.label_values)
        return state

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "Settings":
        """The settings that a state was taken from."""
        known = {each.name for each in fields(cls)}
        strange = sorted(set(state) - known)
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
        """The settings that differ from those before.

        >>> [str(each) for each in Settings(loss="hinge").differences(Settings(loss="logistic"))]
        ["loss='logistic', now 'hinge'"]
        """
        names = [field.name for field in fields(self)]
        pairs = [(name, getattr(before, name), getattr(self, name)) for name in names]
        return [Given(name, value, now) for name, value, now in pairs if value != now]
