"""What a model is made of, as plain values: everything that a model file says about itself."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from giftrl import losses, regularizers, schedules, updates
from giftrl.errors import InvalidInput, UnknownName, require
from giftrl.kernels import LinearLearner
from giftrl.kernels.multiclass import MulticlassLearner
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.multiclass import MulticlassMixture
from giftrl.ops.loss import accepts, labels

__all__ = ["AUTO", "AnyLearner", "Settings"]

AnyLearner = LinearLearner | MixtureLearner | MulticlassLearner | MulticlassMixture

#: The beta of a learner that needs none.
AUTO = "auto"
#: What the parts are where a beta is given and they are not.
PARTS = {"update": "proximal", "regularizer": "squared_norm", "schedule": "temporal"}
KINDS = {"update": updates.BY_NAME, "regularizer": regularizers.BY_NAME, "schedule": schedules.BY_NAME}
#: Parameters of parts that have a setting of their own.
OWN = {"beta", "lookahead"}


@dataclass(frozen=True)
class Settings:
    """The parts of a linear model, by name, and how rows are prepared for it.

    Args:
        loss: the name of a loss.
        update, regularizer, schedule: names of members. None where beta is "auto"; where it is a number, None is
            proximal, squared_norm and temporal.
        lookahead: H (True), H' (False), or H where it can be used (None).
        beta: the scale of the schedule; or "auto" for :class:`giftrl.mixtures.MixtureLearner`, which needs none.
        preset: which experts "auto" mixes, "default" or "light".
        parameters: further parameters of the members, such as ``{"tau": 0.9}`` for the quantile loss; each goes to the
            member that has it.
        dtype: float32 or float64, how coordinates are stored.
        bits: 2^bits coordinates for hashed names; None for an exact dictionary that grows.
        normalize: "none", or "unit": rows are given Euclidean norm 1.
        constant: whether every row has the constant feature 1.
        interactions: pairs of namespaces or columns whose products are features too.
        label_values: the two labels in the data that stand for -1 and +1; None where the data has these. With a loss of
            a score for each class, the labels of all classes.

    >>> Settings(loss="quantile", parameters={"tau": 0.9}).make_loss()
    Quantile(tau=0.9)
    >>> Settings(beta=2.0).schedule
    'temporal'
    >>> Settings(loss="softmax", label_values=(1.0, 2.0, 3.0)).classes
    3
    """

    loss: str = "logistic"
    update: str | None = None
    lookahead: bool | None = None
    regularizer: str | None = None
    schedule: str | None = None
    beta: float | str = AUTO
    preset: str = "default"
    parameters: Mapping[str, float] = field(default_factory=dict)
    dtype: str = "float32"
    bits: int | None = 18
    normalize: str = "none"
    constant: bool = True
    interactions: tuple[tuple[str, str], ...] = ()
    label_values: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.loss not in losses.EVERY:
            raise UnknownName("loss", self.loss, losses.EVERY)
        self._check_labels()
        if self.auto:
            self._require_no_parts()
        else:
            self._take_parts()
        self.make_learner(1)  # raises where the parts do not go together

    def _check_labels(self) -> None:
        """Raise unless the labels can be those of the loss."""
        given = self.label_values or ()
        if self.many:
            require(
                len(set(given)) == len(given) >= 2,
                "label_values", self.label_values, f"must be the different labels of all classes for {self.loss}",
                "try (0, 1, 2), or --labels 0,1,2 or --labels 0..9 on the command line",
            )  # fmt: skip
        else:
            require(
                self.label_values is None or (len(given) == 2 and given[0] != given[1]),
                "label_values", self.label_values, "must be two different labels", "try (0, 1)",
            )  # fmt: skip

    @property
    def many(self) -> bool:
        """Whether the loss has a score for each class."""
        return self.loss in losses.MULTICLASS

    @property
    def classes(self) -> int:
        """How many numbers a prediction is: one for each class, or 1."""
        return len(self.label_values) if self.many and self.label_values is not None else 1

    @property
    def auto(self) -> bool:
        """Whether the learner is the one without parameters."""
        return isinstance(self.beta, str) and self.beta == AUTO

    def _require_no_parts(self) -> None:
        """Raise where a part is named that the learner chooses as it learns."""
        given: dict[str, Any] = {name: getattr(self, name) for name in (*PARTS, "lookahead")}
        known = set(losses.EVERY[self.loss]._fields)
        of_parts = {each for kind in KINDS.values() for member in kind.values() for each in member._fields} - OWN
        for name, value in self.parameters.items():
            if name in of_parts - known:
                given[name] = value
            elif name not in known:
                raise UnknownName("parameters", name, sorted(known | of_parts))
        for name, value in given.items():
            require(
                value is None,
                name, value, f"must be left out where beta={AUTO!r}, which chooses the parts as it learns",
                "give a beta, such as beta=1.0, to choose the parts yourself",
            )  # fmt: skip

    def _take_parts(self) -> None:
        """Name the parts that are not, and raise where there is none of a name."""
        number = isinstance(self.beta, (int, float)) and not isinstance(self.beta, bool) and 0.0 < self.beta < math.inf
        require(
            number, "beta", self.beta, f"must be positive and finite, or {AUTO!r}", f"beta={AUTO!r} needs no choice"
        )
        require(
            self.preset == "default",
            "preset", self.preset, f"is of beta={AUTO!r}, and beta is {self.beta!r}",
            f"leave one of them out, or use beta={AUTO!r}",
        )  # fmt: skip
        known = set(losses.EVERY[self.loss]._fields)
        for name, usual in PARTS.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, usual)
            kind, part = KINDS[name], getattr(self, name)
            if part not in kind:
                raise UnknownName(kind.kind, part, kind)
            known |= set(kind[part]._fields)
        for name in self.parameters:
            if name not in known - OWN:
                raise UnknownName("parameters", name, sorted(known - OWN))

    def _make(self, kind: Any, name: Any, **own: Any) -> Any:
        cls = kind[name]
        given = {**self.parameters, **own}
        return kind.make(name, **{key: value for key, value in given.items() if key in cls._fields})

    def make_loss(self) -> Any:
        """The loss."""
        return self._make(losses.EVERY, self.loss)

    def make_learner(self, dimension: int, constant: int | None = None) -> AnyLearner:
        """A learner before its first round; ``constant`` is the coordinate of the constant feature, or None.

        >>> Settings(loss="hinge").make_learner(5)
        MixtureLearner(5, Hinge(), preset='default', dtype='float32')
        """
        loss, classes = self.make_loss(), (self.classes,) if self.many else ()
        kind: Any
        if self.auto:
            kind = MulticlassMixture if self.many else MixtureLearner
            made = kind(dimension, *classes, loss, constant=constant, preset=self.preset, dtype=self.dtype)
        else:
            kind = MulticlassLearner if self.many else LinearLearner
            made = kind(
                dimension,
                *classes,
                loss,
                self._make(regularizers.BY_NAME, self.regularizer),
                self._make(updates.BY_NAME, self.update, lookahead=self.lookahead),
                self._make(schedules.BY_NAME, self.schedule, beta=float(self.beta)),
                dtype=self.dtype,
            )
        return cast("AnyLearner", made)

    def accepts(self, found: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which labels, as they are in the data, can be used."""
        if self.label_values is not None:
            return np.isin(found, self.label_values)
        loss = self.make_loss()
        distinct, where = np.unique(found, return_inverse=True)
        return np.array([accepts(loss, label) for label in distinct.tolist()], dtype=bool)[where]

    def expected(self) -> str:
        """Those labels in words."""
        if self.label_values is not None:
            *others, last = (f"{label:g}" for label in self.label_values)
            return f"{', '.join(others)} or {last}"
        hint = " (--labels says what stands for these)" if accepts(self.make_loss(), -1.0) else ""
        return f"a label of the {self.loss} loss: {labels(self.make_loss())}{hint}"

    def mapped(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        """The labels of the data as labels of the loss."""
        if self.label_values is None:
            return found
        if not self.many:
            return np.where(found == self.label_values[1], 1.0, -1.0)
        order = np.argsort(self.label_values)
        return order[np.searchsorted(self.label_values, found, sorter=order)].astype(np.float64)

    def state(self) -> dict[str, Any]:
        """As JSON takes it. With a number for beta it is what versions before "auto" wrote, and read."""
        found = asdict(self)
        if not self.auto:
            del found["preset"]
        found["parameters"] = dict(self.parameters)
        found["interactions"] = [list(pair) for pair in self.interactions]
        found["label_values"] = None if self.label_values is None else list(self.label_values)
        return found

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "Settings":
        """What a state was taken from."""
        known = {each.name for each in fields(cls)}
        strange = sorted(set(state) - known)
        if strange:
            raise InvalidInput(
                "settings", strange[0], "is not known to this version", "use the version of giftrl that wrote the model"
            )
        given = dict(state)
        given["interactions"] = tuple((a, b) for a, b in given.get("interactions", ()))
        if given.get("label_values") is not None:
            given["label_values"] = tuple(given["label_values"])
        return cls(**given)

    def differences(self, other: "Settings") -> list[str]:
        """What differs from other settings, in words."""
        return [
            f"{each.name}={getattr(self, each.name)!r}, not {getattr(other, each.name)!r}"
            for each in fields(self)
            if getattr(self, each.name) != getattr(other, each.name)
        ]
