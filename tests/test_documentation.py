"""Documents and the package agree: public names, docstrings, the reference, the theory, the tables of the guide."""

import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
import types
import typing
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from river import linear_model

import giftrl
from giftrl import algorithms, domains, losses, mirror, regularizers, schedules, updates
from giftrl.adapters.river import FTRLClassifier as RiverClassifier
from giftrl.cli.commands import COMMANDS
from giftrl.linear import FTRLClassifier, FTRLRegressor
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.regularizers.contract import start
from giftrl.schedules.contract import known_ahead as lam_known_ahead
from giftrl.service.http import openapi
from tests import test_errata
from tests.test_estimators import interpreted
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
    bare = [each.name for each in parameters if each.annotation is each.empty]
    assert set(bare) <= {"self", "cls"}
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


# Names.

#: The members that users name otherwise than by the class in lower case with underscores.
SHORT_NAMES = {
    "AdaGrad": "adagrad", "AdaGradNorm": "adagrad_norm", "ImportanceAware": "iwa", "SquareRoot": "sqrt",
    "TemporalVariability": "temporal", "TwoStep": "twostep",
}  # fmt: skip


def test_names_that_users_write():
    assert set(losses.MULTICLASS) == {"softmax", "multiclass_hinge"}
    for kind in (losses, regularizers, updates, schedules, domains):
        for name, cls in kind.BY_NAME.items():
            assert name == SHORT_NAMES.get(cls.__name__, re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower())


def test_importing_does_not_import_what_is_slow():
    slow = ["numba", "sklearn", "matplotlib", "cvxpy", "pandas", "river"]
    code = f"import sys, giftrl, giftrl.kernels; print([name for name in {slow} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def imported(names, *command):
    """Which of these modules a command imports; its loops are plain Python, as a compiler imports what it needs."""
    code = (
        "import sys\nfrom giftrl.cli import main\ntry:\n    main()\nfinally:\n"
        f"    print([name for name in {names} if name in sys.modules])"
    )
    plain = os.environ | {"GIFTRL_PLAIN": "1"}
    return subprocess.check_output([sys.executable, "-c", code, *map(str, command)], text=True, env=plain).strip()


def test_commands_import_no_more_than_they_need(tmp_path):
    rows, converted, model = (tmp_path / name for name in ("two.svm", "two.arrow", "m.giftrl"))
    rows.write_text("1 1:1 3:2\n-1 2:1\n")
    never = ["llvmlite", "matplotlib", "numba", "orjson", "pandas", "rich", "scipy", "sklearn"]
    assert imported([*never, "pyarrow"], "train", rows, "--model", model, "--certificate-seconds", 5) == "[]"
    assert imported([*never, "pyarrow"], "predict", model, rows, "-o", tmp_path / "p") == "[]"
    (tmp_path / "two.csv").write_text("label,price,city\nyes,1.5,Rome\nno,,Oslo\n")
    assert imported(["matplotlib", "numba", "pandas", "rich", "sklearn"], "train", tmp_path / "two.csv") == "[]"
    assert imported(never, "convert", rows, converted) == "[]"
    assert imported([*never, "pyarrow.compute"], "train", converted) == "[]"


# docs/theory.md: every member is on the page, and the tables are right.

THEORY = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
CODE = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", THEORY))))  # the words in `code`

ON_THE_PAGE = sorted(
    {cls.__name__ for kind in (losses, regularizers, domains, updates, schedules) for cls in kind.BY_NAME.values()}
    | {
        name
        for module in (giftrl, losses, regularizers, domains, updates, schedules, algorithms)
        for name in module.__all__
        if inspect.isclass(getattr(module, name)) and not issubclass(getattr(module, name), Exception)
    }
    - {"Client"}  # which has docs/service.md
)


def table(first: str) -> list[list[str]]:
    """The rows of the table whose first column is called this, the header first."""
    [text] = re.findall(rf"^\| {re.escape(first)} \|.*?(?=^\s*$|\Z)", THEORY, re.M | re.S)
    header, _, *rows = (
        [cell.strip().strip("`") for cell in line.strip("| ").split(" |")] for line in text.splitlines()
    )
    assert all(len(row) == len(header) for row in rows)
    return [header, *rows]


@pytest.mark.parametrize("name", ON_THE_PAGE)
def test_every_public_name_is_on_the_page(name):
    assert name in CODE


@pytest.mark.parametrize(
    ("first", "kind"), [("loss", losses), ("update", updates), ("regularizer", regularizers), ("schedule", schedules)]
)
def test_every_member_has_its_row(first, kind):
    rows = [row[0] for row in table(first)[1:]]
    assert sorted(rows) == sorted(cls.__name__ for cls in kind.BY_NAME.values())


