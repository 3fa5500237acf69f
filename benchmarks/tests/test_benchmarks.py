"""The benchmarks: what the generator draws, what is written as text, and the command from end to end."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file
from sklearn.utils import check_array

from benchmarks.datasets import DATASETS, Data
from benchmarks.growth import Point, draw, grid, measure, sweeps
from benchmarks.rcv1_like import rcv1_like, zipf_quantile
from benchmarks.solvers import SOLVERS, Timing
from benchmarks.solvers import floors as floor
from benchmarks.solvers.rivals import ScikitLearn
from benchmarks.text import write_libsvm, write_vw
from benchmarks.timing import measure as measure_solvers

SMALL = {"rows": st.integers(1, 60), "features": st.integers(2, 300), "seed": st.integers(0, 2**32)}


@given(**SMALL)
@settings(max_examples=30)
def test_documents_are_seeded_sorted_distinct_and_of_norm_one(rows, features, seed):
    x, y = rcv1_like(rows, features, seed)
    again, y_again = rcv1_like(rows, features, seed)
    assert (x != again).nnz == 0 and np.array_equal(y, y_again)
    assert x.shape == (rows, features) and set(y) <= {-1.0, 1.0}
    assert (x.data.dtype, x.indices.dtype, x.indptr.dtype) == (np.float32, np.int32, np.int32)
    for begin, end in zip(x.indptr[:-1], x.indptr[1:], strict=True):
        assert 1 <= end - begin <= max(1, features // 2)
        assert (np.diff(x.indices[begin:end]) > 0).all()
        assert np.linalg.norm(x.data[begin:end].astype(float)) == pytest.approx(1.0, abs=1e-6)
    assert x.indices.min() >= 0 and x.indices.max() < features and (x.data > 0.0).all()


def test_documents_have_the_lengths_features_and_labels_that_the_page_says():
    n = 20_000
    x, y = rcv1_like(n, 47_236)
    lengths = np.diff(x.indptr)
    # The mean of n lengths has a standard deviation of 47 / sqrt(n) = 0.33.
    assert abs(lengths.mean() - 68.0) < 4 * 0.33 and abs(lengths.std() - 47.0) < 3.0
    shares = np.sort(np.bincount(x.indices, minlength=47_236))[::-1] / n
    assert 0.31 < shares[0] < 0.34 and 0.075 < shares[99] < 0.095 and 0.008 < shares[999] < 0.012
    assert 0.3 < (y > 0.0).mean() < 0.7


@given(
    exponent=st.sampled_from([0.0, 0.7, 1.0, 1.1, 2.0]),
    offset=st.sampled_from([0.0, 3.0, 30.0]),
    features=st.integers(1, 50),
)
@settings(max_examples=30)
def test_the_quantile_inverts_the_law(exponent, offset, features):
    edges = 1.0 + offset + np.arange(features + 1)
    power = 1.0 - exponent
    mass = np.diff(np.log(edges) if power == 0.0 else edges**power / power)
    levels = np.concatenate([[0.0], np.cumsum(mass) / mass.sum()])
    for rank in range(features):
        for inside in (0.01, 0.5, 0.99):
            u = levels[rank] + inside * (levels[rank + 1] - levels[rank])
            assert zipf_quantile(u, features, exponent, offset) == rank


@given(**SMALL, dense=st.booleans())
@settings(max_examples=20)
def test_text_gives_the_data_back(tmp_path_factory, rows, features, seed, dense):
    x, y = rcv1_like(rows, features, seed)
    folder = tmp_path_factory.mktemp("text")
    write_libsvm(folder / "a", x.toarray() if dense else x, y)
    read, labels = load_svmlight_file(str(folder / "a"), n_features=features, dtype=np.float32, zero_based=False)
    assert (read != x).nnz == 0 and np.array_equal(labels, y)
    write_vw(folder / "b", x.toarray() if dense else x, y)
    for i, line in enumerate((folder / "b").read_text().splitlines()):
        label, _, rest = line.partition(" | ")
        assert float(label) == y[i]
        pairs = [pair.split(":") for pair in rest.split()]
        row = x[i]
        assert [int(j) for j, _ in pairs] == row.indices.tolist()
        assert np.array_equal(np.array([v for _, v in pairs], np.float32), row.data)
    assert i == rows - 1 and sorted(path.name for path in folder.iterdir()) == ["a", "b"]


@given(rows=st.integers(1, 20), features=st.integers(2, 40), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_every_floor_takes_the_steps_of_its_formula(rows, features, seed):
    x, y = rcv1_like(rows, features, seed)
    u = np.zeros(features)
    total = 0.0
    for row, label in zip(x.toarray().astype(float), y, strict=True):
        p = row @ u
        u -= floor.STEP * (p - label) * row
        total += p
    for kind in ("", "_unsigned"):
        for layout, arrays in (("sparse", (x.indptr, x.indices, x.data)), ("dense", (x.toarray(),))):
            w = np.zeros(features, np.float32)
            found = getattr(floor, layout + kind)(*arrays, y, w)
            np.testing.assert_allclose(w, u, rtol=1e-4, atol=1e-8)
            assert found == pytest.approx(total, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scikit_learn_is_not_made_to_copy(dtype):
    x, y = rcv1_like(20, 50)
    for rows in (x, x.toarray()):
        solver = ScikitLearn(dtype)
        solver.prepare(Data("tiny", "none", rows, y))
        taken = check_array(solver.x, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
        assert taken.dtype == dtype and np.shares_memory(*(getattr(a, "data", a) for a in (taken, solver.x)))


def test_solvers_are_timed_in_turn_and_judged_by_their_own_predictions():
    calls = []

    class Fake:
        def __init__(self, key, reason=None):
            self.key = self.name = key
            self.reason = reason

        def unavailable(self, data):
            return self.reason

        def prepare(self, data):
            calls.append(f"{self.key} prepared")

        def once(self):
            calls.append(self.key)
            return Timing(float(len(calls)))

        def predictions(self):
            return np.zeros(2) if self.key == "a" else None

    data = Data("two", "two", np.eye(2, dtype=np.float32), np.ones(2))
    results = measure_solvers(data, [Fake("a"), Fake("c", "not here"), Fake("b")], 2)
    assert calls == ["a prepared", "a", "b prepared", "b", "a", "b", "a", "b"]
    assert [timing.seconds for timing in results[0].timings] == [5.0, 7.0] and results[0].seconds == 6.0
    assert results[0].loss == pytest.approx(np.log(2.0)) and results[2].loss is None
    assert results[1].skipped == "not here" and not results[1].timings


def run(*arguments, absent=(), data=None):
    """The command as a user runs it, with some modules as if they were not installed."""
    hide = "".join(f"sys.modules[{name!r}] = None; " for name in absent)
    code = f"import sys; {hide}from benchmarks.__main__ import main; main({list(arguments)!r})"
    environment = {"PATH": "", "HOME": str(Path.home()), **({"GIFTRL_DATA": data} if data else {})}
    root = Path(__file__).parents[2]
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, env=environment)


def test_the_command_runs_every_solver_and_says_what_it_skips(tmp_path):
    page = tmp_path / "performance.md"
    regions = "".join(f"<!-- {name}:begin -->\nstale words\n<!-- {name}:end -->\n" for name in ("asked", "bench"))
    page.write_text(f"# Performance\n\n{regions}\nThe end.\n")
    absent = ("vowpalwabbit", "river")
    done = run("--quick", "--repetitions", "1", "--out", str(page), "--tables", str(page), absent=absent)
    assert done.returncode == 0, done.stderr
    written = page.read_text()
    assert written.startswith("# Performance\n") and written.endswith("\n\nThe end.\n") and "stale words" not in written
    for printed in (done.stdout, written):
        for solver in SOLVERS.values():
            row = next(line for line in printed.splitlines() if line[2:].startswith(f"{solver.name} "))
            skipped = solver.key.startswith(("vw", "river"))
            assert ("skipped" in row) == skipped, row
        assert (
            'Vowpal Wabbit skipped on rcv1_like: vowpalwabbit is not installed: pip install "giftrl[bench]"' in printed
        )
        assert all(f"{name} skipped: set GIFTRL_DATA" in printed for name in DATASETS if name != "rcv1_like")
        assert "Microseconds a row" in printed and "nan" not in printed


@pytest.mark.skipif(importlib.util.find_spec("vowpalwabbit") is None, reason="vowpalwabbit is not installed")
@pytest.mark.skipif(importlib.util.find_spec("river") is None, reason="river is not installed")
def test_rivals_run_and_learn():
    data = DATASETS["rcv1_like"].load(quick=True)
    chosen = [SOLVERS[key] for key in ("squared_norm-linear", "vw", "vw-sgd", "river")]
    for result in measure_solvers(data, chosen, 1):
        assert result.seconds > 0.0 and result.inner is not None
        assert 0.4 < result.loss < 0.69, f"{result.name} must do better than log 2"


def test_a_misspelt_solver_is_one_line():
    done = run("--quick", "--solvers", "flor")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: solvers='flor': is not a known name; did you mean 'floor'?")
    assert len(done.stderr.splitlines()) == 1


def test_growth_measures_each_point_and_draws_it(tmp_path):
    found = {
        what: [(k + 1, measure(Point(rows=20, nonzeros=4, features=100, models=point.models))) for k in range(2)]
        for what, (point, *_) in sweeps(quick=True).items()
    }
    assert all(cost > 0.0 for points in found.values() for _, costs in points for cost in costs.values())
    assert len(grid(found).rows) == 10
    draw(found, tmp_path / "growth.svg")
    assert (tmp_path / "growth.svg").read_text().count("<svg") == 1
