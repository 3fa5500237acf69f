"""The published curves as numbers, read off the figures to about half a percent of each axis."""

import csv
import functools
import math
from importlib.resources import files

__all__ = ["points"]


@functools.cache
def _all() -> dict[tuple[str, str, str], tuple[tuple[float, float], ...]]:
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    text = files("giftrl.paper").joinpath("figures.csv").read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        loss, dataset = line.pop("loss"), line.pop("dataset")
        # Half decades, printed in four digits.
        beta = 10.0 ** (round(2.0 * math.log10(float(line.pop("beta")))) / 2.0)
        for update, value in line.items():
            if value not in ("", "clipped"):
                found.setdefault((loss, dataset, update), []).append((beta, float(value)))
    return {where: tuple(curve) for where, curve in found.items()}


def points(loss: str, dataset: str) -> dict[str, tuple[tuple[float, float], ...]]:
    """The points of a panel by update: (beta, loss), without those that are hidden or cut off in the figure.

    >>> points("hinge", "a9a")["linear"][:2]
    ((1.0, 0.419), (3.1622776601683795, 0.3775))
    >>> points("hinge", "digits")
    {}
    """
    return {where[2]: curve for where, curve in _all().items() if where[:2] == (loss, dataset)}
