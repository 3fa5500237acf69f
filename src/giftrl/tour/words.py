"""What the tour found: a table for the page, and what ends it on the terminal."""

import math
from collections.abc import Sequence
from pathlib import Path

from giftrl.tour.comparison import GOOD, Comparison, mean_ratio
from giftrl.tour.rival import RATES

Table = tuple[tuple[str, ...], list[list[str]]]


def table(found: Sequence[Comparison]) -> Table:
    """The columns of the page, and their rows; each loss of SGD also as a multiple of giftrl's."""
    head = ("data set", "rows", "features", *LOSSES, f"rates within {GOOD:.0%} of giftrl")
    sizes = [[f"{size:,}" for size in each.data.x.shape] for each in found]
    return head, [[name, *size, *rest] for size, (name, *rest) in zip(sizes, short_table(found)[1], strict=True)]


LOSSES = ("giftrl, nothing set", "SGD, its defaults", "SGD, its best rate", "that rate")


def short_table(found: Sequence[Comparison]) -> Table:
    """The columns that fit into a terminal of 80 characters, and their rows."""
    return ("data set", "giftrl", *LOSSES[1:], "good rates"), [
        [
            each.data.name, _loss(each.ours), _beside(each.default, each.ours), _beside(each.best[1], each.ours),
            f"{each.best[0]:g}", f"{each.good} of {len(RATES)}",
        ]
        for each in found
    ]  # fmt: skip


def last_lines(found: Sequence[Comparison], page: Path) -> list[str]:
    """Five lines that end the tour on the terminal; the last is the page to open."""
    default = mean_ratio((each.ours, each.default) for each in found)
    best = mean_ratio((each.ours, each.best[1]) for each in found)
    runs, good = len(found) * len(RATES), sum(each.good for each in found)
    proved = next((each for each in found if not math.isnan(each.below)), None)
    proof = "Each run also looks for a proof of what no linear model can do better."
    if proved is not None:
        limit = f"loss {_loss(proved.ours)}, and no linear model of its size below {_loss(proved.below)}."
        proof = f"Proved for {proved.data.name}: {limit}"
    return [
        f"giftrl learnt {len(found)} data sets, one pass each, nothing set. Lower loss is better.",
        f"Its loss is {default:.2f} of SGD's by default, and {best:.2f} of SGD's at the best of {len(RATES)} rates.",
        f"That rate is known only afterwards: {runs - good} of {runs} runs of SGD were over {GOOD:.0%} worse.",
        proof,
        f"Open {page}",
    ]


def _loss(value: float) -> str:
    return f"{value:.3f}" if value < 100.0 else f"{value:,.0f}"


def _beside(loss: float, ours: float) -> str:
    return f"{_loss(loss)} ({loss / ours:.2f}x)"
