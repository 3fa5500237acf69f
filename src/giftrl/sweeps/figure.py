"""A panel in the paper's style: loss against beta on a logarithmic axis, with shaded confidence intervals."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from giftrl.errors import GiftrlError, require
from giftrl.files import write
from giftrl.sweeps.summary import Summary

__all__ = ["AXES", "Look", "Panel", "inline", "new_figure", "save", "side_by_side", "style", "svg"]

#: How the vertical axis is cut.
AXES = {
    "clip": "cut at the highest value of the other curves, as in the paper",
    "log": "logarithmic, with every curve whole",
}

#: The colour of text and axes; a page puts its own in its place.
INK = "#1b1f23"

#: Colours that differ in lightness as well as in hue, so that they survive a grey print and colour blindness.
COLOURS = ("#d1495b", "#c98a00", "#7b52ab", "#1f6fb4", "#2a9d6f", "#8c564b", "#0aa2c0", "#6b7280", "#e377c2")
DASHES: tuple[Any, ...] = ("-", "-", "-", (0, (4, 2)), "-", (0, (1, 1.5)), (0, (6, 2, 1, 2)), "-", (0, (3, 1)))
MARKERS = ("s", "^", "D", "o", "v", "P", "X", "<", ">")

#: What the four rules of the paper always look like.
KNOWN = {"linear": 0, "truncated": 1, "twostep": 2, "two-step": 2, "proximal": 3, "iwa": 4}


@dataclass(frozen=True)
class Look:
    """How a curve looks.

    >>> style(["proximal", "linear"])["linear"].marker
    's'
    """

    colour: str
    dashes: Any
    marker: str


def style(names: Sequence[str]) -> dict[str, Look]:
    """A look for each curve, different ones for different curves; the paper's rules always look the same."""
    taken = {name: KNOWN[name] for name in names if name in KNOWN}
    free = [k for k in range(len(COLOURS)) if k not in taken.values()]
    rest = [name for name in names if name not in KNOWN]
    taken |= {name: (free or list(range(len(COLOURS))))[i % max(1, len(free))] for i, name in enumerate(rest)}
    return {name: Look(COLOURS[taken[name]], DASHES[taken[name]], MARKERS[taken[name]]) for name in names}


@dataclass(frozen=True)
class Panel:
    """What one panel shows.

    Attributes:
        summary: the curves.
        title: above the panel.
        loss: the name of the loss, for the vertical axis.
        axis: one of :data:`AXES`.
        cut: the curves that may leave the panel when it is cut.
        limits: the vertical axis, where it is given.
        published: points to draw over the curves: (beta, loss) by curve.
    """

    summary: Summary
    title: str
    loss: str
    axis: str = "clip"
    cut: tuple[str, ...] = ("linear",)
    limits: tuple[float, float] | None = None
    published: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    def draw(self) -> Any:
        """The panel as a Matplotlib figure."""
        figure, (axes,) = new_figure()
        self.draw_on(axes)
        return figure

    def draw_on(self, axes: Any) -> None:
        """The panel on axes of a figure."""
        require(self.axis in AXES, "axis", self.axis, "must be clip or log", "clip is what the paper does")
        summary, mean, half = self.summary, self.summary.mean, self.summary.half_width
        for k, (name, look) in enumerate(style(summary.names).items()):
            shown = np.isfinite(mean[k])
            if not shown.any():
                continue
            beta = np.array(summary.betas)[shown]
            middle, width = mean[k][shown], np.nan_to_num(half[k][shown])
            axes.fill_between(beta, middle - width, middle + width, color=look.colour, alpha=0.2, linewidth=0)
            axes.plot(
                beta, middle, color=look.colour, linestyle=look.dashes, marker=look.marker, markersize=3.2,
                linewidth=1.5, label=name,
            )  # fmt: skip
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
        mean = self.summary.mean
        others = [k for k, name in enumerate(self.summary.names) if name not in self.cut] or list(range(len(mean)))
        low = float(mean[np.isfinite(mean)].min(initial=math.inf))
        values = mean[others]
        high = float(values[np.isfinite(values)].max(initial=-math.inf))
        if not low < high:
            return (0.0, 1.0) if math.isinf(low) else (low - 0.5, low + 0.5)
        margin = 0.04 * (high - low)
        return low - margin, high + margin


def new_figure(columns: int = 1) -> tuple[Any, list[Any]]:
    """A figure with axes side by side; needs Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise GiftrlError("figures need Matplotlib; pip install 'giftrl[experiments]'") from missing
    figure = Figure(figsize=(3.7 * columns, 2.9), layout="constrained")
    # A page hides the backdrops and shows its own.
    figure.patch.set_gid("backdrop")
    found = list(figure.subplots(1, columns, squeeze=False)[0])
    for axes in found:
        axes.patch.set_gid("backdrop")
        axes.spines[["top", "right"]].set_visible(False)
        for spine in axes.spines.values():
            spine.set_color(INK)
        axes.tick_params(colors=INK, which="both", labelsize=8)
        axes.xaxis.label.set(color=INK, fontsize=9)
        axes.yaxis.label.set(color=INK, fontsize=9)
        axes.title.set_color(INK)
        axes.grid(alpha=0.25, linewidth=0.5)
    return figure, found


def side_by_side(panels: Sequence[Panel]) -> Any:
    """Several panels in one figure, as on a printed page."""
    figure, axes = new_figure(len(panels))
    for panel, place in zip(panels, axes, strict=True):
        panel.draw_on(place)
    return figure


def svg(figure: Any) -> str:
    """A figure as SVG; the same figure gives the same text."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "giftrl", "svg.fonttype": "none", "text.color": INK}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def inline(text: str, name: str, description: str) -> str:
    """SVG for a page: as wide as its place, in the page's colours, described for those who listen.

    Args:
        text: from :func:`svg`.
        name: different for each figure of a page, in letters, digits and hyphens.
        description: what the figure shows.

    >>> inline('<?xml?><svg width="9pt" height="9pt" viewBox="0 0 9 9"><g id="a"/></svg>', "one", "A & B")
    '<svg role="img" aria-label="A &amp; B" viewBox="0 0 9 9"><g id="one-a"/></svg>'
    """
    text = text[text.index("<svg") :].strip()
    # Names inside a figure would collide with those of the next one.
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = text.replace(INK, "currentColor")
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    opening, rest = text.split(">", 1)
    opening = re.sub(r'\s(width|height)="[^"]*"', "", opening)
    return opening.replace("<svg", f'<svg role="img" aria-label="{escape(description, quote=True)}"', 1) + ">" + rest


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG or another format that Matplotlib knows, by the ending of the name; whole or not at all."""
    image = io.BytesIO()
    figure.savefig(image, format=path.suffix.lstrip("."), dpi=200)
    write(path, [image.getvalue()])
