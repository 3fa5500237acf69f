"""An HTML page in one file, without scripts, for phones and print, on a light and on a dark background."""

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from giftrl.files import write

#: The colour of text and axes in figures; :func:`inline` replaces it by the text colour of the page.
INK = "#1b1f23"


class Cell(NamedTuple):
    """A cell of a table with a background."""

    text: str
    shade: float = 0.0  # the darkness of the background, from 0 to 1
    bar: float = 0.0  # the length of a bar before the text, from -1 to 1; negative ones have another colour


class Page:
    """A title, an introduction, and sections that are added one by one.

    >>> page = Page("Title & more", "What was measured.")
    >>> page.section("First", paragraph("Text."))
    >>> "<h2 id=\\"first\\">First</h2>" in page.html(), "Title &amp; more</title>" in page.html()
    (True, True)
    """

    def __init__(self, title: str, introduction: str, footer: str = "") -> None:
        self.title = title
        self.introduction = introduction
        self.footer = footer
        self._sections: list[tuple[str, str]] = []

    def section(self, heading: str, *parts: str) -> None:
        """Add a section. Its parts are HTML that the functions of this module return."""
        self._sections.append((heading, "\n".join(parts)))

    def html(self) -> str:
        """The page as HTML."""
        css = files("giftrl.reports").joinpath("page.css").read_text(encoding="utf-8")
        contents = "".join(f'<li><a href="#{_slug(h)}">{escape(h)}</a></li>' for h, _ in self._sections)
        sections = "\n".join(
            f'<section aria-labelledby="{_slug(h)}">\n<h2 id="{_slug(h)}">{escape(h)}</h2>\n{body}\n</section>'
            for h, body in self._sections
        )
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<link rel="icon" href="data:,">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n"
            f'<header>\n<h1>{escape(self.title)}</h1>\n<p class="lead">{escape(self.introduction)}</p>\n'
            f'<nav aria-label="Contents"><ul>{contents}</ul></nav>\n</header>\n<main>\n{sections}\n</main>\n'
            f"<footer><p>{escape(self.footer)}</p></footer>\n</body>\n</html>\n"
        )

    def save(self, path: Path) -> None:
        """Write the page to a file, completely or not at all."""
        write(path, [self.encoded()])

    def encoded(self) -> bytes:
        """The page in UTF-8, with "?" for odd bytes in the names of files."""
        return self.html().encode("utf-8", "replace")

    def _repr_html_(self) -> str:
        """The page inside a notebook."""
        frame = 'title="report" style="width: 100%; height: 45rem; border: 0"'
        return f'<iframe {frame} srcdoc="{escape(self.html(), quote=True)}"></iframe>'


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def inline(text: str, name: str, description: str) -> str:
    """An SVG element for an HTML page: it fills the width, takes the page's text colour, and has a description.

    ``name`` consists of letters, digits and hyphens; each figure of a page needs its own.

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


def figure(svg_text: str, description: str, name: str, caption: str) -> str:
    """A figure with a caption below it; for the first three arguments see :func:`inline`."""
    drawn = inline(svg_text, name, description)
    return f"<figure>\n{drawn}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def callout(text: str) -> str:
    """A paragraph that stands out."""
    return f'<p class="callout">{escape(text)}</p>'


def beside(left: str, *right: str) -> str:
    """One part to the left of others in a wide window, and above them on a phone."""
    return '<div class="beside">\n' + left + "\n<div>\n" + "\n".join(right) + "\n</div>\n</div>"


def figures(*parts: str, two: bool = False) -> str:
    """Figures side by side in a wide window, with ``two`` at most two; one below the other on a phone."""
    return f'<div class="figures{" two" if two else ""}">\n' + "\n".join(parts) + "\n</div>"


def table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str | Cell]], *, text: Sequence[int] = (),
    verdict: int = -1, stacked: bool = False,
) -> str:  # fmt: skip
    """A table. In a narrow window it scrolls sideways, or stacks its cells.

    Args:
        caption: the title of the table.
        head: the names of the columns.
        rows: the cells, as plain text or as :class:`Cell`; the first cell of a row names the row.
        text: the indices of the columns of sentences.
        verdict: the index of a coloured column: green for ``yes`` and ``holds``, red for ``no`` and ``fails``.
        stacked: stack the cells of a row in a narrow window, each with the name of its column.
    """

    def cell(j: int, given: str | Cell) -> str:
        content = given.text if isinstance(given, Cell) else given
        if j == 0:
            return f'<th scope="row">{escape(content)}</th>'
        classes = ["text"] if j in text else []
        if j == verdict:
            word = content.split()[0].rstrip(",:;.") if content else ""
            classes += ["good"] if word in ("yes", "holds") else ["bad"] if word in ("no", "fails") else []
        mark = f' class="{" ".join(classes)}"' if classes else ""
        mark += f' data-label="{escape(head[j], quote=True)}"' if stacked else ""
        if isinstance(given, Cell) and given.bar:
            side = "less" if given.bar < 0.0 else "more"
            bar = f'<span class="bar {side}" style="--bar: {abs(given.bar):.3f}"></span>'
            return f"<td{mark}>{bar}{escape(content)}</td>"
        if isinstance(given, Cell):
            mark += f' style="--shade: {100.0 * given.shade:.0f}%"'
        return f"<td{mark}>{escape(content)}</td>"

    heads = "".join(f'<th scope="col"{" class=text" if j in text else ""}>{escape(h)}</th>' for j, h in enumerate(head))
    lines = "\n".join("<tr>" + "".join(cell(j, c) for j, c in enumerate(row)) + "</tr>" for row in rows)
    return (
        f'<div class="scroll{" stacked" if stacked else ""}" role="region" tabindex="0" '
        f'aria-label="{escape(caption, quote=True)}">\n<table>\n'
        f"<caption>{escape(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n"
        "</table>\n</div>"
    )


def definitions(pairs: Sequence[tuple[str, str]], short: bool = False) -> str:
    """A list of names and values, such as settings; ``short`` names are beside the values on a phone too."""
    items = "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in pairs)
    return f"<dl{' class=short' if short else ''}>{items}</dl>"


def tiles(pairs: Sequence[tuple[str, str, str]]) -> str:
    """The most important numbers side by side, each with its name and a remark."""
    items = (
        f"<li><span>{escape(a)}</span> <strong>{escape(b)}</strong>{f' <small>{escape(c)}</small>' if c else ''}</li>"
        for a, b, c in pairs
    )
    return f'<ul class="tiles">{"".join(items)}</ul>'


def code(text: str) -> str:
    """Text to copy, such as commands; in a narrow window long lines break."""
    return f'<pre dir="ltr"><code>{escape(text)}</code></pre>'


def links(pairs: Sequence[tuple[str, str]]) -> str:
    """A list of links, each an address and its text."""
    items = "".join(f'<li><a href="{escape(where, quote=True)}">{escape(text)}</a></li>' for where, text in pairs)
    return f"<ul>{items}</ul>"


def _slug(heading: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in heading.lower()).strip("-")
