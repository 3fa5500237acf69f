"""Sweeps: one pass equals many, what is kept is not run again, and the numbers on the page are those of the runs."""

import csv
import math

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import csr_array

from giftrl import regularizers, schedules, updates
from giftrl.cli.commands import command_of
from giftrl.errors import InvalidInput
from giftrl.kernels import LinearLearner
from giftrl.reports import Panel, inline, style, svg
from giftrl.sweeps import (
    Curve,
    Data,
    Grid,
    Summary,
    cores,
    fingerprint,
    key,
    load,
    parse_betas,
    parse_updates,
    prepare,
    read_all,
    repeat,
)
from giftrl.sweeps import grid as grid_module
from giftrl.sweeps.sweep_page import write_sweep
from tests.sweep_rows import examples

pytestmark = pytest.mark.plain

command = command_of("sweep")


def small(rows=40, **more):
    x, y = examples(rows, **more)
    return Data("small", *prepare(x, "standard")[:1], y, fingerprint(x, y), "standard")


CURVES = (
    Curve("linear", updates.Linear(False)),
    Curve("twostep", updates.TwoStep(True), schedules.TemporalVariability(1.0, 1.0, 1.0), scale=10.0),
    Curve("proximal", updates.Proximal(True)),
    Curve("norm", updates.Proximal(), schedules.AdaGradNorm()),
    Curve("adagrad", updates.Proximal(), schedules.Constant(), regularizers.AdaGrad()),
)
GRID = Grid("hinge", CURVES, (0.1, 1.0, 30.0))


@pytest.mark.parametrize("loss", ["hinge", "logistic", "absolute"])
@pytest.mark.parametrize("sparse", [False, True])
def test_one_pass_over_many_models_is_each_model_by_itself(loss, sparse):
    x, y = examples()
    rows = csr_array(x) if sparse else x
    order = np.random.default_rng(1).permutation(len(y))
    found = Grid(loss, CURVES, GRID.betas).losses(rows, y, order, compiled=False)
    for k, curve in enumerate(CURVES):
        for j, beta in enumerate(GRID.betas):
            update, schedule = curve.model(beta)
            assert schedule.beta == beta * curve.scale
            alone = LinearLearner(5, loss, curve.regularizer, update, schedule, dtype="float64", compiled=False)
            alone.learn(x[order], y[order])
            assert found[k, j] == pytest.approx(alone.certificate.loss_sum / len(y), rel=1e-12)


def test_curves_share_a_pass_only_if_their_regularizers_are_the_same():
    x, y = examples()
    # As tuples these are equal: neither base has a parameter.
    wrapped = [regularizers.Centred(base) for base in (regularizers.SquaredNorm(), regularizers.Curvature())]
    curves = [Curve(repr(one), updates.Proximal(), schedules.Constant(), one) for one in wrapped]
    together = Grid("logistic", tuple(curves), GRID.betas).losses(x, y, compiled=False)
    alone = [Grid("logistic", (curve,), GRID.betas).losses(x, y, compiled=False)[0] for curve in curves]
    assert together.tolist() == np.array(alone).tolist()


def test_batches_do_not_change_the_losses(monkeypatch):
    x, y = examples()
    whole = GRID.losses(x, y, compiled=False)
    monkeypatch.setattr(grid_module, "MAX_PREDICTIONS", 7 * 12)
    assert np.array_equal(GRID.losses(x, y, compiled=False), whole)


def test_a_model_that_overflows_has_an_infinite_loss_and_harms_no_other():
    x, y = examples()
    curves = [
        Curve(name, update, schedules.Constant())
        for name, update in (("a", updates.Linear()), ("b", updates.Proximal()))
    ]
    found = Grid("squared", tuple(curves), (1e60,)).losses(1e3 * x, y, compiled=False)
    assert math.isinf(found[0, 0]) and math.isfinite(found[1, 0])


@given(st.floats(-6, 0), st.floats(0.1, 9), st.integers(2, 40))
def test_betas_are_evenly_spaced_on_a_logarithmic_axis(first, width, count):
    betas = parse_betas(f"{10.0**first!r}:{10.0 ** (first + width)!r}:{count}")
    assert np.diff(np.log10(betas)) == pytest.approx(np.full(count - 1, width / (count - 1)), abs=1e-8)


@pytest.mark.parametrize("text", ["", "1:2", "a", "1:10:1", "0:1:3", "-1,1", "3,1", "1,1", "inf", "nan", "1e-3:1e3:x"])
def test_bad_betas_name_the_remedy(text):
    with pytest.raises(InvalidInput, match=r"betas=.*try 1e-3:1e3:13"):
        parse_betas(text)


