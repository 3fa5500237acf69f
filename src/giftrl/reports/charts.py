"""Charts: small ones as SVG text, whose colours are classes of the page's style sheet, and panels by Matplotlib.

Matplotlib draws losses against beta in the paper's style. It is an optional dependency, takes most of a second to
import, and writes fixed colours.
"""

import importlib.util
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.errors import GiftrlError, require
from giftrl.files import write
from giftrl.reports.loss_summary import Summary
from giftrl.reports.page import INK
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
        self.legend: list[tuple[str, str]] = []  # names of curves and their classes

    def _at(self, xs: ArrayLike, ys: ArrayLike) -> list[list[float]]:
        """The positions of points."""
        pairs = zip(np.ravel(xs).tolist(), np.ravel(ys).tolist(), strict=True)
        places: NDArray[np.float64] = np.array([(self._across(x), self._down(y)) for x, y in pairs])
        # A browser does not draw a path with a number beyond its range.
        return places.reshape(-1, 2).clip(-2000.0, 2000.0).tolist()  # type: ignore[no-any-return]

    def _across(self, x: float) -> float:
        return self._left + self.x.place(x) * (WIDTH - self._left - RIGHT)

    def _down(self, y: float) -> float:
        return HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM)

    def line(self, xs: ArrayLike, ys: ArrayLike, css: str, name: str = "") -> None:
        """Add a curve, with a name in the legend."""
        path = "L".join(f"{a:.1f},{b:.1f}" for a, b in self._at(xs, ys))
        self._marks.append(f'<path class="line {css}" d="M{path}"/>')
        if name:
            self.legend.append((name, css))

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
        for name, css in self.legend:
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


# Matplotlib.

#: Colours that differ in lightness as well as in hue, for grey prints and colour-blind readers; dashes; and markers.
STYLES: tuple[dict[str, Any], ...] = tuple(
    {"color": colour, "linestyle": dashes, "marker": marker}
    for colour, dashes, marker in (
        ("#d1495b", "-", "s"), ("#c98a00", "-", "^"), ("#7b52ab", "-", "D"), ("#1f6fb4", (0, (4, 2)), "o"),
        ("#2a9d6f", "-", "v"), ("#8c564b", (0, (1, 1.5)), "P"), ("#0aa2c0", (0, (6, 2, 1, 2)), "X"),
        ("#6b7280", "-", "<"), ("#e377c2", (0, (3, 1)), ">"),
    )
)  # fmt: skip
#: The styles of the paper's rules, the same in every figure.
RULE_STYLES = {"linear": 0, "truncated": 1, "twostep": 2, "two-step": 2, "proximal": 3, "iwa": 4}


