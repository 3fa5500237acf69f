"""A panel in the paper's style: average loss against beta on a logarithmic axis, with shaded confidence intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from giftrl.errors import require
from giftrl.reports.figure import INK, new_figure, style
from giftrl.reports.summary import Summary

#: The kinds of vertical axis.
AXES = {
    "clip": "ends at the highest value of the other curves, as in the paper",
    "log": "logarithmic, long enough for every curve",
}


@dataclass(frozen=True)
class Panel:
    """What one panel shows."""

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
