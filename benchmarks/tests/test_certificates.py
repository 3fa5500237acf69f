"""The benchmarks of certificates: how close they come, and what they cost."""

import json

import pytest

from benchmarks import certificates as cost
from benchmarks.quality import certificates as table
from benchmarks.quality.data import DATASETS, Source
from benchmarks.tests.cases import tiny


@pytest.mark.parametrize(
    ("label_kind", "loss"), [("binary", "hinge"), ("regression", "absolute"), ("multiclass", "log")]
)
def test_a_line_brackets_the_optimum(label_kind, loss):
    case = tiny(label_kind)
    made = table.line(f"tiny {loss} raw", case, loss, time_limit=100.0, long=100.0)  # compiling takes seconds
    assert made.rows == made.kept == 300 and made.nonzeros == case.x.nnz + 300
    assert made.least <= made.wide <= made.best <= made.optimum and made.proved <= made.optimum < made.zero
    assert made.missing <= 1e-4 and made.optimum - made.proved <= 1e-4 * made.optimum


def test_rows_beyond_the_budget_lower_the_bound_and_not_the_optimum(monkeypatch):
    whole = table.line("tiny logistic raw", tiny("binary"), "logistic")
    monkeypatch.setattr(table, "DEFAULT_BUDGET", 500)
    part = table.line("tiny logistic raw", tiny("binary"), "logistic")
    assert part.kept < part.rows and part.best < whole.best
    assert part.optimum == pytest.approx(whole.optimum, rel=1e-5)


def test_the_command_writes_lines_and_a_page_and_reads_them_back(tmp_path, monkeypatch, capsys):
    from sklearn.datasets import dump_svmlight_file

    case = tiny("binary", rows=80)
    dump_svmlight_file(case.x, case.y, str(tmp_path / "covtype.txt"))
    monkeypatch.setitem(DATASETS, "covtype", Source("covtype", "covtype.txt", "binary"))
    monkeypatch.setenv("GIFTRL_DATA", str(tmp_path))
    monkeypatch.setattr("benchmarks.datasets.store", lambda: tmp_path)
    page, saved = tmp_path / "page.md", tmp_path / "lines.json"
    page.write_text("before\n<!-- certificates:begin --><!-- certificates:end -->\nafter\n")
    table.main(["--tasks", "covtype,a9a", "--losses", "logistic", "--json", str(saved), "--out", str(page)])
    tasks = [each["task"] for each in json.loads(saved.read_text())]
    kinds = ("raw, shuffled", "unit, shuffled", "raw, in time order")
    assert tasks == [f"covtype logistic {kind}" for kind in kinds]
    written = page.read_text()
    assert "before" in written and "after" in written and all(f"| {task} |" in written for task in tasks)
    assert "a9a skipped: there is no a9a.gz" in capsys.readouterr().out
    page.write_text("<!-- certificates:begin --><!-- certificates:end -->\n")
    table.main(["--lines", str(saved), "--out", str(page)])
    assert all(f"| {task} |" in page.read_text() for task in tasks)
    with pytest.raises(SystemExit, match="leaves no task"):
        table.main(["--tasks", "a9a"])


def test_costs_are_measured_and_written(tmp_path, monkeypatch):
    monkeypatch.delenv("GIFTRL_DATA", raising=False)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- certificates:begin --><!-- certificates:end -->\nafter\n")
    cost.main(["--quick", "--repetitions", "1", "--out", str(page)])
    written = page.read_text()
    assert written.count("| default |") == 2 and all(f"| {name} |" in written for name in cost.LEARNERS)
