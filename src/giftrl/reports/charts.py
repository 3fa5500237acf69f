"""Small charts as SVG text, laid out by hand: no library is needed, and colours are those of the page's style sheet.

Matplotlib is an optional dependency, takes most of a second to import, and writes colours that do not change between
light and dark.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.reports.wording import short

#: The size of a chart and what is left of it around the axes, in units that are about a pixel of a phone.
WIDTH, HEIGHT = 440.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 14.0, 12.0, 42.0
#: The width of an average letter, and the height of a line of the legend.
LETTER, LINE = 6.1, 17.0


class Axis(NamedTuple):
    """An axis: its ends, what it shows, and whether it is logarithmic.

    >>> Axis(0.0, 10.0, "loss").place(2.5), Axis(1.0, 10000.0, "rows", log=True).place(100.0)
    (0.25, 0.5)
    """

    low: float
    high: float
    label: str
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value is: 0 at the lower end, 1 at the upper one."""
        if self.log:
            return math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """About five round values."""
        if self.log:
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            step = max(1, math.ceil(len(powers) / 6))
            if len(powers) >= 3:
                return [10.0**power for power in powers if power % step == 0]
            some = [m * 10.0**p for p in range(powers.start - 1, powers.stop + 1) for m in (1, 2, 5)]
            return [each for each in some if self.low <= each <= self.high]
        return round_values(self.low, self.high)

    def text(self, value: float) -> str:
        """The text of a tick, with as many digits as tell it from its neighbours."""
        if self.log or len(self.ticks) < 2:
            return short(value)
        step = self.ticks[1] - self.ticks[0]
        largest = max(abs(self.low), abs(self.high))
        if step >= 1e-4 and largest < 1e4:
            return f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"
        return short(value, max(3, math.ceil(math.log10(largest / step)) + 1))


