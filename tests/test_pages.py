"""The pages in a real browser: whole, silent, self-contained, and readable on a phone."""

import functools

import numpy as np
import pytest

from giftrl import updates
from giftrl.paper import BUNDLED, PAPER, READINGS, rules, temporal
from giftrl.paper.claims import Verdict
from giftrl.paper.curves import BEYOND_PAPER
from giftrl.paper.experiments import Reproduction, ReproductionPlan
from giftrl.paper.pages import CLAIMS_FILE, write_report
from giftrl.reports import page as html
from giftrl.sweeps import Curve, Data, Grid, Summary
from giftrl.sweeps.sweep_page import write_sweep
from giftrl.tour import SGD_RATES, Comparison, Task, write_page

PHONE = 360


def made_up(curves, betas, repetitions=3):
    names = tuple(curve.name for curve in curves)
    log = np.log10(betas)
    mean = np.array([0.3 + 0.05 * k + 0.02 * (log - 1.0) ** 2 for k in range(len(names))])
    noise = 0.01 * np.random.default_rng(0).normal(size=(repetitions, *mean.shape))
    return Summary(names, betas, mean + noise)


def reproduction(panels):
    curves = {reading: functools.partial(rules, reading=reading) for reading in READINGS}
    curves |= {name: group for name, (group, _) in BEYOND_PAPER.items()}
    result = Reproduction(
        plan=ReproductionPlan(3, True, 64),
        data=dict.fromkeys(panels, (100, 5, "ab" * 32)),
        summaries={
            name: {panel: made_up(group(panel.loss), panel.betas) for panel in panels} for name, group in curves.items()
        },
        paths=temporal.run(64),
        seconds={"figures": 1.0},
        read=(0, 10),
    )
    result.verdicts["found"] += [Verdict("one", "holds", "so"), Verdict("other", "fails", "not so")]
    return result


def compared(name, classes):
    """A comparison that was never run."""
    data = Task(name, "Which?", np.ones((1200, 3)), np.zeros(1200), classes)
    swept = tuple(0.2 * (1.0 + np.log10(rate / 0.1) ** 2) for rate in SGD_RATES)
    return Comparison(data, 0.2, "No linear model is better, & none is worse.", 0.1, 9.0, swept)


def first_look():
    """A reproduction of one panel."""
    return reproduction(BUNDLED[:1])


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Each page and how many figures it has, drawn when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")
    grid = Grid("hinge", tuple(Curve(n, u()) for n, u in updates.BY_NAME.items()), (0.01, 0.1, 1.0, 10.0, 100.0))
    data = Data("<b>&odd", np.eye(2), np.array([1.0, -1.0]), "cd" * 32, "standard")

    @functools.cache
    def page(name):
        if name == "sweep":
            return write_sweep(data, grid, made_up(grid.curves, grid.betas), folder / name, "clip", 0, 1.0), 1
        if name == "paper":
            return write_report(reproduction(PAPER[0:8:3]), folder / name), 3 * 4 + 3
        if name in ("tour", "claims"):
            (folder / "tour").mkdir(exist_ok=True)
            path = write_page([compared("cancer", 2), compared("<b>", 0)], first_look(), folder / "tour")
            return (path, 2 + 1) if name == "tour" else (path.with_name(CLAIMS_FILE), 0)
        return write_report(reproduction(BUNDLED[:2]), folder / name, "log"), 2 * 4 + 3

    return page


#: The pages of the paper have many figures, and take long to draw.
each_page = pytest.mark.parametrize(
    "name",
    ["sweep", "tour", "claims", *(pytest.param(name, marks=pytest.mark.verify) for name in ("paper", "bundled"))],
)


@each_page
@pytest.mark.parametrize("width", [PHONE, 1200])
def test_figures_are_there_and_the_console_is_silent(browser, pages, name, width):
    path, figures = pages(name)
    browser.open(path, width)
    assert browser.complaints() == []
    assert [address.split(":")[0] for address in browser.requests()] == ["file"]
    sizes = browser.evaluate("[...document.querySelectorAll('figure svg')].map(f => f.getBoundingClientRect().width)")
    assert len(sizes) == figures and min(sizes, default=width) > 0.75 * min(width, 400)
    labels = browser.evaluate("[...document.querySelectorAll('figure svg')].map(f => f.getAttribute('aria-label'))")
    assert all(len(label) > 40 for label in labels)
    curves = browser.evaluate(
        "[...document.querySelectorAll('figure svg')].map(f => [...f.querySelectorAll('path')]"
        ".filter(p => p.getBBox().width > 50).length)"
    )
    assert min(curves, default=3) >= 3


