"""docs/theory.md against the package: every member is on the page, and what the tables claim is so."""

import inspect
import re
from pathlib import Path

import pytest

import giftrl
from giftrl import algorithms, domains, losses, mirror, regularizers, schedules, updates
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.regularizers.contract import start
from giftrl.schedules.contract import known_ahead as lam_known_ahead
from tests import test_errata

PAGE = (Path(__file__).parents[1] / "docs" / "theory.md").read_text(encoding="utf-8")
CODE = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", PAGE))))  # the words in `code`

PUBLIC = sorted(
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
    [text] = re.findall(rf"^\| {re.escape(first)} \|.*?(?=^\s*$|\Z)", PAGE, re.M | re.S)
    header, _, *rows = (
        [cell.strip().strip("`") for cell in line.strip("| ").split(" |")] for line in text.splitlines()
    )
    assert all(len(row) == len(header) for row in rows)
    return [header, *rows]


@pytest.mark.parametrize("name", PUBLIC)
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
    tests = {name for name in vars(test_errata) if name.startswith("test_")}
    named = []
    for number, *_, cell in rows:
        names = re.findall(r"test_\w+", cell)
        assert names
        assert all(name.startswith(f"test_erratum_{number}_") for name in names)
        named += names
    assert sorted(named) == sorted(tests)