def test_table_of_pairs_is_what_the_mirror_solves():
    header, *rows = table("potential")
    assert sorted(header[1:]) == sorted(cls.__name__ for cls in domains.BY_NAME.values())
    on_the_page = {
        (row[0], domain) for row in rows for domain, how in zip(header[1:], row[1:], strict=True) if how != "-"
    }
    assert on_the_page == {(potential.__name__, domain.__name__) for potential, domain in mirror.SOLVERS}


def test_regularizers_table_names_their_potentials_and_what_is_known_ahead():
    for name, _, potential, known in table("regularizer")[1:]:
        regularizer = getattr(regularizers, name)()
        assert type(start(regularizer, 2, 1.0)).__name__ == potential
        if known == "as its base":
            for base in (regularizers.SquaredNorm(), regularizers.AdaGrad()):
                assert psi_known_ahead(regularizer._replace(base=base)) == psi_known_ahead(base)
        else:
            assert psi_known_ahead(regularizer) == {"yes": True, "no": False}[known]


def test_schedules_table_says_what_is_known_ahead():
    for name, _, known in table("schedule")[1:]:
        assert lam_known_ahead(getattr(schedules, name)()) == {"yes": True, "no": False}[known]


def test_table_1_names_its_algorithms():
    named = set(re.findall(r"algorithms\.(\w+)", " ".join(row[2] for row in table("row of Table 1"))))
    assert named == set(algorithms.__all__)


def test_errata_name_their_tests():
    rows = table("#")[1:]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    named = [(number, name) for number, *_, cell in rows for name in re.findall(r"test_\w+", cell)]
    assert {number for number, _ in named} == {row[0] for row in rows}
    assert all(name.startswith(f"test_erratum_{number}_") for number, name in named)
    assert sorted(name for _, name in named) == sorted(name for name in vars(test_errata) if name.startswith("test_"))


# The user guide; its examples run as doctests.

DOCS = ROOT / "docs"
GUIDE = (DOCS / "user-guide.md").read_text()
#: The pages for people who come from elsewhere, and the section of each that has the table of parameters.
FROM = {
    "how-to/from-sgd.md": "What replaces each parameter",
    "how-to/from-river.md": "What replaces each parameter",
    "from-vowpal-wabbit.md": "In the Python estimators",
}
MEMBERS = {**vars(regularizers), **vars(losses)}
VALUES = {*losses.EVERY, *updates.BY_NAME, *regularizers.BY_NAME, *schedules.BY_NAME, "unit", "auto"}
NESTED = re.compile(r"\([^()]*(\([^()]*(\([^()]*\))*[^()]*\))*[^()]*\)")


def rows(section, page=GUIDE):
    lines = page.split(f"## {section}")[1].split("\n## ")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]


@pytest.mark.parametrize(
    ("parameter", "known"),
    [
        ("loss", losses.EVERY), ("update", updates.BY_NAME), ("regularizer", regularizers.BY_NAME),
        ("schedule", schedules.BY_NAME),
    ],
)  # fmt: skip
def test_the_parts_are_all_there(parameter, known):
    [names] = [row[1] for row in rows("Choosing the parts") if row[0] == f"`{parameter}`"]
    found = set(re.findall(r"`(\w+)`", names))
    not_diagonal = {"entropy", "p_norm", "curvature_full"}
    assert found == set(known) - not_diagonal


@pytest.mark.parametrize("page", FROM)
def test_what_becomes_of_a_parameter_is_a_parameter(page):
    parameters = set(FTRLClassifier().get_params()) | set(FTRLRegressor().get_params())
    listed = rows(FROM[page], (DOCS / page).read_text())
    assert len(listed) > 4
    for row in listed:
        for code in re.findall(r"`([^`]+)`", row[1]):
            for name in re.findall(r"(?:^|, )(\w+)=", NESTED.sub("", code)):
                assert name in parameters, code
            for value in re.findall(r'"(\w+)"', code):
                assert value in VALUES
            for member in re.findall(r"\b([A-Z]\w+)\(", code):
                assert member in MEMBERS, code


def test_the_passive_aggressive_row_of_the_table():
    """PA-I is the proximal step on the hinge loss from the last point, with step length C: Crammer et al., 2006."""
    random = np.random.default_rng(0)
    matrix, labels = random.normal(size=(50, 4)), random.random(50) < 0.5
    river = linear_model.PAClassifier(C=0.3, mode=1, learn_intercept=False)
    ours = RiverClassifier(
        "hinge", regularizer="centred", schedule="constant", beta=0.3, fit_intercept=False, dtype="float64"
    )
    with interpreted():
        for row, label in zip(matrix, labels.tolist(), strict=True):
            x = dict(enumerate(row.tolist()))
            river.learn_one(x, label)
            ours.learn_one(x, label)
    assert_allclose([ours.weights[j] for j in range(4)], [river.weights[j] for j in range(4)], rtol=1e-9)
