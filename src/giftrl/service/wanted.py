"""What a model is to be: the settings that its creator gave, which may be none at all."""

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from giftrl.errors import GiftrlError, Refused
from giftrl.service.core import Core
from giftrl.service.shares import plain
from giftrl.streams.columns import Columns
from giftrl.training.choose_loss import AUTO, Target, chosen_by_rows, placeholder_target
from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings

#: What rows can have besides their features; the label is always under "label".
OF_ROWS = ("weight", "ignore", "categorical", "date", "text")
#: Settings by the names that requests use, where these are not those of :class:`giftrl.training.Settings`.
RENAMED = {"labels": "label_values"}

#: What some settings must be, which Python would take for true or false, or for a list.
TYPES: dict[str, tuple[type, str]] = {
    "constant": (bool, "true or false"), "dictionary": (bool, "true or false"),
    "interactions": (list, "a list of lists of names"), "ngrams": (list, "a list of names with their sizes"),
    "dtype": (str, "float32 or float64"),
}  # fmt: skip


class Wanted(NamedTuple):
    """Settings as they were asked for.

    Args:
        given: as JSON has them: the options of ``giftrl train`` by name, such as ``{"loss": "squared"}``.

    >>> Wanted({"labels": ["no", "yes"]}).target.loss
    'logistic'
    >>> Wanted({}).open, Wanted({"loss": "squared"}).open
    (True, False)
    """

    given: dict[str, Any]

    @classmethod
    def checked(cls, given: Any, most_bits: int = 30) -> "Wanted":
        """Settings from a request; refused where no model can be made of them.

        >>> Wanted.checked({"los": "squared"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        giftrl.errors.Refused: 'los' is no setting; send some of beta, bits, ...
        """
        if not isinstance(given, dict):
            raise Refused(400, "settings are no JSON object", 'send {}, or some such as {"loss": "squared"}')
        known = ["loss", "labels", "dictionary", *OF_ROWS]
        known += [each.name for each in fields(Settings) if each.name not in ("loss", "label_values")]
        for name in given:
            if name not in known:
                shown = ", ".join(sorted(known))
                raise Refused(422, f"{name!r:.60} is no setting", f"send some of {shown}")
        for name, (kind, words) in TYPES.items():
            if name in given and not isinstance(given[name], kind):
                raise Refused(422, f"{name} is {given[name]!r:.40}", f"send {words}, or leave it out")
        if given.get("dictionary") and given.get("bits") is not None:
            words = (
                "a model with a dictionary has as many weights as names, so that bits and dictionary exclude each other"
            )
            raise Refused(422, words, "leave one of them out")
        wanted = cls(dict(given))
        try:
            settings = wanted.settings(wanted.target)
            bits = settings.bits
            if bits is not None and not (type(bits) is int and 1 <= bits <= most_bits):
                raise Refused(422, f"bits is {settings.bits!r:.20}", f"send a number from 1 to {most_bits}")
            if settings.classes > MOST_CLASSES:
                raise Refused(422, f"there are {settings.classes} labels", f"send at most {MOST_CLASSES}")
            # A model of these settings, and its readers; with few weights, which need no memory.
            Core(LinearModel(replace(settings, bits=None if bits is None else 1)), wanted.columns)
        except Refused:
            raise
        except GiftrlError as problem:
            raise Refused(422, plain(str(problem)), "change the settings") from None
        except (AttributeError, TypeError, ValueError, ArithmeticError, MemoryError) as problem:
            raise Refused(422, f"no model can have these settings ({type(problem).__name__})", "change them") from None
        return wanted

    @property
    def loss(self) -> str:
        """The name of the loss, or "auto"."""
        return str(self.given.get("loss", AUTO))

    @property
    def labels(self) -> Any:
        """The labels of all classes; None where they are not given."""
        labels = self.given.get("labels")
        if labels is None:
            return None
        if not isinstance(labels, list):
            raise Refused(422, "labels is no list", 'send such as {"labels": ["no", "yes"]}')
        numbers = [float(each) for each in labels if type(each) in (int, float) and math.isfinite(each)]
        texts = [each for each in labels if isinstance(each, str)]
        if len(labels) not in (len(numbers), len(texts)):
            raise Refused(422, "labels are neither all numbers nor all texts", 'send such as {"labels": ["no", "yes"]}')
        return tuple(numbers if len(numbers) == len(labels) else texts)

    @property
    def open(self) -> bool:
        """Whether the first rows choose the loss or its labels."""
        return bool(chosen_by_rows(self.loss, self.labels))

    @property
    def target(self) -> Target:
        """The loss and its labels; any that go with what is given, where the first rows will choose them."""
        return placeholder_target(self.loss, self.labels)

    @property
    def columns(self) -> Columns:
        """What the keys of rows mean."""
        given: Mapping[str, Any] = {name: self.given[name] for name in OF_ROWS if name in self.given}
        for name, value in given.items():
            texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
            if not (isinstance(value, str) if name == "weight" else texts):
                raise Refused(422, f"{name} is no {'text' if name == 'weight' else 'list of texts'}", "change it")
        named: dict[str, Any] = {k: v if k == "weight" else tuple(v) for k, v in given.items()}
        return Columns(label="label", **named)

    def settings(self, target: Target) -> Settings:
        """The settings of a model with this target."""
        others = ("loss", "labels", "dictionary", *OF_ROWS)
        given = {name: value for name, value in self.given.items() if name not in others}
        if self.given.get("dictionary", False):
            given["bits"] = None
        usual = Settings(loss=target.loss, label_values=target.label_values).state()
        return Settings.restore(usual | given | {"loss": target.loss, "label_values": target.label_values})


#: The most classes of a model in the service: each has weights of its own for every feature.
MOST_CLASSES = 10_000
