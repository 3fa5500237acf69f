"""The benchmark of quality: losses by their formulas, cases, the arithmetic of the table, the record."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from benchmarks.quality import passes, trends
from benchmarks.quality.__main__ import RIVALS, main, measure, our_losses, read_losses
from benchmarks.quality.contract import DEFAULT
from benchmarks.quality.data import DATASETS, LOSSES, SCALINGS, Source, Task, cases
from benchmarks.quality.figure import SHOWN, draw
from benchmarks.quality.loss import progressive_loss
from benchmarks.quality.record import PATH, Record, Run
from benchmarks.quality.table import (
    GROUPS,
    Reached,
    comparisons,
    geometric_mean,
    kind,
    lines,
    page,
    summary_grid,
    task_grid,
)
from benchmarks.tests.cases import TASKS, needs, tiny
from giftrl.errors import InvalidInput

A, B = Task("a9a", "hinge", "raw"), Task("abalone", "squared", "unit")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of data with two small sets in it, and no others."""
    from sklearn.datasets import dump_svmlight_file

    for name, label_kind in (("bodyfat", "regression"), ("segment", "multiclass")):
        case = tiny(label_kind, rows=60)
        dump_svmlight_file(case.x, case.y, str(tmp_path / f"{name}.txt"))
        monkeypatch.setitem(DATASETS, name, Source(name, f"{name}.txt", label_kind))
    monkeypatch.setenv("GIFTRL_DATA", str(tmp_path))
    monkeypatch.setattr("benchmarks.datasets.store", lambda: tmp_path)
    return tmp_path


# Losses.

NUMBERS = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf])


def slow_loss(predictions, y, loss):
    total, low, high = 0.0, -math.inf, math.inf
    for i, label in enumerate(y):
        p = predictions[i]
        if loss == "log":
            chance = p[int(label)] if all(math.isfinite(q) for q in p) else 1.0 / len(p)
            total -= math.log(min(max(chance, 1e-6), 1.0))
            continue
        p = p if math.isfinite(p) else 0.0
        if loss == "logistic":
            total += math.log1p(math.exp(-label * min(max(p, -50.0), 50.0)))
        elif loss == "hinge":
            total += max(0.0, 1.0 - label * min(max(p, -1.0), 1.0))
        else:
            r = min(max(p, low), high) - label
            total += r * r / 2.0 if loss == "squared" else abs(r)
            low, high = (min(low, label), max(high, label)) if i else (label, label)
    return total / len(y)


@given(data=st.data(), rows=st.integers(1, 12), loss=st.sampled_from(["logistic", "hinge", "squared", "absolute"]))
@settings(max_examples=150)
def test_losses_are_those_of_a_plain_loop(data, rows, loss):
    p = data.draw(arrays.arrays(float, rows, elements=NUMBERS))
    label = st.sampled_from([-1.0, 1.0]) if loss in LOSSES["binary"] else st.floats(-1e3, 1e3)
    y = data.draw(arrays.arrays(float, rows, elements=label))
    assert progressive_loss(p, y, loss) == pytest.approx(slow_loss(p, y, loss), rel=1e-12, abs=1e-15)


@given(data=st.data(), rows=st.integers(1, 8), classes=st.integers(2, 5))
@settings(max_examples=60)
def test_the_loss_of_probabilities_is_that_of_a_plain_loop(data, rows, classes):
    p = data.draw(arrays.arrays(float, (rows, classes), elements=st.floats(0.0, 1.0) | st.just(math.nan)))
    y = data.draw(arrays.arrays(float, rows, elements=st.integers(0, classes - 1).map(float)))
    assert progressive_loss(p, y, "log") == pytest.approx(slow_loss(p, y, "log"), rel=1e-12)


# Data.


def test_there_are_tasks_for_every_kind_and_data_set():
    assert len(TASKS) == len(set(TASKS)) == 108
    counts = {group: sum(kind(task) in kinds for task in TASKS) for group, kinds in GROUPS.items()}
    assert counts == {"all": 96, "classification": 56, "regression": 32, "multiclass": 8, "trends": 12}


def test_cases_are_the_rows_of_the_file_in_seeded_orders(folder):
    source = DATASETS["bodyfat"]
    x, y, _ = source.read()
    made = list(cases(source))
    assert [(case.scaling, case.order) for case in made] == [(s, o) for s in SCALINGS for o in "012"]
    for case in made:
        rows = np.random.default_rng(int(case.order)).permutation(60)
        wanted = x.toarray()[rows]
        if case.scaling == "unit":
            norms = np.linalg.norm(wanted, axis=1, keepdims=True)
            wanted = wanted / np.where(norms > 0.0, norms, 1.0)
        assert np.allclose(case.x.toarray(), wanted, rtol=1e-12) and np.array_equal(case.y, y[rows])
    stream = Source("bodyfat", "bodyfat.txt", "regression", sequential=True)
    (alone,) = cases(stream, ("raw",))
    assert alone.order == "own" and np.array_equal(alone.y, y)


