"""The benchmarks of several workers, on little data."""

import pytest

from benchmarks import scaling, workers
from benchmarks.quality import workers as quality

COST = scaling.Cost(1e-6, 0.01, 1000)


def test_threads_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    workers.main(["--rows", "20000", "--bytes", "0", "--repeats", "1"])
    printed = capsys.readouterr().out
    assert "Measured: rows in memory" in printed and "Measured: strong and weak scaling, W = 2" in printed
    assert "By a model, not measured: strong scaling" in printed
    assert "By a model, not measured: weak scaling" in printed


def test_more_workers_are_faster_by_the_model_if_rows_are_many() -> None:
    alone, four = (scaling.modelled(10**9, w, COST) for w in (1, 4))
    assert alone / 4 < four < alone
    assert scaling.modelled(20_000, 4, COST) > 20_000 * 1e-6


def test_the_table_of_losses_has_a_line_for_each_order() -> None:
    lines = {("a", order): [(1.0, 1.0), (1.02, 1.0)] for order in quality.ORDERS}
    page = quality.page(lines, [16], 3)
    assert "The largest of all on new rows: 1.000 with rows shuffled (a, W = 16), 1.000 with rows in order" in page
    assert page.count("| a |") == 2 and "Above 1.01 on new rows at W = 16: none" in page


def test_the_speed_of_a_worker_falls_with_their_number_and_rises_with_its_rows() -> None:
    rows = [[float(cell) for cell in line[1:]] for line in scaling.weak_table(COST).rows]
    assert all(line == sorted(line, reverse=True) and max(line) <= 1.0 for line in rows)
    assert [line[-1] for line in rows] == sorted(line[-1] for line in rows)
