"""The page about a run: what its figures say against slow twins, and how it looks in a real browser."""

import csv
import html
import pickle
import re
import shlex

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, mean_absolute_error, r2_score, roc_auc_score

from giftrl import FTRLClassifier, FTRLRegressor
from giftrl.kernels import LinearLearner
from giftrl.reports.diagnostics import Residuals
from giftrl.reports.record import Record
from tests.commands import giftrl

pytestmark = pytest.mark.plain

ROWS = 260
HOSTILE = ["<script>alert(1)</script>", "a\"b'c&d", "שלום עולם", "x" * 300, "\u202eturned"]


def write_csv(path, heads, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(zip(*columns, strict=True))
    return path


def made(folder, name):
    """A CSV file, its options, and its columns."""
    rng = np.random.default_rng(7)
    age, price = rng.normal(0.4, 1.2, ROWS).round(2), np.exp(rng.normal(0.0, 0.5, ROWS)).round(2)
    city = rng.choice(["Rome", "Oslo", "<b>"], ROWS)
    score = age - price + (city == "Rome") + 0.5 * rng.logistic(size=ROWS)
    label = {
        "two": np.where(score > 0.3, 1, 0),
        "numbers": (2.0 + 0.5 * score).round(3),
        "three": np.digitize(score, [-1.0, 0.7]) + 4,
    }[name]
    path = write_csv(folder / f"{name}.csv", ["age", "city", "price", "label"], [age, city, price, label])
    # A mixture takes plain Python long; that of the runs that go on has few rows.
    options = ["--beta", "3"] + {
        "two": ["--labels", "0,1"],
        "numbers": ["--loss", "squared"],
        "three": ["--loss", "softmax", "--labels", "4..6"],
    }[name]
    return path, options, {"age": age, "price": price, "label": label}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The page of each run as a file, its text, the predictions, the columns, and what was typed."""
    folder, known = tmp_path_factory.mktemp("runs"), {}

    def run(name):
        if name not in known:
            path, options, columns = made(folder, name)
            page, predictions = folder / f"{name}.html", folder / f"{name}.txt"
            typed = ["train", path, *options, "--report", page, "-p", predictions, "--certificate-seconds", 0.5]
            shown = giftrl(*typed).stderr.decode()
            assert f"report written to {page}" in shown
            known[name] = page, page.read_text(), np.loadtxt(predictions), columns, [*map(str, typed)]
        return known[name]

    return run


def tile(text, name):
    found = re.search(rf"<span>{re.escape(name)}</span> <strong>([^<]*)</strong>", text)[1].replace(",", "")
    return float(found.rstrip("%")) / (100.0 if found.endswith("%") else 1.0)


def figure(text, name):
    """The text of a figure, found by an id in it."""
    return next(each for each in re.findall("<figure>.*?</figure>", text, re.DOTALL) if f'id="{name}-inside"' in each)


def table(text, caption):
    """The cells of the table whose caption begins so."""
    body = re.search(rf"<caption>{re.escape(caption)}.*?<tbody>(.*?)</tbody>", text, re.DOTALL)[1]
    cells = [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", body)]
    return [[html.unescape(re.sub("<[^>]*>", "", cell)) for cell in row] for row in cells]


def readable(browser, page, width, dark=False):
    """A page that is whole, silent and no wider than the window."""
    browser.open(page, width, dark=dark)
    assert browser.complaints() == []
    assert [address.split(":")[0] for address in browser.requests()] == ["file"]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    outside = "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg') && "
    assert browser.evaluate(outside + f"e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML)") == []
    assert browser.evaluate("document.title") == browser.evaluate("document.querySelector('h1').textContent")
    assert browser.evaluate("document.querySelectorAll('script, img, link[href^=http]').length") == 0
    ids = browser.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    labels = browser.evaluate("[...document.querySelectorAll('figure svg')].map(f => f.getAttribute('aria-label'))")
    assert all(len(label) > 30 for label in labels)
    return labels


@pytest.mark.parametrize(("name", "figures"), [("two", 3), ("numbers", 3), ("three", 2)])
def test_pages_in_a_browser(runs, browser, name, figures):
    page = runs(name)[0]
    for width, dark in ((1200, False), (1200, True), (390, False), (390, True)):
        assert len(readable(browser, page, width, dark)) == figures
        light = browser.evaluate("getComputedStyle(document.querySelector('.chart .s1.line')).stroke")
        assert light == ("rgb(88, 166, 255)" if dark else "rgb(31, 111, 180)")
        sizes = "[...document.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect().height)"
        assert min(size for size in browser.evaluate(sizes) if size > 0) >= 8.0
        inside = "[...document.querySelectorAll('.chart > text')].every(t => { const b = t.getBBox(), v = t.ownerSVG"
        inside += "Element.viewBox.baseVal; return b.x >= 0 || t.getAttribute('transform') ? b.x + b.width <= v.width"
        assert browser.evaluate(inside + " : false; })")


def test_the_ranking_of_two_classes_is_that_of_scikit_learn(runs):
    _, text, scores, columns, _ = runs("two")
    y = columns["label"]
    assert tile(text, "area under ROC") == pytest.approx(roc_auc_score(y, scores), abs=1e-3)
    assert tile(text, "accuracy") == pytest.approx(((scores > 0) == y).mean(), abs=1e-4)
    assert f"{max(y.mean(), 1 - y.mean()):.2%} for the most frequent class" in text


def test_groups_of_calibration_are_consecutive_rows_by_probability(runs):
    _, text, scores, columns, _ = runs("two")
    groups = re.findall(r"<title>predicted ([\d.]+)%, observed ([\d.]+)% of (\d+)<", figure(text, "calibration"))
    sizes = [int(size) for _, _, size in groups]
    assert sum(sizes) == ROWS and len(sizes) == 12 and max(sizes) - min(sizes) < 8
    order = np.argsort(scores, kind="stable")
    for rows, (predicted, observed, _) in zip(np.split(order, np.cumsum(sizes)[:-1]), groups, strict=True):
        assert float(predicted) / 100 == pytest.approx((1 / (1 + np.exp(-scores[rows]))).mean(), abs=2e-4)
        assert float(observed) / 100 == pytest.approx(columns["label"][rows].mean(), abs=1e-4)


def test_the_curve_is_the_running_mean_of_the_loss(runs):
    _, text, scores, columns, _ = runs("two")
    average = np.cumsum(np.logaddexp(0, -np.where(columns["label"] == 1, 1, -1) * scores)) / np.arange(1, ROWS + 1)
    points = re.findall(r"<title>([\d,]+) examples: average ([\d.]+)<", figure(text, "curve"))
    assert [int(n) for n, _ in points][-2:] == [256, ROWS] and len(points) > 15
    assert [float(a) for _, a in points] == pytest.approx([average[int(n) - 1] for n, _ in points], abs=1e-4)
    assert tile(text, "average loss") == pytest.approx(average[-1], abs=1e-4)
    best = tile(text, "lower bound")
    assert 0.0 < best < average[-1] and "proved out of reach" in text
    assert "no linear model with a weight norm up to this one&#x27;s" in text


def test_residuals_are_those_of_the_predictions(runs):
    _, text, predictions, columns, _ = runs("numbers")
    y = columns["label"]
    assert tile(text, "R²") == pytest.approx(r2_score(y, predictions), abs=1e-4)
    assert tile(text, "mean absolute error") == pytest.approx(mean_absolute_error(y, predictions), rel=1e-3)
    assert tile(text, "root mean square") == pytest.approx(np.sqrt(np.mean((y - predictions) ** 2)), rel=1e-3)
    bars = re.findall(r"<title>(-?[\d.]+) to (-?[\d.]+): ([\d.]+)%<", figure(text, "residuals0"))
    low, high = float(bars[0][0]), float(bars[-1][1])
    central = np.mean((y - predictions > low) & (y - predictions < high))
    assert sum(float(share) for _, _, share in bars) / 100 == pytest.approx(central, abs=0.01) and central > 0.97


def test_the_confusion_of_three_classes_is_that_of_scikit_learn(runs):
    _, text, predicted, columns, _ = runs("three")
    pairs = confusion_matrix(columns["label"], predicted)
    rows = table(text, "All classes")
    assert [row[0] for row in rows] == ["4", "5", "6"]
    assert [[int(cell) for cell in row[3:]] for row in rows] == pairs.tolist()
    assert tile(text, "accuracy") == pytest.approx(np.trace(pairs) / ROWS, abs=1e-4)
    groups = re.findall(r"<title>predicted ([\d.]+)%, observed ([\d.]+)% of (\d+)<", figure(text, "calibration"))
    assert sum(float(seen) * int(size) for _, seen, size in groups) == pytest.approx(100 * np.trace(pairs), rel=1e-3)


def test_weights_are_ranked_in_the_units_of_their_features(runs):
    _, text, _, columns, _ = runs("two")
    rows = table(text, "The largest weights")
    assert {row[0] for row in rows} == {"age", "price", "city=Rome", "city=Oslo", "city=<b>"}
    effects = [abs(float(row[3])) for row in rows]
    assert effects == sorted(effects, reverse=True)
    for name, weight, deviation, effect in rows:
        if name in columns:
            assert float(deviation) == pytest.approx(columns[name].std(), rel=1e-3)
        assert float(weight) * float(deviation) == pytest.approx(float(effect), rel=0.02, abs=2e-4)


def test_the_page_says_what_was_read_and_how_to_repeat_it(runs):
    page, text, _, _, typed = runs("two")
    command = html.unescape(re.search("<pre[^>]*><code>(.*?)</code>", text, re.DOTALL)[1])
    assert shlex.split(command) == ["giftrl", *typed]
    facts = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    assert facts["format"] == "csv" and facts["examples learned"] == f"{ROWS}" and facts["rows rejected"] == "0"
    assert re.sub("[\u2068\u2069]", "", facts["columns of numbers (2)"]) == "age, price"
    assert facts["loss"] == "logistic" and facts["beta"] == "3.0" and "giftrl" in facts
    data = page.with_name("two.csv")
    before = data.read_bytes()
    done = giftrl("train", data, "--labels", "0,1", "--report", data, check=False)
    assert done.returncode == 1 and b"--report" in done.stderr and data.read_bytes() == before


def test_names_are_text_and_not_markup(tmp_path, browser):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, len(HOSTILE))).round(3)
    path = write_csv(tmp_path / "<img src=x onerror=alert(1)>.csv", [*HOSTILE, "label"], [*x.T, np.sign(x[:, 0])])
    page = tmp_path / "page.html"
    giftrl("train", path, "--beta", "1", "--report", page, "--quiet")
    assert "<script>alert" not in page.read_text() and "&lt;script&gt;alert" in page.read_text()
    model = FTRLClassifier(beta=1.0).fit(x, np.array(HOSTILE)[rng.integers(0, len(HOSTILE), 60)])
    model.report(tmp_path / "labels.html", seconds=0.0)
    for each in (page, tmp_path / "labels.html"):
        for width in (1200, 390):
            readable(browser, each, width)


@pytest.mark.parametrize("options", [[], ["--loss", "squared"]])
def test_a_run_that_goes_on_reports_all_of_its_rows(tmp_path, browser, options):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(45, 2)).round(3)
    rows = [f"{1 if a + b > 0 else -1} 1:{a} 2:{b}\n" for a, b in x]
    first, second = tmp_path / "a.svm", tmp_path / "b.svm"
    first.write_text("".join(rows[:25]))

    def run(page, *more, check=True):
        typed = [first, second, *options, "--bits", "4", "--model", f"{page}.giftrl", "--report", page, "--quiet"]
        return giftrl("train", *typed, "--checkpoint-every", "1", *more, check=check)

    second.write_text("1 1:x\n")
    assert run(tmp_path / "halves.html", check=False).returncode == 1
    assert not (tmp_path / "halves.html").exists()
    second.write_text("".join(rows[25:]))
    run(tmp_path / "halves.html", "--resume")
    run(tmp_path / "whole.html")
    halves, whole = ((tmp_path / f"{name}.html").read_text() for name in ("halves", "whole"))
    for name in ("curve", "shares", "pairs0" if options else "roc"):
        assert figure(halves, name) == figure(whole, name)
    assert "The model had learned" not in halves and len(table(halves, "The base learners")) >= 9
    readable(browser, tmp_path / "halves.html", 390)
    # A run that begins with a model has not seen the rows before.
    typed = [second, *options, "--from", tmp_path / "whole.html.giftrl", "--report", tmp_path / "more.html", "--quiet"]
    giftrl("train", *typed)
    assert (
        "The model had learned 45 examples before; the figures begin with example 46."
        in (tmp_path / "more.html").read_text()
    )


@pytest.mark.parametrize("loss", ["hinge", "logistic", "multiclass_hinge", "softmax"])
@pytest.mark.parametrize("classes", [2, 4])
def test_reports_of_classifiers(loss, classes):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 3))
    y = np.array(["a", "b", "c", "d"])[np.digitize(x[:, 0], [0.0] if classes == 2 else [-0.7, 0.0, 0.7])]
    model = FTRLClassifier(loss, beta=1.0).fit(x, y)
    text = model.report(seconds=0.1).html()
    assert tile(text, "average loss") == pytest.approx(model.average_loss_, abs=1e-4)
    assert ('id="calibration-inside"' in text) == (loss in ("logistic", "softmax"))
    assert ('id="roc-inside"' in text) == (classes == 2 and loss in ("hinge", "logistic"))
    assert pickle.loads(pickle.dumps(model)).report(seconds=0.0).html().count("<figure>") == text.count("<figure>")


def test_an_estimator_reports_predictions_made_before_each_label(tmp_path, browser):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 3))
    y = np.where(x @ [1.0, -1.0, 0.0] + rng.normal(size=300) > 0.0, 1, 0)
    model = FTRLClassifier(beta=1.0, shuffle=False)
    for part in np.array_split(np.arange(300), 7):
        model.partial_fit(x[part], y[part], classes=[0, 1])
    page = model.report(tmp_path / "page.html", seconds=0.1)
    text = (tmp_path / "page.html").read_text()
    assert page.html() == text and "srcdoc" in page._repr_html_()
    scores = LinearLearner(4, "logistic").learn(np.column_stack([x, np.ones(300)]), np.where(y == 1, 1.0, -1.0))
    assert tile(text, "area under ROC") == pytest.approx(roc_auc_score(y, scores), abs=1e-3)
    readable(browser, tmp_path / "page.html", 390)


def test_reports_of_several_targets_and_of_few_rows():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(50, 2))
    model = FTRLRegressor(beta=1.0).fit(x, np.column_stack([x @ [1.0, 2.0], np.ones(50)]))
    text = model.report(seconds=0.1).html()
    assert text.count("Certificate: ") == 2 and "all labels are the same" in text
    for rows in (1, 2, 3):
        FTRLRegressor("absolute", beta=1.0).fit(x[:rows], 1e300 * x[:rows, 0]).report(seconds=0.0).html()
    one = FTRLClassifier(beta=1.0).partial_fit(x[:3], [1, 1, 1], classes=[0, 1])
    assert "All examples have the same label" in one.report(seconds=0.0).html()


@settings(max_examples=25)
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=12), st.sampled_from([(), (2000,)]), st.integers(0, 11))
def test_a_record_does_not_depend_on_pieces_and_is_restored_from_its_state(sizes, shape, stop):
    whole, parts = Record(7), Record(7)
    scores = np.arange(sum(sizes), dtype=float).reshape(-1, *[1 for _ in shape]) * np.ones(shape)
    whole.add(scores, scores, None)
    for k, rows in enumerate(np.split(np.arange(len(scores)), np.cumsum(sizes)[:-1])):
        parts.add(scores[rows], scores[rows], np.ones(len(rows)))
        parts.note_shares(lambda: [("a", 0.5, 1.0)])
        if k == stop:
            copy = Record()
            copy.restore(parts.state(), 0)
            assert copy.shares == parts.shares
            parts = pickle.loads(pickle.dumps(copy))
            assert len(parts._arrays[0]) == parts.kept
    assert parts.kept == whole.kept and parts.rows == len(scores) == whole.rows
    for name in ("scores", "labels", "weights", "numbers", "standing_for"):
        assert np.array_equal(getattr(parts, name), getattr(whole, name))
    assert np.array_equal(whole.numbers - 7, whole.scores.reshape(whole.kept, -1)[:, 0])
    assert abs(whole.standing_for.sum() - len(scores)) < whole.step
    assert whole.standing_for.max() in (whole.step, whole.step / 2)


def test_a_sample_is_not_fooled_by_a_period_of_the_data():
    record = Record()
    labels = np.arange(2_000_000) % 2.0
    record.add(labels, labels, None)
    late = record.standing_for == 16.0
    assert record.kept < 400_000 and record.labels[late].mean() == pytest.approx(0.5, abs=0.01)


@given(st.lists(st.tuples(*[st.floats(allow_nan=False)] * 2, st.floats(1e-3, 1e3)), min_size=1, max_size=30))
def test_residuals_of_any_size_are_drawn(rows):
    predictions, labels, weights = np.array(rows).T
    residuals = Residuals(predictions, labels, weights)
    finite = residuals.mean_error, residuals.mean_absolute, residuals.root_mean_square
    assert np.isfinite(finite).all() and finite[1] <= finite[2] * (1.0 + 1e-9)
    for text, words in (residuals.draw_pairs(), residuals.draw_errors()):
        assert "nan" not in text and "nan" not in words