# The record.


def test_the_record_keeps_what_was_written_and_survives_a_cut_line(tmp_path):
    path = tmp_path / "runs.csv"
    record = Record(path)
    record.begin({"vowpalwabbit": "9.11"})
    record.add(Run(A, "0", "vw", "-l 2"), 0.125)
    record.add(Run(B, "1", "vw", DEFAULT), 1.0 / 3.0)
    again = Record(path)
    assert again.versions == {"vowpalwabbit": "9.11"} and again.runs == record.runs
    assert again.runs[Run(B, "1", "vw", DEFAULT)] == pytest.approx(1.0 / 3.0, rel=1e-6)
    path.write_text(path.read_text() + "abalone squared,unit,2,vw,def")
    cut = Record(path)
    assert cut.runs == record.runs
    cut.add(Run(B, "2", "vw", DEFAULT), 2.0)
    assert Record(path).runs == {**record.runs, Run(B, "2", "vw", DEFAULT): 2.0}


def test_runs_of_two_versions_are_not_mixed(tmp_path):
    record = Record(tmp_path / "runs.csv")
    record.begin({"river": "0.1"})
    record.begin({"river": "0.1", "scikit-learn": "1.0"})
    assert Record(record.path).versions == {"river": "0.1", "scikit-learn": "1.0"}
    with pytest.raises(InvalidInput, match="was measured with river 0.1; use --rivals all"):
        record.begin({"river": "0.2"})


@needs["vw"]
def test_the_rivals_run_once_and_again_when_asked(folder):
    said = []
    record = Record(folder / "runs.csv")
    vw = RIVALS["vw"]
    measure(record, [DATASETS["bodyfat"]], [vw], said.append, seeds=2)
    assert len(record.runs) == 2 * 2 * 2 * 15 and len(said) == 4
    first = dict(record.runs)
    measure(Record(record.path), [DATASETS["bodyfat"]], [vw], said.append, seeds=2)
    assert len(said) == 4
    measure(record, [DATASETS["bodyfat"]], [vw], said.append, seeds=2, again=True)
    assert len(said) == 8 and Record(record.path).runs == first


def test_the_recorded_rivals_cover_every_task():
    record = Record(PATH)
    assert set(record.versions) == {rival.package for rival in RIVALS.values()}
    assert all(math.isfinite(loss) and loss > 0.0 for loss in record.runs.values())
    for task in TASKS:
        orders = DATASETS[task.dataset].orders()
        for rival in RIVALS.values():
            one_order = rival.key == "river" and task.dataset in ("covtype", "mnist")
            for setting in rival.settings(task.loss):
                for order in orders[:1] if one_order else orders:
                    assert Run(task, order, rival.key, setting) in record.runs
    known = {Run(t, o, r.key, s) for t in TASKS for o in DATASETS[t.dataset].orders() for r in RIVALS.values()
             for s in r.settings(t.loss)}  # fmt: skip
    assert set(record.runs) <= known


# The table.

RUNS = {
    Run(A, "0", "vw", DEFAULT): 4.0,
    Run(A, "1", "vw", DEFAULT): 4.0,
    Run(A, "0", "vw", "-l 2"): 1.0,
    Run(A, "1", "vw", "-l 2"): 3.0,
    Run(A, "0", "river", DEFAULT): 0.9,
    Run(A, "2", "river", DEFAULT): 0.1,  # an order that ours did not run
    Run(B, "0", "vw", DEFAULT): 1.0,
    Run(B, "0", "sklearn", DEFAULT): 8.0,
}
OURS = {A: {"0": 1.0, "1": 2.0}, B: {"0": 2.0}}


def test_lines_compare_means_over_the_orders_that_both_ran():
    first, second = lines(OURS, RUNS)
    assert (first.task, first.ours) == (A, 1.5)
    assert first.default("vw") == Reached("vw", DEFAULT, 4.0, 1.5)
    assert first.best("vw") == Reached("vw", "-l 2", 2.0, 1.5)
    assert first.default("river") == Reached("river", DEFAULT, 0.9, 1.0)
    assert first.best() == first.default("river") and first.default("sklearn") is None
    assert second.best() == Reached("vw", DEFAULT, 1.0, 2.0)


def test_means_and_worst_tasks_on_made_up_numbers():
    table = lines(OURS, RUNS)
    found = {(c.against, c.solver, c.group): c for c in comparisons(table, list(RIVALS))}
    vw = found["default", "vw", "all"]
    assert vw.mean == pytest.approx(math.sqrt(1.5 / 4.0 * 2.0)) and (vw.worst, vw.worst_task) == (2.0, B)
    assert vw.tasks == 2
    assert found["default", "sklearn", "all"].mean == 0.25  # 2 / 8 on the one task that it ran
    best = found["best", "all", "all"]
    assert best.mean == pytest.approx(math.sqrt(1.0 / 0.9 * 2.0))
    assert found["best", "all", "classification"].mean == pytest.approx(1.0 / 0.9)
    assert ("best", "vw", "multiclass") not in found


