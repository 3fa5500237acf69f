"""Every public name says what it is, with an example and with types; the reference lists exactly these names."""

import doctest
import importlib
import inspect
import re
import types
import typing
from pathlib import Path

import pytest

import giftrl
from giftrl.cli.commands import COMMANDS
from giftrl.service.http import openapi
from website import check, commands, http, links, names

ROOT = Path(__file__).parents[1]

#: The modules whose names are promised to users; others serve these.
PUBLIC = {
    "giftrl", "giftrl.adapters.river", "giftrl.algorithms", "giftrl.certificates", "giftrl.datasets",
    "giftrl.distributed", "giftrl.domains", "giftrl.errors", "giftrl.kernels", "giftrl.linear", "giftrl.losses",
    "giftrl.mixtures", "giftrl.models", "giftrl.ops", "giftrl.paper", "giftrl.regularizers", "giftrl.samples",
    "giftrl.schedules", "giftrl.streams", "giftrl.sweeps", "giftrl.training", "giftrl.updates",
}  # fmt: skip


def thing(name):
    return getattr(importlib.import_module(name.module), name.name)


#: What can be called; the docstring of a constant is the comment above it, which building the site demands.
CALLED = [each for each in names.names() if each.described == each.path and callable(thing(each))]
DESCRIBED = [each for each in CALLED if not inspect.ismethod(thing(each))]  # ``get`` is described with its table


def test_the_reference_has_every_public_module():
    assert set(names.modules()) == PUBLIC
    modules = {f"giftrl.{name}" for name in giftrl.__all__ if isinstance(getattr(giftrl, name), types.ModuleType)}
    assert modules <= PUBLIC
    listed = {each.name for each in names.names() if each.module == "giftrl"}
    assert listed | {name.removeprefix("giftrl.") for name in modules} == set(giftrl.__all__)


@pytest.mark.parametrize("name", DESCRIBED, ids=lambda name: name.path)
def test_a_public_name_has_a_docstring_with_an_example(name):
    text = inspect.getdoc(thing(name)) or ""
    before, example, _ = text.partition(">>> ")
    assert len(before.split()) >= 4 and example


def own_init(cls):
    """The constructor that a class of ours defines; that of an enumeration or a protocol is Python's."""
    return cls.__init__ if "__init__" in vars(cls) and not getattr(cls, "_is_protocol", False) else None


@pytest.mark.parametrize("name", CALLED, ids=lambda name: name.path)
def test_the_arguments_of_a_public_name_have_types(name):
    called = thing(name)
    if inspect.isclass(called):
        fields = getattr(called, "_fields", ())
        assert set(fields) <= set(typing.get_type_hints(called)) if fields else True
        called = own_init(called) if not fields else None
    if called is None:
        return
    parameters = inspect.signature(called).parameters.values()
    assert [
        each.name for each in parameters if each.annotation is each.empty and each.name not in ("self", "cls")
    ] == []
    assert "return" in called.__annotations__ or inspect.ismethod(called)


@pytest.mark.parametrize("module", [check, commands, http, links, names], ids=lambda module: module.__name__)
def test_the_tools_of_the_site_do_what_they_say(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.verify
def test_docstrings_become_markdown():
    pytest.importorskip("griffe", reason="needs what `make docs` installs")
    result = doctest.testmod(importlib.import_module("website.docstrings"))
    assert result.attempted > 0 and result.failed == 0


def test_every_command_and_every_request_is_listed():
    page = commands.commands()
    assert re.findall(r"^## giftrl (\w+)$", page, re.M) == list(COMMANDS)
    asked = re.findall(r"^## ([A-Z]+) (/\S*)$", http.requests(), re.M)
    assert {(method.lower(), path) for method, path in asked} == {
        (m, path) for path, each in openapi()["paths"].items() for m in each if m != "parameters"
    }


def test_links_between_the_files_of_the_repository_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    missing = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in links.LINK.findall(links.FENCED.sub("", page.read_text("utf-8")))
        if not (page.parent / link).exists()
    ]
    assert missing == []
