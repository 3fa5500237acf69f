"""A model as the text that ``vw --readable_model`` writes: a hash of Vowpal Wabbit and a weight in each line."""

import re

import numpy as np

from giftrl.config import Link
from giftrl.errors import Incompatible, InvalidInput, require
from giftrl.streams.names.features import Hashing
from giftrl.training.model import LinearModel
from giftrl.training.vw_weights import vw_hashes

#: The most and the fewest bits of the hashes, where the model does not say.
FEWEST, MOST = 18, 30
#: What no feature of Vowpal Wabbit has in its name.
BREAKS = re.compile(r"[\s:|]")
WIDEST = float(np.finfo(np.float32).max)


def readable_model(model: LinearModel, bits: int | None = None) -> str:
    """The text of a model of one score, in which weights are found by Vowpal Wabbit's hashes of names.

    The sum of weight times value over the features of a row, by these hashes, is the score of the row. Vowpal Wabbit
    hashes names in another way than giftrl, so a weight needs its name. A dictionary has all names. Of hashed names, a
    model keeps the first one of each coordinate, so it cannot tell which names share one: a shared weight is written
    under the first name alone, and the others have none. The model is refused where, by the coordinates in use, one or
    more names are expected to share one, and where the names that it keeps share a hash in Vowpal Wabbit. So are models
    that are more than a sum of weights: of several classes, of rows of unit norm, with products, n-grams or the Poisson
    loss.

    The namespace of a name is what stands before its first caret.

    Args:
        model: as it is now.
        bits: of the hashes; by default those of a model of hashed names, and as many as tell all names apart otherwise.

    >>> from giftrl.streams.batch import Position
    >>> from giftrl.streams.text.vw import VwText
    >>> from giftrl.training import Settings
    >>> model = LinearModel(Settings(loss="squared", bits=None, beta=1.0))
    >>> batch = VwText(model.features, compiled=False).parse(b"1 |a x\\n", "a.vw", Position())
    >>> _ = list(model.learn(batch))
    >>> readable_model(model).splitlines()[-1].split(":")[0]
    '55432'
    """
    _require_sum(model)
    predictor = model.freeze()
    weights = predictor.weights[:, 0]
    slots = np.flatnonzero(weights)
    names = _names(model, slots.tolist())
    values = [weights[slot] * model.features.sign(slot) for slot in slots.tolist()]
    own = model.features.bits if isinstance(model.features, Hashing) else None
    tried = [bits or own] if bits or own else range(FEWEST, MOST + 1)
    for size in tried:
        good = isinstance(size, int) and 1 <= size <= MOST
        require(good, "bits", size, f"must be a whole number from 1 to {MOST}", "18 is usual")
        hashes = vw_hashes(names, int(size or 0))
        places = dict(zip(hashes, names, strict=True))
        if len(places) == len(names):
            break
    else:
        first, second = next(
            (name, places[key]) for name, key in zip(names, hashes, strict=True) if places[key] != name
        )
        rule = f"give {first!r} and {second!r} the same hash in Vowpal Wabbit"
        remedy = "give more bits" if bits else "train with more --bits, or with --dictionary"
        raise InvalidInput("bits", size, rule, remedy)
    low, high = (float(np.clip(each[0], -WIDEST, WIDEST)) for each in (predictor.low, predictor.high))
    lines = [
        "Version 9.11.9", "Id giftrl", f"Min label:{low:.9g}", f"Max label:{high:.9g}", f"bits:{size}", "lda:0",
        "0 ngram:", "0 skip:", f"options:{'' if model.settings.constant else ' --noconstant'}", ":0",
    ]  # fmt: skip
    lines += [f"{key}:{value:.9g}" for key, value in sorted(zip(hashes, values, strict=True))]
    return "\n".join(lines) + "\n"


def _require_sum(model: LinearModel) -> None:
    """Refuse a model that is more than a sum of weights of features."""
    settings = model.settings
    for wrong, words in (
        (settings.many, f"has {settings.classes} scores"),
        (settings.normalize != "none", f"divides rows by their norms (normalize={settings.normalize})"),
        (bool(settings.interactions), "has products of features"),
        (bool(settings.ngrams), "has n-grams"),
        (model.freeze().link is Link.EXP, "predicts exp of the score (the Poisson loss)"),
    ):
        if wrong:
            raise Incompatible(
                f"the model {words}, and a readable model of Vowpal Wabbit is a sum of the weights of features; giftrl "
                "inspect --json shows it"
            )


def _names(model: LinearModel, slots: list[int]) -> list[str]:
    """The name of each coordinate that has a weight: of hashed names, the first one seen there."""
    features, report = model.features, model.features.report()
    if report.collided:
        about = "" if report.exact else "about "
        raise Incompatible(
            f"{about}{report.collided:,} names share a coordinate with another one, so their weights cannot be told "
            "apart; train with more --bits, or with --dictionary"
        )
    before, features.frozen = features.frozen, True  # asking for coordinates must add no names
    names = [features.name(slot) or "" for slot in slots]
    places = features.slots(names)[0].tolist()
    features.frozen = before
    for slot, name, place in zip(slots, names, places, strict=True):
        # The numbers of LIBSVM text are their own coordinates, below 2^bits; as text they would be hashed.
        if not name or (place != slot and slot != features.constant and name != str(slot)):
            raise Incompatible(
                f"the name of coordinate {slot} is not known in full ({name!r}): of hashed names, 254 bytes are kept; "
                "train with --dictionary"
            )
        if BREAKS.search(name):
            rule = "has a blank, a colon or a bar, which no feature of Vowpal Wabbit has"
            raise InvalidInput("name", name, rule, "rename the column or the value")
    return names
