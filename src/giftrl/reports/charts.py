"""Small charts as SVG text. Colours are classes of the page's style sheet, for light and dark backgrounds.

Matplotlib is an optional dependency, takes most of a second to import, and writes fixed colours.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.reports.wording import short

#: The size of a chart and its margins around the axes, in units of about a pixel of a phone.
WIDTH, HEIGHT = 440.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 14.0, 12.0, 42.0
#: The width of an average letter, and the height of a line of the legend.
LETTER_WIDTH, LINE_HEIGHT = 6.1, 17.0


class Axis(NamedTuple):
    """An axis: its ends, its label, and its scale.

    >>> Axis(0.0, 10.0, "loss").place(2.5), Axis(1.0, 10000.0, "rows", log=True).place(100.0)
    (0.25, 0.5)
    """

    low: float
    high: float
    label: str
    log: bool = False

    def place(self, value: float) -> float:
        """The position of a value: 0 at the lower end, 1 at the upper one."""
        if self.log:
            return math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """About five round values."""
        if not self.log:
            return round_values(self.low, self.high)
        powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
        if len(powers) >= 3:
            return [10.0**power for power in powers if power % math.ceil(len(powers) / 6) == 0]
        values = [m * 10.0**p for p in range(powers.start - 1, powers.stop + 1) for m in (1, 2, 5)]
        return [value for value in values if self.low <= value <= self.high]

    def text(self, value: float) -> str:
        """The text of a tick, with enough digits to differ from its neighbours."""
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

    def __init__(self, x: Axis, y: Axis) -> None:
        self.x, self.y = x, y
        self._left = max(LEFT, 28.0 + LETTER_WIDTH * max((len(y.text(value)) for value in y.ticks), default=0))
        self._marks: list[str] = []
        self._legend: list[tuple[str, str]] = []

    def _at(self, xs: ArrayLike, ys: ArrayLike) -> list[list[float]]:
        """The positions of points."""
        pairs = zip(np.ravel(xs).tolist(), np.ravel(ys).tolist(), strict=True)
        places: NDArray[np.float64] = np.array([(self._across(x), self._down(y)) for x, y in pairs])
        # A browser does not draw a path with a number beyond its range.
        clipped: list[list[float]] = places.reshape(-1, 2).clip(-2000.0, 2000.0).tolist()
        return clipped

    def _across(self, x: float) -> float:
        return self._left + self.x.place(x) * (WIDTH - self._left - RIGHT)

    def _down(self, y: float) -> float:
        return HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM)

    def line(self, xs: ArrayLike, ys: ArrayLike, css: str, name: str = "") -> None:
        """Add a curve, with a name in the legend."""
        path = "L".join(f"{a:.1f},{b:.1f}" for a, b in self._at(xs, ys))
        self._marks.append(f'<path class="line {css}" d="M{path}"/>')
        if name:
            self.name(name, css)

    def name(self, name: str, css: str) -> None:
        """Add an entry of the legend."""
        self._legend.append((name, css))

    def dots(self, xs: ArrayLike, ys: ArrayLike, css: str, notes: Sequence[str], radius: float = 3.5) -> None:
        """Add dots; a browser shows the note of the dot under the pointer."""
        self._marks += [
            f'<circle class="dot {css}" cx="{a:.1f}" cy="{b:.1f}" r="{radius:g}"><title>{escape(note)}</title></circle>'
            for (a, b), note in zip(self._at(xs, ys), notes, strict=True)
        ]

    def box(self, x: tuple[float, float], y: tuple[float, float], css: str, note: str = "", opacity: float = 1) -> None:
        """Add a filled rectangle."""
        (a, b), (c, d) = self._at(x, y)
        title = f"<title>{escape(note)}</title>" if note else ""
        faint = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
        size = f'width="{abs(c - a):.1f}" height="{abs(d - b):.1f}"'
        self._marks.append(f'<rect class="{css}" x="{min(a, c):.1f}" y="{min(b, d):.1f}" {size}{faint}>{title}</rect>')

    def words(self, x: float, y: float, text: str, css: str = "", anchor: str = "start", lower: float = 0.0) -> None:
        """Add text at a place, moved down by some units."""
        ((a, b),) = self._at([x], [y])
        self._marks.append(_text(a, b + lower, text, anchor, css))

    def svg(self) -> str:
        """The chart as SVG text."""
        left, right, bottom = self._left, WIDTH - RIGHT, HEIGHT - BOTTOM
        legend, height = self._drawn_legend()
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" class="chart">',
            f'<clipPath id="inside"><rect x="{left:g}" y="{TOP - 6:g}" width="{right - left + 6:g}" '
            f'height="{bottom - TOP + 12:g}"/></clipPath>',
            '<pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            '<line class="hatch" x1="0" y1="0" x2="0" y2="7"/></pattern>',
        ]
        for value in self.y.ticks:
            b = self._down(value)
            parts.append(f'<line class="grid" x1="{left:g}" x2="{right:g}" y1="{b:.1f}" y2="{b:.1f}"/>')
            parts.append(_text(left - 6, b + 4, self.y.text(value), "end"))
        for value in self.x.ticks:
            a = self._across(value)
            parts.append(f'<line class="grid" x1="{a:.1f}" x2="{a:.1f}" y1="{bottom:g}" y2="{bottom + 4:g}"/>')
            parts.append(_text(a, bottom + 16, self.x.text(value), "middle"))
        parts.append(f'<line class="axis" x1="{left:g}" x2="{right:g}" y1="{bottom:g}" y2="{bottom:g}"/>')
        parts.append(_text((left + right) / 2, bottom + 34, self.x.label, "middle", "name"))
        parts.append(
            f'<text class="name" transform="translate(12 {(TOP + bottom) / 2:g}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.y.label)}</text>"
        )
        return "\n".join([*parts, '<g clip-path="url(#inside)">', *self._marks, "</g>", *legend, "</svg>"])

    def _drawn_legend(self) -> tuple[list[str], float]:
        """The legend below the axes, and the height of the whole chart."""
        parts, a, b = [], self._left, HEIGHT + 10.0
        for name, css in self._legend:
            size = 26.0 + LETTER_WIDTH * len(name)
            if a + size > WIDTH and a > self._left:
                a, b = self._left, b + LINE_HEIGHT
            parts.append(f'<path class="line {css}" d="M{a:.1f},{b - 4:.1f}h16"/>')
            parts.append(_text(a + 21, b, name))
            a += size + 8
        return parts, b + 11.0 if parts else HEIGHT


def _text(x: float, y: float, text: str, anchor: str = "start", css: str = "") -> str:
    mark = f' class="{css}"' if css else ""
    return f'<text{mark} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
