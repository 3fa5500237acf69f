"""An HTML page in one file.

It has no scripts and loads nothing from elsewhere. It can be read on a phone and in print, on a light and on a dark
background.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from giftrl.files import write
from giftrl.reports.figure import inline

__all__ = ["Page", "definitions", "figure", "figures", "paragraph", "table"]

CSS = """
:root { color-scheme: light dark; --ink: #1b1f23; --paper: #ffffff; --soft: #57606a; --line: #d0d7de;
  --card: #f6f8fa; --good: #1a7f37; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #9aa4ae; --line: #30363d;
  --card: #161b22; --good: #4ac26b; --bad: #ff7b72; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; padding-top: .5rem; border-top: 1px solid var(--line); }
p, ul { max-width: 46rem; }
p.lead { font-size: 1.1rem; }
nav ul { padding: 0; list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
a { color: inherit; }
.figures { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); }
figure { margin: 0; padding: .5rem; background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  max-width: 36rem; }
figure svg { display: block; width: 100%; height: auto; color: var(--ink); }
figure [id$="-backdrop"] { display: none; }
figcaption { font-size: .9rem; color: var(--soft); padding: .25rem; }
.scroll { overflow-x: auto; margin: .75rem 0; }
.scroll:focus-visible { outline: 2px solid currentColor; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .25rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
td.text { min-width: 12rem; }
thead th { border-bottom-width: 2px; white-space: nowrap; }
td.good { color: var(--good); font-weight: 600; }
td.bad { color: var(--bad); font-weight: 600; }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .25rem 1rem; max-width: 60rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { overflow-wrap: anywhere; }
footer { margin-top: 2rem; color: var(--soft); font-size: .9rem; }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; } dt { margin-top: .4rem; } }
@media (max-width: 36rem) {
  .stacked thead { display: none; } .stacked table, .stacked caption, .stacked tbody, .stacked tr { display: block; }
  .stacked th, .stacked td, .stacked td.text { display: block; border: 0; padding: .1rem 0; text-align: left; }
  .stacked td::before { content: attr(data-label) ": "; color: var(--soft); font-weight: 400; }
  .stacked tr { border-bottom: 1px solid var(--line); padding: .5rem 0; } }
@media print { .figures { grid-template-columns: 1fr 1fr; } figure, table { break-inside: avoid; } }
"""


class Page:
    """A page: a title, an introduction, and sections that are added one by one.

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
        contents = "".join(f'<li><a href="#{_slug(h)}">{escape(h)}</a></li>' for h, _ in self._sections)
        sections = "\n".join(
            f'<section aria-labelledby="{_slug(h)}">\n<h2 id="{_slug(h)}">{escape(h)}</h2>\n{body}\n</section>'
            for h, body in self._sections
        )
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<link rel="icon" href="data:,">\n'
            f"<title>{escape(self.title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
            f'<header>\n<h1>{escape(self.title)}</h1>\n<p class="lead">{escape(self.introduction)}</p>\n'
            f'<nav aria-label="Contents"><ul>{contents}</ul></nav>\n</header>\n<main>\n{sections}\n</main>\n'
            f"<footer><p>{escape(self.footer)}</p></footer>\n</body>\n</html>\n"
        )

    def save(self, path: Path) -> None:
        """Write the page to a file, completely or not at all."""
        write(path, [self.html().encode()])


def paragraph(text: str) -> str:
    """A paragraph of plain text.

    >>> paragraph("a < b")
    '<p>a &lt; b</p>'
    """
    return f"<p>{escape(text)}</p>"


def figure(svg_text: str, name: str, description: str, caption: str) -> str:
    """A figure with a caption below it; for the first three arguments see :func:`giftrl.reports.figure.inline`."""
    drawn = inline(svg_text, name, description)
    return f"<figure>\n{drawn}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def figures(*parts: str) -> str:
    """Figures side by side where the window is wide enough, and one below the other on a phone."""
    return '<div class="figures">\n' + "\n".join(parts) + "\n</div>"


def table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, text: Sequence[int] = (), verdict: int = -1,
    stacked: bool = False,
) -> str:  # fmt: skip
    """A table. In a narrow window it scrolls sideways, or stacks its cells.

    Args:
        caption: what the table shows.
        head: the names of the columns.
        rows: the cells, as plain text; the first cell of a row names the row.
        text: the numbers of the columns that hold sentences, not numbers.
        verdict: the number of the column that is coloured: green for ``yes`` and ``holds``, red for ``no`` and
            ``fails``.
        stacked: stack the cells of a row in a narrow window, each with the name of its column; for sentences.
    """

    def cell(j: int, content: str) -> str:
        if j == 0:
            return f'<th scope="row">{escape(content)}</th>'
        classes = ["text"] if j in text else []
        if j == verdict:
            word = content.split()[0].rstrip(",:;.") if content else ""
            classes += ["good"] if word in ("yes", "holds") else ["bad"] if word in ("no", "fails") else []
        mark = f' class="{" ".join(classes)}"' if classes else ""
        mark += f' data-label="{escape(head[j], quote=True)}"' if stacked else ""
        return f"<td{mark}>{escape(content)}</td>"

    heads = "".join(f'<th scope="col"{" class=text" if j in text else ""}>{escape(h)}</th>' for j, h in enumerate(head))
    lines = "\n".join("<tr>" + "".join(cell(j, c) for j, c in enumerate(row)) + "</tr>" for row in rows)
    return (
        f'<div class="scroll{" stacked" if stacked else ""}" role="region" tabindex="0" '
        f'aria-label="{escape(caption, quote=True)}">\n<table>\n'
        f"<caption>{escape(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n"
        "</table>\n</div>"
    )


def definitions(pairs: Sequence[tuple[str, str]]) -> str:
    """A list of names and values, such as settings.

    >>> definitions([("seed", "0")])
    '<dl><dt>seed</dt><dd>0</dd></dl>'
    """
    return "<dl>" + "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in pairs) + "</dl>"


def _slug(heading: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in heading.lower()).strip("-")
