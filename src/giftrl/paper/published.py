"""The published curves as numbers, read from the figures with an error of about 0.5% of each axis."""

import csv
import functools
import math
from importlib.resources import files


@functools.cache
def _all() -> dict[tuple[str, str, str], tuple[tuple[float, float], ...]]:
    curves: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    text = files("giftrl.paper").joinpath("figures.csv").read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        loss, dataset = line.pop("loss"), line.pop("dataset")
        # The betas are half decades; the file has them rounded to four digits.
        beta = 10.0 ** (round(2.0 * math.log10(float(line.pop("beta")))) / 2.0)
        for update, value in line.items():
            if value not in ("", "clipped"):
                curves.setdefault((loss, dataset, update), []).append((beta, float(value)))
    return {where: tuple(curve) for where, curve in curves.items()}


def points(loss: str, dataset: str) -> dict[str, tuple[tuple[float, float], ...]]:
    """The visible points of a panel, pairs of beta and loss, by update.

    >>> points("hinge", "a9a")["linear"][:2]
    ((1.0, 0.419), (3.1622776601683795, 0.3775))
    >>> points("hinge", "digits")
    {}
    """
    return {where[2]: curve for where, curve in _all().items() if where[:2] == (loss, dataset)}