@each_page
def test_the_page_is_readable_on_a_phone(browser, pages, name):
    browser.open(pages(name)[0], PHONE)
    assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE
    wide = "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg') && "
    assert browser.evaluate(wide + f"e.getBoundingClientRect().right > {PHONE} + 1).map(e => e.outerHTML)") == []
    smallest = (
        "Math.min(...[...document.querySelectorAll('p, td, th, dd, dt, figcaption, li, h1, h2')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert browser.evaluate(smallest) >= 14
    # Text in a figure shrinks with it: how tall it ends up is what counts.
    heights = "[...document.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect().height)"
    assert min((height for height in browser.evaluate(heights) if height > 0), default=6.0) >= 6.0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("tour", ("p", "figcaption", "td", "dt", "pre", "a")),
        ("claims", ("p", "td", "td.good", "td.bad", "dt", "a")),
        pytest.param("paper", ("p", "figcaption", "td", "dt"), marks=pytest.mark.verify),
    ],
)
def test_text_stands_out_in_light_and_dark(browser, pages, name, parts, dark):
    browser.open(pages(name)[0], 1200, dark=dark)

    def luminance(colour):
        channels = np.array([float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]) / 255.0
        linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    paper = luminance(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper < 0.1) == dark
    for what in parts:
        ink = luminance(browser.evaluate(f"getComputedStyle(document.querySelector('{what}')).color"))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, what
    if name == "claims":
        return  # no figures
    ink = luminance(browser.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill"))
    assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5


@each_page
def test_the_page_is_well_formed(browser, pages, name):
    browser.open(pages(name)[0])
    ids = browser.evaluate("[...document.querySelectorAll('body [id]:not(svg *)')].map(e => e.id)")
    assert len(ids) == len(set(ids)) > 0
    targets = browser.evaluate("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href').slice(1))")
    assert set(targets) <= set(ids)
    assert browser.evaluate("document.title").strip() == browser.evaluate("document.querySelector('h1').innerText")
    assert browser.evaluate("document.querySelectorAll('script').length") == 0
    # A figure refers to nothing outside itself.
    stray = (
        "[...document.querySelectorAll('figure svg')].flatMap(f => [...f.querySelectorAll('use, [clip-path]')]"
        ".map(e => (e.getAttribute('xlink:href') || e.getAttribute('clip-path')).replace(/^url\\(|\\)$/g, ''))"
        ".filter(h => !f.querySelector(CSS.escape ? '#' + CSS.escape(h.slice(1)) : h)))"
    )
    assert browser.evaluate(stray) == []


def test_names_from_data_are_text_and_not_markup(pages):
    text = pages("sweep")[0].read_text()
    assert "<b>&odd" not in text and "&lt;b&gt;&amp;odd" in text


def test_verdicts_are_explained_before_they_are_listed(pages):
    text = pages("claims")[0].read_text()
    table = text.index("<table>")
    for word in (*READINGS, "holds", "mostly", "partly", "fails"):
        assert text.index(f"<dt>{word}</dt>") < table
    first = pages("tour")[0].read_text()
    assert f'href="{CLAIMS_FILE}"' in first and "fails" not in first
    order = [first.index(f">{heading}</h2>") for heading in ("No learning rate", "The numbers", "Certificates")]
    assert order == sorted(order) and order[-1] < first.index("Figure 1: hinge loss")


def test_a_page_that_complains_is_noticed(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<!DOCTYPE html><title>x</title><script>console.error('oh'); undefined.x</script><img src='no.png'>")
    browser.open(bad)
    assert len(browser.complaints()) >= 3 and len(browser.requests()) >= 2


def test_cells_are_marked_by_their_verdict():
    text = html.table("c", ("a", "b"), [["x", "holds"], ["y", "fails, badly"], ["z", "partly"]], verdict=1)
    assert 'class="good">holds' in text and 'class="bad">fails, badly' in text and "<td>partly</td>" in text
