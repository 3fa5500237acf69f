"""The benchmarks of start-up and of one row a call: what is run how often, and the tables from end to end."""

import sys
from pathlib import Path

import pytest

from benchmarks import one_row, startup
from benchmarks.startup import Case

BOTH = "<!-- startup:begin --><!-- startup:end -->\n\n<!-- one-row:begin --><!-- one-row:end -->\n"


def noting(path: Path, **more) -> Case:
    """A process that adds a line to a file."""
    code = f"from pathlib import Path; Path({str(path)!r}).open('a').write('here\\n')"
    return Case([sys.executable, "-c", code], {}, **more)


def test_processes_take_turns_and_slow_ones_run_once(tmp_path):
    timed = {"quick": noting(tmp_path / "quick"), "slow": noting(tmp_path / "slow", slow=True)}
    costs = startup.measure(timed, repetitions=3)
    assert {key: len(each) for key, each in costs.items()} == {"quick": 3, "slow": 1}
    assert len((tmp_path / "quick").read_text().splitlines()) == 4  # one more than counts
    assert len((tmp_path / "slow").read_text().splitlines()) == 1


def test_a_process_that_fails_ends_the_benchmark_with_its_words():
    with pytest.raises(RuntimeError, match="ended with 3: no such thing"):
        Case([sys.executable, "-c", "import sys; print('no such thing', file=sys.stderr); sys.exit(3)"], {}).once()


def test_a_process_that_compiles_what_the_wheel_should_bring_ends_the_benchmark(tmp_path):
    folder = tmp_path / "unused"
    noting(tmp_path / "elsewhere", avoids=folder).once()
    folder.mkdir()
    with pytest.raises(RuntimeError, match="compiled learn.loop, which the wheel should bring"):
        noting(folder / "learn.loop", avoids=folder).once()


def test_processes_have_environments_of_their_own(tmp_path):
    timed = startup.cases(tmp_path, tmp_path / "site").values()
    assert all("PYTHONDONTWRITEBYTECODE" not in case.environment for case in timed)
    assert len({case.environment.get("GIFTRL_CACHE_DIR") for case in timed}) == 4  # one of them none
    slow = [case for case in timed if case.slow]
    assert len(slow) == 2 and all(str(case.empties) == case.environment["GIFTRL_CACHE_DIR"] for case in slow)


def test_the_table_of_start_up_from_end_to_end(tmp_path, monkeypatch):
    """With loops of plain Python, and so a wheel without a library."""
    for needed in ("hatchling", "sklearn", "vowpalwabbit"):
        pytest.importorskip(needed)
    monkeypatch.setenv("GIFTRL_PLAIN", "1")
    monkeypatch.setenv("GIFTRL_WHEEL_LOOPS", "0")
    page = tmp_path / "page.md"
    page.write_text(BOTH)
    startup.main(["--rows", "3", "--repetitions", "1", "--out", str(page)])
    lines = page.read_text().splitlines()
    for name in startup.cases(tmp_path, tmp_path):
        assert sum(line.startswith(f"| {name} |") for line in lines) == 1, name
    assert lines[-1] == "<!-- one-row:begin --><!-- one-row:end -->"


def test_one_row_a_call_from_end_to_end(tmp_path, monkeypatch):
    for needed in ("river", "sklearn"):
        pytest.importorskip(needed)
    monkeypatch.setenv("GIFTRL_PLAIN", "1")
    page = tmp_path / "page.md"
    page.write_text(BOTH)
    one_row.main(["--calls", "2", "--repetitions", "2", "--out", str(page)])
    lines = page.read_text().splitlines()
    for ours, theirs in one_row.AGAINST.items():
        assert sum(line.startswith(f"| {ours} |") and f"| {theirs} |" in line for line in lines) == 1, ours
        assert sum(line.startswith(f"| {theirs} |") for line in lines) == 1, theirs
