"""What mkdocs does besides rendering pages: links out of ``docs``, and references that are made from the package."""

import functools
import logging
import re
import sys
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[1]))

from website import names
from website.commands import commands
from website.docstrings import Docstrings
from website.http import requests
from website.links import ROOT, leaving, page_of, rewritten
from website.pictures import prepare

log = logging.getLogger("mkdocs.website")  # a warning of it fails a strict build

#: Files of the repository's root that are pages.
PROJECT = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
SOURCE = """---
search:
  exclude: true
hide: [navigation]
---

# {path}

~~~~~~{kind}
{text}
~~~~~~
"""


def on_pre_build(config: Any) -> None:
    """Tutorials begin in an empty folder."""
    prepare()


def on_env(env: Any, config: Any, files: Files) -> Any:
    """Leave out the script that the plugin for use without a server takes from another host: the theme has its own."""
    config.extra["polyfills"] = []
    return env


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of files outside ``docs``: those of the root, and every one that a page links to."""
    pages = {f"docs/{each.src_uri}": each.content_string for each in files.documentation_pages()}
    pages |= {path: (ROOT / path).read_text("utf-8") for path in PROJECT if (ROOT / path).is_file()}
    sources = {target for path, text in pages.items() for target in leaving(path, text)}
    for path in sorted(sources | set(pages)):
        page = page_of(path)
        if page is None or path.startswith("docs/") or page == "index.md":
            continue
        text = (ROOT / path).read_text("utf-8")
        kind = "python" if path.endswith(".py") else "text"
        content = rewritten(path, text) if path in pages else SOURCE.format(path=path, kind=kind, text=text)
        files.append(File.generated(config, page, content=content))
    return files


def _described(module: str) -> str:
    """The names of a module, for mkdocstrings; one that another page describes is a link."""
    parts = []
    for each in (name for name in names.names() if name.module == module):
        if each.described == each.path:
            parts.append(f"::: {each.path}")
            if not _documented(each.path):
                log.warning("%s has no docstring", each.path)
        else:
            parts.append(f"## {each.name}\n\nThe same as [`{each.described}`][{each.described}].")
    return "\n\n".join(parts)


@functools.cache
def _package() -> griffe.Object | griffe.Alias:
    return griffe.load("giftrl", search_paths=[ROOT / "src"], extensions=griffe.Extensions(Docstrings()))


def _documented(path: str) -> bool:
    return _package()[path.removeprefix("giftrl.")].docstring is not None


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Fill in what is made from the package, and let links out of ``docs`` end on the site."""
    if page.file.src_uri.startswith("reference/"):
        markdown = names.MARK.sub(lambda match: _described(match[1]), markdown)
        markdown = re.sub("^<!-- commands -->$", lambda _: commands(), markdown, flags=re.M)
        markdown = re.sub("^<!-- requests -->$", lambda _: requests(), markdown, flags=re.M)
    if page.file.generated_by is None:
        markdown = rewritten(f"docs/{page.file.src_uri}", markdown)
    return markdown
