"""How a figure looks: axes, colours that tell curves apart, and SVG text that a page can hold."""

import importlib.util
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from giftrl.errors import GiftrlError
from giftrl.files import write

#: The colour of text and axes; :func:`inline` replaces it by the text colour of the page.
INK = "#1b1f23"

#: Colours that differ in lightness as well as in hue, for grey prints and for colour-blind readers.
COLOURS = ("#d1495b", "#c98a00", "#7b52ab", "#1f6fb4", "#2a9d6f", "#8c564b", "#0aa2c0", "#6b7280", "#e377c2")
DASHES: tuple[Any, ...] = ("-", "-", "-", (0, (4, 2)), "-", (0, (1, 1.5)), (0, (6, 2, 1, 2)), "-", (0, (3, 1)))
MARKERS = ("s", "^", "D", "o", "v", "P", "X", "<", ">")

#: The place of each of the paper's rules in the lists above, so that a rule looks the same in every figure.
PLACES = {"linear": 0, "truncated": 1, "twostep": 2, "two-step": 2, "proximal": 3, "iwa": 4}


@dataclass(frozen=True)
class Look:
    """The colour, dashes and marker of one curve.

    >>> style(["proximal", "linear"])["linear"].marker
    's'
    """

    colour: str
    dashes: Any
    marker: str


def style(names: Sequence[str]) -> dict[str, Look]:
    """A look for each curve. Curves of one figure differ, and the paper's rules look the same in every figure."""
    places = {name: PLACES[name] for name in names if name in PLACES}
    free = [k for k in range(len(COLOURS)) if k not in places.values()] or list(range(len(COLOURS)))
    others = [name for name in names if name not in PLACES]
    places |= {name: free[i % len(free)] for i, name in enumerate(others)}
    return {name: Look(COLOURS[places[name]], DASHES[places[name]], MARKERS[places[name]]) for name in names}


def require_matplotlib() -> None:
    """Raise an error if figures cannot be drawn; called before the work whose results they show."""
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
        description: what the figure shows, for screen readers.

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
