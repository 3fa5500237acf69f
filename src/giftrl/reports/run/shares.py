"""The shares of the experts of a mixture in the course of a run."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.reports.run.curve import ENDS
from giftrl.reports.run.svg import Axis, Chart
from giftrl.reports.words import number

#: How many experts have a colour and a name in the figure.
NAMED = 5

Experts = Iterable[tuple[str, float, float]]


class Shares:
    """The shares of experts, noted at most :data:`giftrl.reports.run.curve.PER_OCTAVE` times each doubling of rows.

    >>> shares = Shares()
    >>> for rows in range(1, 100):
    ...     shares.note(rows, lambda: [("coin betting", 0.25, 7.0)])
    >>> len(shares.rows), float(shares.of("coin betting")[-1])
    (22, 0.25)
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self._shares: list[dict[str, float]] = []
        self._next = 1

    def note(self, rows: int, experts: Any, last: bool = False) -> None:
        """Note shares after so many rows, if that is past the next point.

        Args:
            rows: how many were learnt.
            experts: a function that gives (name, share, loss) of each expert, called where shares are noted.
            last: whether to note them in any case.
        """
        if rows < self._next and not (last and rows > max([0, *self.rows[-1:]])):
            return
        self._next = int(ENDS[np.searchsorted(ENDS, rows, side="right")])
        self.rows.append(rows)
        self._shares.append({name: share for name, share, _ in experts()})

    def of(self, name: str) -> NDArray[np.float64]:
        """The share of an expert at each point; NaN where it had none."""
        return np.array([shares.get(name, np.nan) for shares in self._shares])

    @property
    def names(self) -> list[str]:
        """The experts, those with the largest share at the end first."""
        every = dict.fromkeys(name for shares in self._shares for name in shares)
        return sorted(every, key=lambda name: -abs(self._shares[-1].get(name, 0.0)))

    def state(self) -> NDArray[np.uint8]:
        """What a checkpoint keeps."""
        return np.frombuffer(json.dumps([self.rows, self._shares]).encode(), np.uint8)

    def restore(self, state: NDArray[Any]) -> None:
        """Go on from a state."""
        self.rows, self._shares = json.loads(state.tobytes())
        self._next = self.rows[-1] + 1 if self.rows else 1


def draw(shares: Shares) -> tuple[str, str]:
    """The shares by the number of rows as SVG text, and in words."""
    names = shares.names
    every = {name: shares.of(name) for name in names}
    rows = np.array(shares.rows, float)
    # The shares of the first rows say little, and may be far from all others.
    settled = rows >= min(16.0, rows[-1])
    values = np.concatenate([each[settled] for each in every.values()])
    low, high = min(0.0, float(np.nanmin(values))), max(0.0, float(np.nanmax(values)))
    margin = 0.05 * (high - low) or 0.5
    low = low - margin if low < 0.0 else 0.0
    first = min(rows[settled][0], rows[-1] / 2.0)
    chart = Chart(Axis(first, rows[-1], "rows learnt", log=True), Axis(low, high + margin, "share of the prediction"))
    if low < 0.0:
        chart.line([first, rows[-1]], [0.0, 0.0], "zero")
    for k in range(len(names) - 1, -1, -1):  # those with large shares on top
        css = f"s{k + 1}" if k < NAMED else "other"
        chart.line(rows[settled], np.nan_to_num(every[names[k]][settled]), css)
    for k, name in enumerate(names[:NAMED]):
        chart.name(name, f"s{k + 1}")
    if len(names) > NAMED:
        chart.name("others", "other")
    largest = ", ".join(f"{name} {number(float(every[name][-1]), 3)}" for name in names[:3])
    return chart.svg(), f"Shares of {len(names)} experts by the number of rows. At the end: {largest}."


def of_columns(experts: Sequence[Any]) -> list[tuple[str, float, float]]:
    """The mean share and loss of each expert over mixtures that each learn a column of labels.

    >>> of_columns([[("a", 0.5, 1.0)], [("a", 1.0, 3.0)]])
    [('a', 0.75, 2.0)]
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for one in experts:
        for name, share, loss in one:
            found.setdefault(name, []).append((share, loss))
    means = {name: np.mean(values, axis=0).tolist() for name, values in found.items()}
    return [(name, share, loss) for name, (share, loss) in means.items()]
