"""A model of Vowpal Wabbit, from its text, that predicts."""

import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config import Link, Predictor
from giftrl.config.predictor import sigmoid
from giftrl.errors import InvalidInput
from giftrl.files import file_errors
from giftrl.streams.batch import Batch
from giftrl.streams.names.interactions import SEPARATOR
from giftrl.streams.reader import Reader
from giftrl.training.given_weights import read_weights
from giftrl.training.model import as_rows
from giftrl.training.vw_names import VwNames
from giftrl.training.vw_weights import NAMED, in_order, read_header, vw_hashes

Array = NDArray[np.float64]

#: The options of a model that are known here, each with what it may say; all others may change predictions.
PRODUCTS = {"--quadratic": r"\S\S", "--cubic": r"\S\S\S", "--interactions": r"\S{2,}"}
KNOWN = PRODUCTS | {"--noconstant": "", "--link": "identity|logistic"}
#: Options about learning alone.
LEARNING = dict.fromkeys(("--learning_rate", "--power_t", "--initial_t"), r"\S+")
LEARNING |= dict.fromkeys(("--adaptive", "--invariant", "--normalized", "--sgd"), "")
#: What the text begins with.
FIRST = b"Version "


def is_vw_text(path: str | os.PathLike[str]) -> bool:
    """Whether a file is the text of a model of Vowpal Wabbit. Pipes, whose first bytes can be read once, are not."""
    if not Path(path).is_file():
        return False
    with file_errors(path), Path(path).open("rb") as file:
        return file.read(len(FIRST)) == FIRST


class VWModel:
    """A linear model that ``vw --readable_model FILE`` or ``vw --invert_hash FILE`` wrote. It does not learn.

    Its predictions are those of ``vw -t``, to the six digits that the text has of each weight: the sum of weights times
    values, clipped to the range of labels in the text. A model with options that it does not know is refused by their
    names. The text of ``--readable_model`` has hashes in place of names. Products of features need names, and of
    several names with one hash, that text has one: use enough bits. Vowpal Wabbit tells the products ``a^x*a^y`` and
    ``a^y*a^x`` of one namespace apart, by the order of the features in a row. A model with different weights for them
    is refused; where it has one of them, that is the weight of both.

    Args:
        path: of the text.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text, rows = pathlib.Path(folder, "m.txt"), pathlib.Path(folder, "a.vw")
    ...     _ = text.write_text("Version 9.11.9\\nMin label:0\\nMax label:1\\nbits:18\\noptions:\\n:0\\n92594:0.25\\n")
    ...     _ = rows.write_text("| a:2\\n| a:2 b\\n| a:9\\n")
    ...     model = VWModel(text)
    ...     [model.predict(batch).tolist() for batch in model.read(rows)]
    [[0.5, 0.5, 1.0]]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        if not is_vw_text(path):
            rule = "is not the text of a model of Vowpal Wabbit"
            raise InvalidInput("model", self.path, rule, "write it with vw --readable_model or --invert_hash")
        given = read_weights(path)
        header = read_header(self.path, Path(path).read_bytes().decode())
        self.features, options = VwNames(), self._options(header.options)
        self.constant, self.link = "--noconstant" not in options, options.get("--link", ["identity"])[0]
        self.products = [each for name in PRODUCTS for each in options.get(name, [])]
        self.low, self.high = header.number("Min label", -math.inf), header.number("Max label", math.inf)
        for name in ("ngram", "skip"):
            if any(re.fullmatch(rf"[1-9][0-9]* {name}", each) for each in header.said):
                raise self._refused(f"--{name}")
        if given.hashed is not None and self.products:
            rule = f"has products of features ({', '.join(self.products)}) and no names"
            raise InvalidInput("model", self.path, rule, "write it with vw --invert_hash")
        self._bits = header.bits
        lines = [match for _, line in header.body if (match := NAMED.match(line))]
        # Of several names with one hash, the text has one, so weights are found by hashes. Those of products are not.
        named = list(zip(lines, given.values[:, 0].tolist() if lines else [], strict=True))
        self._hashed = given.hashed or {int(match[2]): weight for match, weight in named}
        self._products = {in_order(match[1].split("*")): weight for match, weight in named if "*" in match[1]}
        self._weights = np.zeros(0)

    def _refused(self, option: str) -> InvalidInput:
        rule = f"is a model with the option {option}, which is not known here"
        return InvalidInput("model", self.path, rule, f"these are known: {', '.join(KNOWN)}")

    def _options(self, said: str) -> dict[str, list[str]]:
        """The options of a model, and what each says."""
        found: dict[str, list[str]] = {}
        for option, value in re.findall(r"(--\S+)((?: (?!--)\S+)*)", said):
            name, _, more = option.partition("=")
            if not re.fullmatch((KNOWN | LEARNING).get(name, "(?!)"), more or value.strip()):
                raise self._refused(f"{option}{value}")
            found.setdefault(name, []).append(more or value.strip())
        return found

    def read(self, sources: Any, **reading: Any) -> Reader:
        """A reader of rows to predict; the arguments are those of :class:`giftrl.streams.Reader`."""
        return Reader(sources, self.features, interactions=self.products, constant=self.constant, **reading)

    def predict(self, batch: Batch) -> Array:
        """The prediction of each row of a batch that :meth:`read` gave."""
        scores = self.scores(batch)
        return sigmoid(scores) if self.link == "logistic" else scores

    def scores(self, batch: Batch) -> Array:
        """The score of each row: the prediction before ``--link logistic`` makes a probability of it."""
        known, count = len(self._weights), self.features.dimension
        names = [self.features.name(slot) or "" for slot in range(known, count)]
        self._weights = np.append(self._weights, self._weights_of(names))
        plain = Predictor(self._weights[:, None], np.zeros(1), np.full(1, -np.inf), np.full(1, np.inf), Link.IDENTITY)
        scores = plain.scores(as_rows(batch))[:, 0]
        return np.clip(scores + batch.bases if len(batch.bases) else scores, self.low, self.high)

    def _weights_of(self, names: list[str]) -> list[float]:
        factors, numbers = (name.split(SEPARATOR) for name in names), vw_hashes(names, self._bits)
        return [
            self._hashed.get(number, 0.0) if len(each) == 1 else self._products.get(in_order(each), 0.0)
            for each, number in zip(factors, numbers, strict=True)
        ]
