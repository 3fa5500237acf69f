"""Settings of a model requested over HTTP: the options of ``giftrl train`` by name."""

import math
from dataclasses import fields, replace
from typing import Any, NamedTuple

from giftrl.config import AUTO
from giftrl.errors import GiftrlError, Refused
from giftrl.service.bodies import in_http
from giftrl.streams.columns import Columns
from giftrl.streams.names.features import Features
from giftrl.streams.reader import Reader
from giftrl.streams.source import Source
from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings, Target, chosen_by_rows, placeholder_target

#: Settings about the keys of rows; the label is always under "label".
ROW_SETTINGS = ("weight", "ignore", "categorical", "date", "text")
#: Settings that differ from :class:`giftrl.training.Settings`.
OWN_SETTINGS = ("loss", "labels", "dictionary", *ROW_SETTINGS)
#: Settings whose type is checked explicitly.
SETTING_TYPES: dict[str, tuple[type, str]] = {
    "constant": (bool, "true or false"), "dictionary": (bool, "true or false"),
    "interactions": (list, "a list of lists of names"), "ngrams": (list, "a list of names with their sizes"),
    "dtype": (str, "float32 or float64"),
}  # fmt: skip
#: The maximum number of classes: each has a weight per feature.
MAX_CLASSES = 10_000


class RequestedSettings(NamedTuple):
    """Settings of a model as they were requested, from JSON such as ``{"loss": "squared"}``.

    >>> RequestedSettings({"labels": ["no", "yes"]}).target.loss
    'logistic'
    >>> RequestedSettings({}).loss_undecided, RequestedSettings({"loss": "squared"}).loss_undecided
    (True, False)
    """

    given: dict[str, Any]

    @classmethod
    def checked(cls, given: Any, max_bits: int = 30) -> "RequestedSettings":
        """Validate settings from a request."""
        if not isinstance(given, dict):
            raise Refused(400, "settings are no JSON object", 'send {}, or some such as {"loss": "squared"}')
        known = {*OWN_SETTINGS, *(each.name for each in fields(Settings))} - {"label_values"}
        for name in given:
            if name not in known:
                raise Refused(422, f"{name!r:.60} is no setting", f"send some of {', '.join(sorted(known))}")
        for name, (kind, words) in SETTING_TYPES.items():
            if name in given and not isinstance(given[name], kind):
                raise Refused(422, f"{name} is {given[name]!r:.40}", f"send {words}, or leave it out")
        if given.get("dictionary") and given.get("bits") is not None:
            rule = "a model with a dictionary has as many weights as names"
            raise Refused(422, f"{rule}, so that bits and dictionary exclude each other", "leave one of them out")
        requested = cls(dict(given))
        try:
            settings = requested.settings(requested.target)
            bits = settings.bits
            if bits is not None and not (type(bits) is int and 1 <= bits <= max_bits):
                raise Refused(422, f"bits is {bits!r:.20}", f"send a number from 1 to {max_bits}")
            if settings.classes > MAX_CLASSES:
                raise Refused(422, f"there are {settings.classes} labels", f"send at most {MAX_CLASSES}")
            # Try to create a model and a reader, with few weights to save memory.
            model = LinearModel(replace(settings, bits=None if bits is None else 1))
            requested.reader(model, model.features, learn=True)
        except Refused:
            raise
        except GiftrlError as problem:
            raise Refused(422, problem.told(in_http), "change the settings") from None
        except (AttributeError, TypeError, ValueError, ArithmeticError, MemoryError) as problem:
            raise Refused(422, f"no model can have these settings ({type(problem).__name__})", "change them") from None
        return requested

    @property
    def loss(self) -> str:
        """The name of the loss, or "auto"."""
        return str(self.given.get("loss", AUTO))

    @property
    def labels(self) -> Any:
        """The labels of all classes, if they are given."""
        labels = self.given.get("labels")
        if labels is None:
            return None
        form = 'send such as {"labels": ["no", "yes"]}'
        if not isinstance(labels, list):
            raise Refused(422, "labels is no list", form)
        if all(isinstance(label, str) for label in labels):
            return tuple(labels)
        if not all(type(label) in (int, float) and math.isfinite(label) for label in labels):
            raise Refused(422, "labels are neither all numbers nor all texts", form)
        return tuple(map(float, labels))

    @property
    def loss_undecided(self) -> bool:
        """True if the loss or its labels are chosen from the first rows."""
        return bool(chosen_by_rows(self.loss, self.labels))

    @property
    def target(self) -> Target:
        """The loss and its labels; a placeholder if they are chosen from the first rows."""
        return placeholder_target(self.loss, self.labels)

    @property
    def columns(self) -> Columns:
        """The roles of the keys of rows."""
        named: dict[str, Any] = {}
        for name in ROW_SETTINGS:
            if name in self.given:
                value = self.given[name]
                texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
                if not (isinstance(value, str) if name == "weight" else texts):
                    raise Refused(422, f"{name} is no {'text' if name == 'weight' else 'list of texts'}", "change it")
                named[name] = value if name == "weight" else tuple(value)
        return Columns(label="label", **named)

    def settings(self, target: Target) -> Settings:
        """The settings of a model with this target."""
        given = {name: value for name, value in self.given.items() if name not in OWN_SETTINGS}
        if self.given.get("dictionary", False):
            given["bits"] = None
        usual = Settings(loss=target.loss, label_values=target.label_values).state()
        return Settings.restore(usual | given | {"loss": target.loss, "label_values": target.label_values})

    def reader(self, model: LinearModel, features: Features, learn: bool = False) -> Reader:
        """A reader of rows for a model, to learn from or to predict for."""
        return Reader(
            Source("request", data=b""), features, columns=self.columns, schema=model.schema, on_error="skip",
            background=False, **model.settings.reader_options(learn),
        )  # fmt: skip
