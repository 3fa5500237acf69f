"""The public names of giftrl, as the reference lists them.

A page of ``docs/reference`` has a line ``<!-- names of giftrl.losses -->`` for each module that it describes. What a
module makes public is in its ``__all__``; a module that is a single file makes its classes public.
"""

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import NamedTuple

MARK = re.compile(r"^<!-- names of ([\w.]+) -->$", re.M)
REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


class Name(NamedTuple):
    """A public name: the module that has it, and the place where its object is described."""

    module: str
    name: str
    described: str

    @property
    def path(self) -> str:
        """Where it is imported from."""
        return f"{self.module}.{self.name}"


def _all(module: str) -> list[str]:
    here = importlib.import_module(module)
    if hasattr(here, "__all__"):
        return list(here.__all__)
    return [
        name
        for name, each in vars(here).items()
        if inspect.isclass(each) and each.__module__ == module and not name.startswith("_")
    ]


@functools.cache
def modules() -> dict[str, str]:
    """Every module of the reference, and the page that describes it; ``giftrl`` itself is the first."""
    found = {m: page.name for page in sorted(REFERENCE.glob("*.md")) for m in MARK.findall(page.read_text("utf-8"))}
    return {"giftrl": found.pop("giftrl")} | found


@functools.cache
def names() -> tuple[Name, ...]:
    """Every public name that is not a module. One that two modules have is described where it comes first.

    >>> [each.described for each in names() if each.path == "giftrl.certificates.Certificate"]
    ['giftrl.Certificate']
    """
    listed: list[Name] = []
    first: dict[int, str] = {}
    for module in modules():
        for name in _all(module):
            each = getattr(importlib.import_module(module), name)
            if not inspect.ismodule(each):
                path = f"{module}.{name}"
                alike = inspect.isclass(each) or inspect.isfunction(each)  # constants may be equal by chance
                listed.append(Name(module, name, first.setdefault(id(each), path) if alike else path))
    return tuple(listed)


@functools.cache
def anchors() -> dict[str, str]:
    """The anchor of every path that a docstring may name a public name by."""
    found = {}
    for each in names():
        found[each.path] = each.described
        thing = getattr(importlib.import_module(each.module), each.name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            found[f"{thing.__module__}.{thing.__qualname__}"] = each.described
    return found