def round_values(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two numbers.

    >>> round_values(0.0, 0.9), round_values(-3.0, 7.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8], [-2.0, 0.0, 2.0, 4.0, 6.0])
    """
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


class Chart:
    """A chart with two axes, to which marks are added one by one; ``css`` names a class of the style sheet.

    >>> chart = Chart(Axis(0.0, 1.0, "x"), Axis(0.0, 2.0, "y"))
    >>> chart.line([0.0, 1.0], [0.0, 2.0], "s1", "up")
    >>> text = chart.svg()
    >>> text.count('class="line s1"'), "up</text>" in text
    (2, True)
    """

    def __init__(self, x: Axis, y: Axis, *, height: float = HEIGHT) -> None:
        self.x, self.y = x, y
        self._height = height
        self._left = max(LEFT, 28.0 + LETTER * max((len(y.text(value)) for value in y.ticks), default=0))
        self._marks: list[str] = []
        self._legend: list[tuple[str, str]] = []

    def _at(self, xs: ArrayLike, ys: ArrayLike) -> NDArray[np.float64]:
        places = [
            (self._left + self.x.place(a) * (WIDTH - self._left - RIGHT), self._down(b))
            for a, b in zip(np.ravel(xs).tolist(), np.ravel(ys).tolist(), strict=True)
        ]
        # A browser draws nothing of a path that has a number beyond its range.
        return np.asarray(np.clip(np.array(places, float).reshape(-1, 2), -2000.0, 2000.0))

    def _down(self, y: float) -> float:
        return self._height - BOTTOM - self.y.place(y) * (self._height - TOP - BOTTOM)

    def line(self, xs: ArrayLike, ys: ArrayLike, css: str, name: str = "") -> None:
        """A curve, and its name in the legend."""
        self._marks.append(f'<path class="line {css}" d="{path(self._at(xs, ys))}"/>')
        if name:
            self.name(name, css)

    def name(self, name: str, css: str) -> None:
        """A line of the legend."""
        self._legend.append((name, css))

    def dots(self, xs: ArrayLike, ys: ArrayLike, css: str, notes: Sequence[str] = (), radius: float = 3.5) -> None:
        """Dots; a browser shows the note of the dot under the pointer."""
        for k, (a, b) in enumerate(self._at(xs, ys).tolist()):
            note = f"<title>{escape(notes[k])}</title>" if notes else ""
            self._marks.append(f'<circle class="dot {css}" cx="{a:.1f}" cy="{b:.1f}" r="{radius:g}">{note}</circle>')

    def box(self, x: tuple[float, float], y: tuple[float, float], css: str, note: str = "", opacity: float = 1) -> None:
        """A filled rectangle from one corner to the opposite one."""
        (a, b), (c, d) = self._at(x, y).tolist()
        title = f"<title>{escape(note)}</title>" if note else ""
        faint = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
        size = f'width="{abs(c - a):.1f}" height="{abs(d - b):.1f}"'
        self._marks.append(f'<rect class="{css}" x="{min(a, c):.1f}" y="{min(b, d):.1f}" {size}{faint}>{title}</rect>')

    def words(self, x: float, y: float, text: str, css: str = "", anchor: str = "start", lower: float = 0.0) -> None:
        """Text at a place, moved down by some units."""
        (a, b) = self._at([x], [y])[0].tolist()
        self._marks.append(
            f'<text class="{css}" x="{a:.1f}" y="{b + lower:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def svg(self) -> str:
        """The chart as SVG text."""
        bottom, right = self._height - BOTTOM, WIDTH - RIGHT
        legend, lines = self._named()
        height = self._height + LINE * lines + (4 if lines else 0)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" class="chart">',
            f'<clipPath id="inside"><rect x="{self._left:g}" y="{TOP - 6:g}" width="{right - self._left + 6:g}" '
            f'height="{bottom - TOP + 12:g}"/></clipPath>',
            '<pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            '<line class="hatch" x1="0" y1="0" x2="0" y2="7"/></pattern>',
        ]
        for value in self.y.ticks:
            b = self._down(value)
            parts.append(f'<line class="grid" x1="{self._left:g}" x2="{right:g}" y1="{b:.1f}" y2="{b:.1f}"/>')
            parts.append(
                f'<text x="{self._left - 6:g}" y="{b + 4:.1f}" text-anchor="end">{escape(self.y.text(value))}</text>'
            )
        for value in self.x.ticks:
            a = self._left + self.x.place(value) * (right - self._left)
            parts.append(f'<line class="grid" x1="{a:.1f}" x2="{a:.1f}" y1="{bottom:g}" y2="{bottom + 4:g}"/>')
            parts.append(
                f'<text x="{a:.1f}" y="{bottom + 16:g}" text-anchor="middle">{escape(self.x.text(value))}</text>'
            )
        parts.append(f'<line class="axis" x1="{self._left:g}" x2="{right:g}" y1="{bottom:g}" y2="{bottom:g}"/>')
        middle = (self._left + right) / 2
        parts.append(
            f'<text class="name" x="{middle:g}" y="{bottom + 34:g}" text-anchor="middle">{escape(self.x.label)}</text>'
        )
        across = (TOP + bottom) / 2
        parts.append(
            f'<text class="name" transform="translate(12 {across:g}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.y.label)}</text>"
        )
        return "\n".join([*parts, '<g clip-path="url(#inside)">', *self._marks, "</g>", *legend, "</svg>"])

    def _named(self) -> tuple[list[str], int]:
        """The legend below the axes, and how many lines it has."""
        parts, a, line = [], self._left, 0
        for name, css in self._legend:
            size = 26.0 + LETTER * len(name)
            if a + size > WIDTH and a > self._left:
                a, line = self._left, line + 1
            b = self._height + LINE * line + 10
            parts.append(f'<path class="line {css}" d="M{a:.1f},{b - 4:.1f}h16"/>')
            parts.append(f'<text x="{a + 21:.1f}" y="{b:.1f}">{escape(name)}</text>')
            a += size + 8
        return parts, line + 1 if parts else 0


def path(points: Iterable[Sequence[float]] | NDArray[np.float64]) -> str:
    """Points joined by straight lines, as SVG writes them.

    >>> path([(0.0, 1.0), (2.0, 3.25)])
    'M0.0,1.0L2.0,3.2'
    """
    return "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
