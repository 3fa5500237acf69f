"""Links of the pages: what is outside ``docs`` becomes a page of the site, too.

Pages in ``docs`` are read in the repository and on the site. In the repository they link to sources and to files such
as ``SECURITY.md``. On the site, a Markdown file of the repository's root is the page ``project/NAME.md``, and any
other file is shown by a page ``source/PATH.md``.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(?=[)#])")
FENCED = re.compile(r"^( *)(```+|~~~+).*?^\1\2", re.M | re.S)


def page_of(path: str) -> str | None:
    """The page that shows a file of the repository, or None where there is none of that name.

    >>> page_of("docs/theory.md"), page_of("SECURITY.md"), page_of("src/giftrl/trace.py"), page_of("README.md")
    ('theory.md', 'project/security.md', 'source/src/giftrl/trace.py.md', 'index.md')
    """
    if not (ROOT / path).is_file():
        return None
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path == "README.md":
        return "index.md"
    if "/" not in path and path.endswith(".md"):
        return f"project/{path.lower()}"
    return f"source/{path}.md"


def _target(file: str, link: str) -> str:
    return os.path.normpath(PurePosixPath(file).parent / link)


def leaving(file: str, text: str) -> Iterator[str]:
    """The files of the repository that a Markdown file links to, as far as ``docs`` does not have them.

    >>> list(leaving("docs/a.md", "[b](b.md), [c](../LICENSE), [d](https://example.org)"))
    ['LICENSE']
    """
    for link in LINK.findall(FENCED.sub("", text)):
        target = _target(file, link)
        if not target.startswith("docs/") and page_of(target):
            yield target


def rewritten(file: str, text: str) -> str:
    """The text of a Markdown file with its links as they are between pages. Links that lead nowhere stay, and warn.

    >>> rewritten("docs/theory.md", "[b](service.md), [c](../LICENSE)")
    '[b](service.md), [c](source/LICENSE.md)'
    """
    here = PurePosixPath(page_of(file) or file).parent

    def changed(match: re.Match[str]) -> str:
        page = page_of(_target(file, match[1]))
        return match[1] if page is None else os.path.relpath(page, here)

    return LINK.sub(changed, text)
