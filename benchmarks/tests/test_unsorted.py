"""The benchmark of unsorted rows."""

import pytest

from benchmarks.unsorted import COLUMNS, LEARNERS, main


def test_unsorted_rows_are_measured_and_written(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- unsorted:begin --><!-- unsorted:end -->\nafter\n")
    main(["--quick", "--out", str(page)])
    assert all(name in page.read_text() for name in (*COLUMNS, *LEARNERS, "before", "after"))
    page.write_text("no region")
    with pytest.raises(SystemExit, match="unsorted:begin"):
        main(["--quick", "--out", str(page)])
