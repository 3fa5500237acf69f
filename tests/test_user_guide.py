"""The user guide names what there is, and the tables of parameters do what they say. Its examples run as doctests."""

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from river import linear_model

from giftrl import losses, regularizers, schedules, updates
from giftrl.adapters.river import FTRLClassifier as RiverClassifier
from giftrl.linear import FTRLClassifier, FTRLRegressor
from tests.test_estimators import interpreted

DOCS = Path(__file__).parents[1] / "docs"
GUIDE = (DOCS / "user-guide.md").read_text()
#: The pages for people who come from elsewhere, and the section of each that has the table of parameters.
FROM = {
    "how-to/from-sgd.md": "What replaces each parameter",
    "how-to/from-river.md": "What replaces each parameter",
    "from-vowpal-wabbit.md": "In the Python estimators",
}
MEMBERS = {**vars(regularizers), **vars(losses)}


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
            for name in re.findall(
                r"(?:^|, )(\w+)=", re.sub(r"\([^()]*(\([^()]*(\([^()]*\))*[^()]*\))*[^()]*\)", "", code)
            ):
                assert name in parameters, code
            for value in re.findall(r'"(\w+)"', code):
                assert value in {
                    *losses.EVERY,
                    *updates.BY_NAME,
                    *regularizers.BY_NAME,
                    *schedules.BY_NAME,
                    "unit",
                    "auto",
                }
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