def style(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A style for each curve. Curves of one figure differ, and the paper's rules look the same in every figure.

    >>> style(["proximal", "linear"])["linear"]["marker"]
    's'
    """
    places = {name: RULE_STYLES[name] for name in names if name in RULE_STYLES}
    free = [k for k in range(len(STYLES)) if k not in places.values()] or list(range(len(STYLES)))
    others = [name for name in names if name not in RULE_STYLES]
    places |= {name: free[i % len(free)] for i, name in enumerate(others)}
    return {name: STYLES[places[name]] for name in names}


def require_matplotlib() -> None:
    """Raise an error without Matplotlib; called before the work whose results are drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise GiftrlError("figures need Matplotlib; pip install 'giftrl[experiments]'")


def new_figure(columns: int = 1) -> tuple[Any, list[Any]]:
    """A Matplotlib figure and its axes, which stand side by side in as many columns."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.7 * columns, 2.9), layout="constrained")
    # A page hides the elements called "backdrop", so that its own background shows.
    figure.patch.set_gid("backdrop")
    all_axes = list(figure.subplots(1, columns, squeeze=False)[0])
    for axes in all_axes:
        axes.patch.set_gid("backdrop")
        axes.spines[["top", "right"]].set_visible(False)
        for spine in axes.spines.values():
            spine.set_color(INK)
        axes.tick_params(colors=INK, which="both", labelsize=8)
        axes.xaxis.label.set(color=INK, fontsize=9)
        axes.yaxis.label.set(color=INK, fontsize=9)
        axes.title.set_color(INK)
        axes.grid(alpha=0.25, linewidth=0.5)
    return figure, all_axes


def svg(figure: Any) -> str:
    """A figure as SVG text; equal figures give equal text."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "giftrl", "svg.fonttype": "none", "text.color": INK}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def save(figure: Any, path: Path) -> None:
    """Write a figure to a file, completely or not at all; the file's suffix names the format, such as .png."""
    image = io.BytesIO()
    figure.savefig(image, format=path.suffix.lstrip("."), dpi=200)
    write(path, [image.getvalue()])


#: Kinds of vertical axes.
AXES = {
    "clip": "ends at the highest value of the other curves, as in the paper",
    "log": "logarithmic, long enough for every curve",
}


@dataclass(frozen=True)
class Panel:
    """Average loss against beta on a logarithmic axis, with shaded confidence intervals."""

    summary: Summary  # the curves
    title: str
    loss: str  # the name of the loss, for the label of the vertical axis
    axis: str = "clip"  # one of :data:`AXES`
    may_leave: tuple[str, ...] = ("linear",)  # with ``axis="clip"``, the curves that may run out of the panel
    limits: tuple[float, float] | None = None  # the ends of the vertical axis; None computes them from the curves
    #: Points to draw over the curves: pairs of beta and loss, by curve.
    published: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    def draw(self) -> Any:
        """The panel as a Matplotlib figure."""
        figure, (axes,) = new_figure()
        self.draw_on(axes)
        return figure

    def draw_on(self, axes: Any) -> None:
        """Draw the panel on these axes."""
        require(self.axis in AXES, "axis", self.axis, "must be clip or log", "clip is what the paper does")
        summary, mean, half = self.summary, self.summary.mean, self.summary.half_width
        for k, (name, look) in enumerate(style(summary.names).items()):
            finite = np.isfinite(mean[k])
            if not finite.any():
                continue
            beta = np.array(summary.betas)[finite]
            middle, width = mean[k][finite], np.nan_to_num(half[k][finite])
            axes.fill_between(beta, middle - width, middle + width, color=look["color"], alpha=0.2, linewidth=0)
            axes.plot(beta, middle, **look, markersize=3.2, linewidth=1.5, label=name)
        points = [point for curve in self.published.values() for point in curve]
        if points:
            axes.plot(
                *zip(*points, strict=True), linestyle="none", marker="o", markersize=6.5, markerfacecolor="none",
                markeredgecolor=INK, markeredgewidth=0.8, label="published",
            )  # fmt: skip
        axes.set(xscale="log", xlabel="beta", ylabel=f"average {self.loss} loss")
        if self.axis == "log":
            axes.set_yscale("log")
        else:
            axes.set_ylim(*self._limits())
        axes.set_title(self.title, fontsize=10)
        axes.legend(frameon=False, fontsize=8, labelcolor=INK)

    def _limits(self) -> tuple[float, float]:
        if self.limits is not None:
            return self.limits
        mean, names = self.summary.mean, self.summary.names
        stay = [k for k, name in enumerate(names) if name not in self.may_leave] or list(range(len(names)))
        low = float(mean[np.isfinite(mean)].min(initial=math.inf))
        values = mean[stay]
        high = float(values[np.isfinite(values)].max(initial=-math.inf))
        if not low < high:
            return (0.0, 1.0) if math.isinf(low) else (low - 0.5, low + 0.5)
        margin = 0.04 * (high - low)
        return low - margin, high + margin


def side_by_side(panels: Sequence[Panel]) -> Any:
    """Several panels in one figure, side by side."""
    figure, all_axes = new_figure(len(panels))
    for panel, axes in zip(panels, all_axes, strict=True):
        panel.draw_on(axes)
    return figure
