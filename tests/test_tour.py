"""``giftrl demo`` without a name: giftrl beside SGD, and what it says about it."""

import functools
import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.preprocessing import StandardScaler

from giftrl.errors import GiftrlError
from giftrl.paper.experiments import ReproductionPlan
from giftrl.tour import (
    SGD_RATES,
    TOUR_NAMES,
    Comparison,
    Task,
    average_loss,
    last_lines,
    losses,
    read,
    short_table,
    steps,
    table,
    tour,
)
from tests.commands import giftrl

pytestmark = pytest.mark.plain


@functools.cache
def few(name, rows=80):
    """The first rows of a data set."""
    data = read(name)
    return data._replace(x=data.x[:rows], y=data.y[:rows])


def twin(data, rate):
    """The same loss, row by row and with nothing but the public names of scikit-learn."""
    x, paid = StandardScaler().fit_transform(data.x), []
    options = {} if rate is None else {"learning_rate": "constant", "eta0": rate}
    kind = functools.partial(SGDClassifier, loss="log_loss") if data.classes else SGDRegressor
    model = kind(random_state=0, **options)
    for t, (row, y) in enumerate(zip(x, data.y, strict=True)):
        if data.classes:
            chances = model.predict_proba([row])[0] if t else np.full(data.classes, 1.0 / data.classes)
            paid.append(-np.log(max(chances[int(y)], 1e-6)))
            model.partial_fit([row], [y], classes=np.arange(data.classes))
        else:
            answer = model.predict([row])[0] if t else 0.0
            seen = data.y[:t]
            paid.append(0.5 * (y - (min(max(answer, seen.min()), seen.max()) if t else answer)) ** 2)
            model.partial_fit([row], [y])
    return np.mean(paid)


@pytest.mark.parametrize("rate", [None, 0.1])
@pytest.mark.parametrize("name", ["cancer", "iris", "diabetes"])
def test_the_loss_of_sgd_is_that_of_its_twin(name, rate):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert average_loss(few(name), rate) == pytest.approx(twin(few(name), rate), rel=1e-9)


@pytest.mark.parametrize("name", ["cancer", "iris", "diabetes"])
def test_a_rate_that_is_far_too_high_costs_but_does_not_end_the_run(name):
    wild = average_loss(few(name), 1e300)
    assert np.isfinite(wild) and wild > average_loss(few(name), 0.1)


def test_answers_that_are_not_numbers_count_as_knowing_nothing():
    labels = np.zeros(2)
    assert losses(4, np.full((2, 4), np.nan), labels, labels) == pytest.approx(np.log([4.0, 4.0]))
    assert losses(0, np.array([np.nan, 9.0]), np.ones(2), np.array([0.0, 3.0])).tolist() == [0.5, 2.0]


def found(name="cancer", bound=0.05):
    data = Task(name, "Which?", np.ones((569, 30)), np.zeros(569), 2)
    swept = tuple(0.1 * (1.0 + abs(k - 4)) for k in range(len(SGD_RATES)))
    return Comparison(data, 0.1, "", bound, 0.5, swept)


def test_a_table_fits_and_the_end_is_five_lines_with_the_page_last():
    every = [found(name) for name in TOUR_NAMES]
    lines = last_lines(every, Path("out/demo/index.html"))
    assert len(lines) == 5 and max(map(len, lines)) <= 80 and lines[-1] == "Open out/demo/index.html"
    assert "0.20 of SGD's by default, and 1.00 of SGD's at the best of 9 rates" in lines[1]
    assert "40 of 45 runs of SGD were over 10% worse" in lines[2]
    assert "no linear model of its size below 0.050" in lines[3]
    unproved = last_lines([found(bound=float("nan"))], Path("x"))
    assert len(unproved) == 5 and "nan" not in "".join(unproved)
    head, rows = short_table(every)
    widths = [max(len(line[j]) for line in [head, *rows]) for j in range(len(head))]
    assert sum(widths) + 2 * (len(widths) - 1) <= 80
    assert table(every)[1][0][:4] == ["cancer", "569", "30", "0.100"]


def test_without_matplotlib_the_extra_is_named_before_any_work(monkeypatch, tmp_path):
    missing = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "matplotlib" else missing(name, *more)
    )
    done = giftrl("demo", "--out", tmp_path / "out", check=False)
    assert done.returncode == 1 and b"pip install 'giftrl[experiments]'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(GiftrlError, match=r"pip install 'giftrl\[experiments\]'"):
        read("cancer")


@pytest.mark.verify
def test_the_whole_tour_keeps_its_promises(tmp_path):
    said, names = [], ("cancer", "diabetes")
    comparisons, page = tour(tmp_path, tell=said.append, names=names, plan=ReproductionPlan(1, False, 64))
    assert len(said) == steps(names)
    assert {path.name for path in tmp_path.iterdir()} >= {"index.html", "claims.html"}
    for each in comparisons:
        assert each.ours < 0.5 * each.default and each.ours < 1.06 * each.best[0]
        assert each.good <= 2 and not each.bound > each.ours
        assert each.proof in page.read_text().replace("&#x27;", "'")
