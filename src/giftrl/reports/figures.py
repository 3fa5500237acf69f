"""Figures of losses against beta by Matplotlib, in the paper's style, and their SVG text for pages."""

import importlib.util
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from giftrl.errors import GiftrlError, require
from giftrl.files import write
from giftrl.reports.loss_summary import Summary
from giftrl.reports.page import INK

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