@pytest.mark.parametrize("text", ["proximal:soon", "linear:safe"])
def test_bad_endings_of_updates_are_refused(text):
    with pytest.raises(InvalidInput, match="unknown ending"):
        parse_updates(text, schedules.TemporalVariability(), regularizers.SquaredNorm())


def test_updates_must_differ():
    parts = schedules.TemporalVariability(), regularizers.SquaredNorm()
    with pytest.raises(InvalidInput, match="must differ in name"):
        Grid("hinge", parse_updates("linear,linear", *parts), (1.0,))


def test_means_and_intervals_are_those_of_scipy():
    runs = np.random.default_rng(0).normal(size=(7, 2, 3))
    summary = Summary(("a", "b"), (0.1, 1.0, 10.0), runs)
    low, high = stats.t.interval(0.95, 6, loc=runs.mean(axis=0), scale=stats.sem(runs, axis=0))
    assert summary.mean - summary.half_width == pytest.approx(low)
    assert summary.mean + summary.half_width == pytest.approx(high)
    assert np.isnan(Summary(("a", "b"), (0.1, 1.0, 10.0), runs[:1]).half_width).all()


@given(st.lists(st.floats(0.1, 10.0), min_size=2, max_size=12))
def test_the_range_of_good_betas_ends_where_the_loss_is_five_percent_up(mean):
    betas = tuple(10.0**k for k in range(len(mean)))
    summary = Summary(("a",), betas, np.array([[mean]]))
    found, limit = summary.good_range(0), 1.05 * min(mean)
    assert found.low <= summary.best_beta(0) <= found.high
    for end, is_open, edge in ((found.low, found.open_low, betas[0]), (found.high, found.open_high, betas[-1])):
        if is_open:
            assert end == edge
        else:
            assert summary.at(0, end) == pytest.approx(limit, rel=1e-6)
    for beta in np.geomspace(found.low, found.high, 50)[1:-1]:
        assert summary.at(0, float(beta)) <= limit * (1.0 + 1e-9)


def test_threads_and_order_of_work_do_not_change_the_runs():
    data = small()
    alone, both = repeat(data, GRID, 4, workers=1), repeat(data, GRID, 4, workers=3)
    assert np.array_equal(alone.runs, both.runs) and cores() >= 1
    assert not np.array_equal(alone.runs[0], alone.runs[1])
    orders = [np.random.default_rng(2 + r).permutation(data.rows) for r in range(2)]
    again = repeat(data, GRID, 2, seed=2, workers=1)
    for run, order in zip(again.runs, orders, strict=True):
        assert run == pytest.approx(GRID.losses(data.x, data.y, order, compiled=False), rel=1e-9)


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path):
    data, seen = small(), []

    def stop(known):
        seen.append(known)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repeat(data, GRID, 5, workers=1, folder=tmp_path, done=stop)
    kept = len(list((tmp_path / "repetitions").glob("*.csv")))
    assert 2 <= kept < 5
    seen.clear()
    found = repeat(data, GRID, 5, folder=tmp_path, done=seen.append)
    assert sum(seen) == kept and len(seen) == 5
    assert np.array_equal(found.runs, repeat(data, GRID, 5).runs)


def test_what_is_kept_serves_the_same_data_and_settings_only(tmp_path):
    data = small()
    repeat(data, GRID, 1, folder=tmp_path)
    others = [
        (small(seed=5), GRID),
        (data, Grid("logistic", CURVES, GRID.betas)),
        (data, Grid("hinge", CURVES, (0.1, 1.0, 31.0))),
        (data, Grid("hinge", (CURVES[0], *CURVES[2:]), GRID.betas)),
        (Data("small", data.x, -data.y, data.fingerprint, data.preparation), GRID),
    ]
    assert len({key(data, GRID), *(key(d, g) for d, g in others)}) == 6
    for other, grid in others[2:]:
        seen = []
        repeat(other, grid, 1, folder=tmp_path, done=seen.append)
        assert seen == [False]


