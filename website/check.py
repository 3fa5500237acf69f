"""A walk over the built site: links and anchors lead somewhere, nothing is loaded from elsewhere, and the reference
lists the public names and no others.

``python -m website.check out/site`` prints what is wrong, and ends with an error if anything is.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from website.names import modules, names

#: Attributes that a browser follows by itself, by tag; an ``a`` waits for the reader.
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
HEADING = re.compile(r'<h2 id="(giftrl[\w.]*)" class="doc doc-heading">')


class Page(HTMLParser):
    """The anchors of a page, what it loads, and where it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each tag."""
        given = dict(attrs)
        self.anchors |= {each for each in (given.get("id"), given.get("name") if tag == "a" else None) if each}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        elif tag in LOADED and given.get(LOADED[tag]):
            self.loaded.append(given[LOADED[tag]] or "")


def problems(site: Path) -> list[str]:
    """What is wrong with links, anchors and what pages load, in words.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.html").write_text('<p id="x"><a href="#y">y</a><a href="b.html">b</a><img src="//c/d">')
    ...     problems(Path(folder))
    ['a.html loads //c/d from elsewhere', 'a.html: #y has no such anchor', 'a.html: b.html is not there']
    """
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for link in (*page.loaded, *page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    found.append(f"{name} loads {link} from elsewhere")
                continue
            # The page for addresses that are not there does not know how deep it is, and names everything from the top.
            start = site if parts.path.startswith("/") else path.parent
            target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{name}: {link} is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: {link} has no such anchor")
    return found


def unlisted(site: Path) -> list[str]:
    """The names that are public and not in the reference, and those that are in the reference and not public."""
    listed = [
        name
        for page in set(modules().values())
        for name in HEADING.findall((site / "reference" / page.replace(".md", ".html")).read_text("utf-8"))
    ]
    public = {each.described for each in names()}
    wrong = [f"{name} is public and not in the reference" for name in sorted(public - set(listed))]
    wrong += [f"{name} is in the reference and not public" for name in sorted(set(listed) - public)]
    return wrong + [f"{name} is in the reference more than once" for name in {n for n in listed if listed.count(n) > 1}]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    wrong = [*problems(folder), *unlisted(folder)]
    sys.exit("\n".join(wrong) if wrong else 0)
