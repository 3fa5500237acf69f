"""Figures of losses against beta by Matplotlib, in the paper's style, and their SVG text for pages."""

import importlib.util
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
from giftrl.reports.loss_summary import Summary

#: The colour of text and axes; :func:`inline` replaces it by the text colour of the page.
INK = "#1b1f23"

#: Colours that differ in lightness as well as in hue, for grey prints and for colour-blind readers.
COLOURS = ("#d1495b", "#c98a00", "#7b52ab", "#1f6fb4", "#2a9d6f", "#8c564b", "#0aa2c0", "#6b7280", "#e377c2")
DASHES: tuple[Any, ...] = ("-", "-", "-", (0, (4, 2)), "-", (0, (1, 1.5)), (0, (6, 2, 1, 2)), "-", (0, (3, 1)))
MARKERS = ("s", "^", "D", "o", "v", "P", "X", "<", ">")

#: The index of each of the paper's rules in the lists above, so that a rule looks the same in every figure.
PLACES = {"linear": 0, "truncated": 1, "twostep": 2, "two-step": 2, "proximal": 3, "iwa": 4}


@dataclass(frozen=True)
class CurveStyle:
    """The colour, dashes and marker of one curve.

    >>> style(["proximal", "linear"])["linear"].marker
    's'
    """

    colour: str
    dashes: Any
    marker: str


def style(names: Sequence[str]) -> dict[str, CurveStyle]:
    """A look for each curve. Curves of one figure differ, and the paper's rules look the same in every figure."""
    places = {name: PLACES[name] for name in names if name in PLACES}
    free = [k for k in range(len(COLOURS)) if k not in places.values()] or list(range(len(COLOURS)))
    others = [name for name in names if name not in PLACES]
    places |= {name: free[i % len(free)] for i, name in enumerate(others)}
    return {name: CurveStyle(COLOURS[places[name]], DASHES[places[name]], MARKERS[places[name]]) for name in names}


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


def inline(text: str, name: str, description: str) -> str:
    """An SVG element for an HTML page: it fills the width, takes the page's text colour, and has a description.

    Args:
        text: SVG text from :func:`svg`.
        name: letters, digits and hyphens; each figure of a page needs its own.
        description: the figure in words, for screen readers.

    >>> inline('<?xml?><svg width="9pt" height="9pt" viewBox="0 0 9 9"><g id="a"/></svg>', "one", "A & B")
    '<svg role="img" aria-label="A &amp; B" viewBox="0 0 9 9"><g id="one-a"/></svg>'
    """
    text = text[text.index("<svg") :].strip()
    # Matplotlib gives the same ids to every figure, and ids must be unique in a page.
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", text)
    text = text.replace(INK, "currentColor")
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    opening, rest = text.split(">", 1)
    opening = re.sub(r'\s(width|height)="[^"]*"', "", opening)
    return opening.replace("<svg", f'<svg role="img" aria-label="{escape(description, quote=True)}"', 1) + ">" + rest


def save(figure: Any, path: Path) -> None:
    """Write a figure to a file, completely or not at all; the file's suffix names the format, such as .png."""
    image = io.BytesIO()
    figure.savefig(image, format=path.suffix.lstrip("."), dpi=200)
    write(path, [image.getvalue()])


#: The kinds of vertical axis.
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