@pytest.mark.parametrize("damage", [b"", b"curve,1\n", b"\xff\xfe", None, b"nan"])
def test_a_damaged_repetition_is_run_again(tmp_path, damage):
    data = small()
    first = repeat(data, GRID, 1, folder=tmp_path)
    (file,) = (tmp_path / "repetitions").iterdir()
    text = file.read_bytes()
    if damage is None:
        damage = text[: len(text) // 2]
    elif damage == b"nan":
        damage = text.replace(repr(float(first.runs[0, 0, 0])).encode(), b"nan")
    file.write_bytes(damage)
    seen = []
    assert np.array_equal(repeat(data, GRID, 1, folder=tmp_path, done=seen.append).runs, first.runs)
    assert seen == [False] and file.read_bytes() == text


def libsvm(path, rows=60, labels=(0, 1)):
    x, y = examples(rows)
    lines = (
        f"{labels[int(sign > 0)]} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(row) if v)
        for row, sign in zip(x, y, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_command_leaves_numbers_figures_and_a_page(tmp_path):
    data, out = libsvm(tmp_path / "few"), tmp_path / "out"
    arguments = [str(data), "--loss", "hinge", "--betas", "0.1:10:3", "--repetitions", "2", "--out", str(out)]
    ran = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert ran.exit_code == 0 and "best beta" in ran.output and str(out / "sweep.html") in ran.output
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "sweep.svg").read_text().startswith("<?xml")
    with (out / "sweep.csv").open() as file:
        table = list(csv.DictReader(file))
    expected = repeat(load(data, "hinge"), Grid("hinge", parse_updates(
        "linear,truncated,twostep,proximal", schedules.TemporalVariability(), regularizers.SquaredNorm()
    ), (0.1, 1.0, 10.0)), 2)  # fmt: skip
    assert [float(line["mean"]) for line in table] == expected.mean.ravel().tolist()
    page = (out / "sweep.html").read_text()
    assert f"sha256 {fingerprint(*read_all(data))}" in page and "<script" not in page
    again = CliRunner().invoke(command, [*arguments, "--repetitions", "3", "--axis", "log"], catch_exceptions=False)
    assert "2 of 3 repetitions were read from an earlier run" in again.output


def test_the_command_reads_tables_and_believes_the_format_that_it_is_told(tmp_path):
    data = tmp_path / "few"
    data.write_text("label,a,b\n1,2,3\n-1,0,5\n")
    arguments = [str(data), "--loss", "hinge", "--betas", "1", "--repetitions", "1", "--out", str(tmp_path / "out")]
    for more in ([], ["--format", "csv"]):
        ran = CliRunner().invoke(command, [*arguments, *more], catch_exceptions=False)
        assert ran.exit_code == 0 and "few: 2 rows, 3 features" in ran.output
    ran = CliRunner().invoke(command, [*arguments, "--format", "libsvm"])
    assert isinstance(ran.exception, InvalidInput) and "label,a,b" in str(ran.exception)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--loss", "hing"], "did you mean 'hinge'"),
        (["--updates", "twosteps"], "did you mean 'twostep'"),
        (["--betas", "0:1:2"], "betas='0:1:2'"),
        (["--schedule", "constant", "--floor", "1"], "belongs to the temporal schedule"),
        (["--positive", "9"], "must be a label of the data"),
    ],
)
def test_mistakes_on_the_command_line_are_explained(tmp_path, more, message):
    ran = CliRunner().invoke(command, [str(libsvm(tmp_path / "few")), "--out", str(tmp_path / "out"), *more])
    assert isinstance(ran.exception, InvalidInput) and message in str(ran.exception)
    assert not (tmp_path / "out" / "sweep.csv").exists()


def test_a_figure_is_the_same_every_time_and_shows_every_curve():
    summary = Summary(("linear", "proximal"), (0.1, 1.0, 10.0), np.array([[[1.0, 0.5, 90.0], [1.0, 0.5, 0.6]]]))
    panel = Panel(summary, "Title", "hinge", published={"linear": [(1.0, 0.5)]})
    text = svg(panel.draw())
    assert text == svg(panel.draw())
    assert all(word in text for word in ("Title", "linear", "proximal", "published", "average hinge loss"))
    low, high = panel.draw().axes[0].get_ylim()
    assert low < 0.5 and 1.0 < high < 2.0
    assert Panel(summary, "Title", "hinge", "log").draw().axes[0].get_ylim()[1] > 90.0
    part = inline(text, "one", 'a "b"')
    assert 'id="figure_1"' not in part and 'aria-label="a &quot;b&quot;"' in part and "#1b1f23" not in part


@given(st.lists(st.sampled_from(["linear", "proximal", "a", "b", "c", "d"]), unique=True, min_size=1))
def test_curves_look_different_and_the_papers_rules_the_same(names):
    looks = style(names)
    assert len({look["color"] for look in looks.values()}) == len(names)
    if "linear" in names:
        assert looks["linear"] == style(["linear"])["linear"]


@settings(max_examples=max(5, settings.default.max_examples // 20))
@given(st.lists(st.sampled_from([0.5, 1.0, math.inf]), min_size=3, max_size=3))
def test_infinite_losses_are_drawn_and_reported(values):
    import tempfile
    from pathlib import Path

    summary = Summary(("linear", "proximal"), (0.1, 1.0, 10.0), np.array([[values, [1.0, 0.5, 0.6]]] * 2))
    grid = Grid("hinge", (Curve("linear", updates.Linear()), Curve("proximal", updates.Proximal())), summary.betas)
    with tempfile.TemporaryDirectory() as folder:
        page = write_sweep(small(), grid, summary, Path(folder), "clip", 0, 1.0)
        assert "0.5000" in page.read_text()
