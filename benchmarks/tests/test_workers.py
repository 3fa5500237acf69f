"""The benchmarks of several workers, on little data."""

import pytest

from benchmarks import workers
from benchmarks.quality import workers as quality


def test_threads_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    workers.main(["--rows", "20000", "--bytes", "0", "--repeats", "1"])
    printed = capsys.readouterr().out
    assert "Measured: rows in memory" in printed


def test_the_table_of_losses_has_a_line_for_each_order() -> None:
    lines = {("a", order): [(1.0, 1.0), (1.02, 1.0)] for order in quality.ORDERS}
    page = quality.page(lines, [16], 3)
    assert "The largest of all on new rows: 1.000 with rows shuffled (a, W = 16), 1.000 with rows in order" in page
    assert page.count("| a |") == 2
