"""What a model is made of, as plain values: everything that a model file says about itself."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl import losses, regularizers, schedules, updates
from giftrl.errors import InvalidInput, UnknownName, require
from giftrl.kernels import LinearLearner
from giftrl.ops.loss import accepts, labels

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """The parts of a linear model, by name, and how rows are prepared for it.

    Args:
        loss, update, regularizer, schedule: names of members.
        lookahead: H (True), H' (False), or H where it can be used (None).
        beta: the scale of the schedule.
        parameters: further parameters of the members, such as ``{"tau": 0.9}`` for the quantile loss; each goes to the
            member that has it.
        dtype: float32 or float64, how coordinates are stored.
        bits: 2^bits coordinates for hashed names; None for an exact dictionary that grows.
        normalize: "none", or "unit": rows are given Euclidean norm 1.
        constant: whether every row has the constant feature 1.
        interactions: pairs of namespaces or columns whose products are features too.
        label_values: the two labels in the data that stand for -1 and +1; None where the data has these.

    >>> Settings(loss="quantile", parameters={"tau": 0.9}).make_loss()
    Quantile(tau=0.9)
    """

    loss: str = "logistic"
    update: str = "proximal"
    lookahead: bool | None = None
    regularizer: str = "squared_norm"
    schedule: str = "temporal"
    beta: float = 1.0
    parameters: Mapping[str, float] = field(default_factory=dict)
    dtype: str = "float32"
    bits: int | None = 18
    normalize: str = "none"
    constant: bool = True
    interactions: tuple[tuple[str, str], ...] = ()
    label_values: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        require(
            isinstance(self.beta, (int, float)) and 0.0 < self.beta < math.inf,
            "beta", self.beta, "must be positive and finite", "try beta=1.0",
        )  # fmt: skip
        require(
            self.label_values is None or (len(self.label_values) == 2 and self.label_values[0] != self.label_values[1]),
            "label_values", self.label_values, "must be two different labels", "try (0, 1)",
        )  # fmt: skip
        taken = {"beta", "lookahead"}
        known: set[str] = set()
        for kind, name in self._members():
            if name not in kind:
                raise UnknownName(kind.kind, name, kind)
            known |= set(kind[name]._fields)
        for name in self.parameters:
            if name not in known - taken:
                raise UnknownName("parameters", name, sorted(known - taken))
        self.make_learner(1)  # raises where the parts do not go together

    def _members(self) -> list[tuple[Any, str]]:
        return [
            (losses.BY_NAME, self.loss),
            (regularizers.BY_NAME, self.regularizer),
            (updates.BY_NAME, self.update),
            (schedules.BY_NAME, self.schedule),
        ]

    def _make(self, kind: Any, name: str, **own: Any) -> Any:
        cls = kind[name]
        given = {**self.parameters, **own}
        return kind.make(name, **{key: value for key, value in given.items() if key in cls._fields})

    def make_loss(self) -> Any:
        """The loss."""
        losses.scalar(self.loss)
        return self._make(losses.BY_NAME, self.loss)

    def make_learner(self, dimension: int) -> LinearLearner:
        """A learner before its first round."""
        return LinearLearner(
            dimension,
            self.make_loss(),
            self._make(regularizers.BY_NAME, self.regularizer),
            self._make(updates.BY_NAME, self.update, lookahead=self.lookahead),
            self._make(schedules.BY_NAME, self.schedule, beta=float(self.beta)),
            dtype=self.dtype,
        )

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
            return f"{self.label_values[0]:g} or {self.label_values[1]:g}"
        hint = " (--labels says what stands for these)" if accepts(self.make_loss(), -1.0) else ""
        return f"a label of the {self.loss} loss: {labels(self.make_loss())}{hint}"

    def mapped(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        """The labels of the data as labels of the loss."""
        return found if self.label_values is None else np.where(found == self.label_values[1], 1.0, -1.0)

    def state(self) -> dict[str, Any]:
        """As JSON takes it."""
        found = asdict(self)
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
