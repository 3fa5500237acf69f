"""The data sets of ``giftrl demo NAME``: the same bytes everywhere, what they claim to be, and never in the way."""

import csv
import functools
import hashlib
import itertools
import subprocess
import sys

import numpy as np
import pytest
from scipy import signal
from sklearn import datasets

from giftrl.samples import SAMPLES
from tests.commands import giftrl

pytestmark = pytest.mark.plain

#: Files that come from a seed alone; a change of their bytes is a decision.
DIGESTS = {"churn": "29487f78ccfceea9", "clicks": "e75ea3ed0f0eb012"}


@functools.cache
def content(name):
    return SAMPLES[name].rows()


def table(name):
    """The rows of a CSV file as dictionaries."""
    return list(csv.DictReader(content(name).decode().splitlines()))


@pytest.mark.parametrize("name", DIGESTS)
def test_what_a_seed_makes_never_changes(name):
    assert hashlib.sha256(content(name)).hexdigest().startswith(DIGESTS[name])


@pytest.mark.verify
def test_another_process_writes_the_same_bytes():
    script = "import sys; from giftrl.samples import SAMPLES; sys.stdout.buffer.write(SAMPLES['text'].rows())"
    # Two new ones: other tests import what adds names to modules, such as scikit-learn's experiments.
    written = [
        subprocess.check_output(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        )
        for seed in ("7", "8")
    ]
    assert written[0] == written[1] and written[0].count(b"\n") > 1000


def test_text_is_that_of_the_installed_packages():
    rows = table("text")
    known = {row["name"]: row for row in rows}
    assert {row["package"] for row in rows} == {"numpy", "scipy", "sklearn", "pyarrow"}
    assert len({row["text"] for row in rows}) == len(rows) > 1000
    said = " ".join(signal.detrend.__doc__.split())
    assert known["detrend"]["text"] in said and known["detrend"]["package"] == "scipy"
    changes = sum(one["package"] != two["package"] for one, two in itertools.pairwise(rows))
    assert changes > len(rows) / 3, "rows that are sorted by label teach little"


@pytest.mark.parametrize(
    ("name", "loader", "label"),
    [("cancer", "breast_cancer", "diagnosis"), ("wine", "wine", "cultivar"), ("iris", "iris", "species"),
     ("digits", "digits", "digit"), ("diabetes", "diabetes", "progression")],
)  # fmt: skip
def test_real_tables_are_those_of_scikit_learn(name, loader, label):
    options = {"scaled": False} if name == "diabetes" else {}
    theirs = getattr(datasets, f"load_{loader}")(**options)
    rows = table(name)
    assert list(rows[0])[-1] == label and len(rows[0]) == theirs.data.shape[1] + 1
    wanted = theirs.target_names[theirs.target] if name in ("cancer", "wine", "iris") else theirs.target.astype(float)
    kind = str if name in ("cancer", "wine", "iris") else float
    ours = sorted((tuple(map(float, list(row.values())[:-1])), kind(row[label])) for row in rows)
    expected = sorted((tuple(row), kind(y)) for row, y in zip(theirs.data.tolist(), wanted, strict=True))
    assert [y for _, y in ours] == [y for _, y in expected]
    np.testing.assert_allclose([x for x, _ in ours], [x for x, _ in expected], rtol=1e-9)


def test_a_file_that_is_there_is_never_overwritten(tmp_path):
    folder = tmp_path / "new folder"
    first = giftrl("demo", "iris", "--out", folder).stdout.decode()
    path = folder / "iris.csv"
    assert path.read_bytes() == content("iris")
    assert f"giftrl train '{path}' --label species --model '{folder / 'iris.giftrl'}'" in first
    assert "already" not in first and "already" in giftrl("demo", "iris", "--out", folder).stdout.decode()
    path.write_text("mine\n")
    done = giftrl("demo", "iris", "--out", folder, check=False)
    assert done.returncode == 1 and b"is there already, with other content; give another folder" in done.stderr
    assert path.read_text() == "mine\n"


def test_the_names_are_shown_and_a_wrong_one_is_put_right():
    shown = giftrl("demo", "--list").stdout.decode()
    for sample in SAMPLES.values():
        assert sample.name in shown and sample.file in shown and sample.what in shown and sample.origin in shown
    done = giftrl("demo", "chrun", check=False)
    assert done.returncode == 1 and b"did you mean 'churn'" in done.stderr
