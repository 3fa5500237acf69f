"""The picture of a comparison: the loss of SGD at each learning rate, and of giftrl, which has none."""

from typing import Any

from giftrl.reports import INK, new_figure
from giftrl.tour.comparison import Comparison
from giftrl.tour.rival import RATES

SGD, OURS = "#D55E00", "#0072B2"  # of Okabe and Ito's palette, which colour-blind readers can tell apart
STRIP = RATES[0] / 6.0  # the place of what has no fixed learning rate
CEILING = 12.0  # the top of the picture, as a multiple of our loss


def draw(found: Comparison) -> Any:
    """A Matplotlib figure: losses divided by that of giftrl, against the learning rate."""
    figure, (axes,) = new_figure()
    ratios = [min(loss / found.ours, CEILING) for loss in found.swept]
    axes.axvspan(STRIP / 2.5, STRIP * 2.5, color=INK, alpha=0.07, linewidth=0)
    axes.axhline(1.0, color=OURS, linewidth=1.6)
    axes.plot(RATES, ratios, color=SGD, marker="s", markersize=4, linewidth=1.5, label="SGD at each learning rate")
    ring: dict[str, Any] = {"color": SGD, "marker": "s", "markerfacecolor": "none", "linestyle": "none"}
    axes.plot(STRIP, min(found.default / found.ours, CEILING), **ring, markersize=6.5, markeredgewidth=1.6,
              label="SGD, its defaults")  # fmt: skip
    axes.plot(STRIP, 1.0, color=OURS, marker="*", markersize=13, linestyle="none", label="giftrl, nothing set")
    axes.set(xscale="log", yscale="log", xlim=(STRIP / 2.5, 1.5 * RATES[-1]), ylim=(0.75, 4.5 * CEILING))
    axes.set_xticks([STRIP, 1e-3, 1e-2, 1e-1, 1e0, 1e1], ["no fixed\nrate", "0.001", "0.01", "0.1", "1", "10"])
    axes.set_yticks([1, 2, 4, 8], ["1x", "2x", "4x", "8x"])
    axes.minorticks_off()
    axes.set(xlabel="learning rate", ylabel="loss, times giftrl's")
    axes.set_title(found.data.name, fontsize=10)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="upper center")
    return figure


def describe(found: Comparison) -> str:
    """The picture in words, for those who cannot see it."""
    swept = ", ".join(f"{loss / found.ours:.2g} at {rate:g}" for rate, loss in zip(RATES, found.swept, strict=True))
    default = f"{found.default / found.ours:.2g} by default"
    return f"Loss of SGD on {found.data.name}, times that of giftrl, by learning rate: {swept}; {default}."