def test_the_settings_of_rivals():
    found = {key: (len(rival.settings("hinge")), rival.rate("default")) for key, rival in RIVALS.items()}
    assert found == {"vw": (15, 0.5), "sklearn": (8, None), "river": (1, 0.01)}
    assert (RIVALS["vw"].rate("-l 0.03"), RIVALS["vw"].rate("--coin")) == (0.03, None)
    assert RIVALS["sklearn"].rate("constant 0.1") == 0.1


def test_ratios_to_nothing():
    assert math.isnan(geometric_mean([])) and geometric_mean([0.0, 1.0]) == 0.0
    assert Reached("vw", DEFAULT, 0.0, 0.0).ratio == 1.0 and Reached("vw", DEFAULT, 0.0, 1.0).ratio == math.inf


def test_tables_have_a_cell_for_every_column():
    table, rivals = lines(OURS, RUNS), list(RIVALS.values())
    for grid in (task_grid(table, rivals), summary_grid(table, rivals)):
        assert {len(row) for row in grid.rows} == {len(grid.columns)}
    assert task_grid(table, rivals).rows[0][1:3] == ["4", "2 (-l 2)"]
    text = page(table, rivals, 2, "giftrl 0.1", ["nothing skipped"])
    assert "2 random orders" in text and "giftrl 0.1" in text


def test_the_figure_has_a_panel_for_each_task(tmp_path):
    ours = {task: {"0": 1.0} for task in SHOWN[:5]}
    runs = {Run(task, "0", "vw", s): 2.0 for task in SHOWN[:5] for s in RIVALS["vw"].settings(task.loss)}
    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name, lines(ours, runs), list(RIVALS.values()))
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert all(f"{task.dataset}, {task.loss}" in text for task in SHOWN[:5])
    assert f"{SHOWN[5].dataset}, {SHOWN[5].loss}" not in text
    with pytest.raises(InvalidInput, match="none of its tasks was run"):
        draw(tmp_path / "c.svg", lines(OURS, RUNS), list(RIVALS.values()))


# The command.


@needs["river"]
def test_the_command_runs_rivals_then_ours_and_writes_the_page(folder, capsys):
    record, out, kept = folder / "runs.csv", folder / "page.md", folder / "ours.json"
    common = ["--tasks", "bodyfat,segment", "--seeds", "1", "--record", str(record), "--solvers", "river"]
    main([*common, "--rivals", "missing"])
    assert len(Record(record).runs) == 2 * 2 + 2
    main([*common, "--out", str(out), "--json", str(kept)])
    text = out.read_text()
    assert text.startswith("<!-- quality:begin -->") and "one random order" in text
    assert "| bodyfat squared raw |" in text and "| segment log unit |" in text
    found = read_losses(kept)
    told = []
    sources = [DATASETS["bodyfat"], DATASETS["segment"]]
    again = our_losses(sources, ["squared", "absolute", "log"], SCALINGS, 1, lambda task, by_order: told.append(task))
    assert found == again and set(told) == set(found) and len(told) == 6
    capsys.readouterr()
    main([*common, "--ours", str(kept), "--losses", "log"])
    printed = capsys.readouterr().out
    assert "segment log raw" in printed and "bodyfat" not in printed


def test_bad_options_are_one_line(folder):
    for options, problem in (
        (["--tasks", "a9b"], "error: tasks='a9b'"),
        (["--seeds", "4"], "error: seeds=4: must be 1, 2 or 3"),
        (["--tasks", "bodyfat", "--losses", "log"], "error: tasks='bodyfat': leaves no task"),
        (["--tasks", "covtype"], "error: tasks='covtype': leaves no task"),
    ):
        with pytest.raises(SystemExit, match=problem):
            main(options)


# Passes and trends.


def test_the_table_of_passes_has_a_row_for_each_task_and_group(folder, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- passes:begin --><!-- passes:end -->")
    passes.main(["--tasks", "bodyfat", "--seeds", "1", "--out", str(page)])
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[1:3]] == ["| bodyfat squared", "| bodyfat absolute"]
    assert {len(row) for row in rows} == {6} and "geometric mean" in rows[3][0]
    assert all(0.0 < float(ratio) < 9.0 for row in rows[1:3] for ratio in row[2:5])


def test_trends_are_learnt_in_order(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- trends:begin --><!-- trends:end -->")
    trends.main(["--out", str(page)])
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| trend_")]
    assert len(rows) == len(trends.TRENDS) and all(float(row[1]) > 0.9 for row in rows)
