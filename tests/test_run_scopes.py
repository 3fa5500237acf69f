"""Every number about a run says which rows it is about, and numbers side by side agree."""

import html
import re

import numpy as np
import pytest

from tests.commands import giftrl

pytestmark = pytest.mark.plain

ROWS = 60


def write_table(path, seed=0, labels=("no", "yes")):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=ROWS).round(3)
    y = np.where(x + rng.logistic(size=ROWS) > 0.0, labels[1], labels[0])
    path.write_text("x,y\n" + "".join(f'{a},"{b}"\n' for a, b in zip(x, y, strict=True)))
    return path


def train(*options):
    return giftrl("train", *options, "--certificate-seconds", 0.2).stderr.decode()


def tiles(text):
    """The tiles of a page: name, number and remark."""
    found = re.findall(r"<span>([^<]*)</span> <strong>([^<]*)</strong>\s*(?:<[^>]*>)?([^<]*)<", text)
    return {name: (number, html.unescape(remark)) for name, number, remark in found}


def shown(pattern, text):
    return float(re.search(pattern, text)[1])


@pytest.mark.plain(False)  # a mixture takes plain Python long
@pytest.mark.parametrize("learner", [[], ["--beta", "3"]])
def test_the_losses_of_several_passes_are_told_apart(tmp_path, learner):
    data, page = write_table(tmp_path / "a.csv"), tmp_path / "a.html"
    said = train(data, "--passes", 2, "--report", page, "--model", tmp_path / "m", *learner)
    first = shown(r"average loss ([0-9.]+) in the first pass", said)
    certified = shown(r"certificate: average loss ([0-9.]+)\. ", said)
    parts = re.search(r"The certificate counts .*, so its average loss \((.*?)\) is that of (.*) together\.", said)
    numbers = [float(each) for each in re.findall(r"\(([0-9.]+)\)", parts[2])]
    assert float(parts[1]) == certified and numbers[0] == pytest.approx(first, rel=1e-3) and first != certified
    # Every tenth row is held out, and learned last; a mixture counts no row twice.
    rows = [ROWS * 0.9, ROWS * 0.9, ROWS * 0.1] if learner else [ROWS * 0.9, ROWS * 0.1]
    assert ("later passes" in parts[2]) == bool(learner)
    assert np.average(numbers, weights=rows) == pytest.approx(certified, rel=2e-3)
    found = tiles(page.read_text())
    assert found["average loss"] == (f"{first:.4f}", "logistic loss, first pass")
    best, remark = found["lower bound"]
    paid, gap = re.fullmatch(
        r"of linear models; the run, with (.*) on the certificate's examples, is (.*) (?:above|below) it", remark
    ).groups()
    assert float(paid) == pytest.approx(certified, rel=1e-3)
    assert abs(float(paid) - float(best)) == pytest.approx(float(gap), abs=1e-9)
    assert parts[0] in html.unescape(page.read_text())
    assert parts[0] in " ".join(giftrl("inspect", tmp_path / "m", "--certificate-seconds", 0.2).stdout.decode().split())
    assert re.search(rf"^{2 * round(ROWS * 0.9) + round(ROWS * 0.1)} examples learned in 2 passes in ", said, re.M)


def test_one_pass_has_one_loss(tmp_path):
    data, page = write_table(tmp_path / "a.csv"), tmp_path / "a.html"
    said = train(data, "--report", page, "--beta", "3")
    assert "The certificate counts" not in said and re.search(rf"^{ROWS} examples in ", said, re.MULTILINE)
    found = tiles(page.read_text())
    assert found["average loss"][1] == "logistic loss"
    best, remark = found["lower bound"]
    gap = re.fullmatch("of linear models; the run is (.*) above it", remark)[1]
    assert float(found["average loss"][0]) - float(best) == pytest.approx(float(gap), abs=1e-9)


def test_tiles_of_a_run_that_goes_on_say_where_they_begin(tmp_path):
    train(write_table(tmp_path / "a.csv"), "--beta", "3", "--model", tmp_path / "m")
    page = tmp_path / "b.html"
    said = train(write_table(tmp_path / "b.csv", seed=1), "--from", tmp_path / "m", "--report", page)
    assert re.search(rf"^{ROWS} examples learned since going on in ", said, re.MULTILINE)
    found = tiles(page.read_text())
    assert found["average loss"][1] == "logistic loss, since example 1"
    assert found["accuracy"][1].startswith(f"since example {ROWS + 1}; ")
    assert found["area under ROC"][1] == f"since example {ROWS + 1}; 0.5 is chance"
    assert "proved out of reach" not in page.read_text()  # of all rows: those of the curve may go below
    assert f"learned from {2 * ROWS} examples, {ROWS} of them earlier" in page.read_text()


def test_a_report_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = giftrl("train", write_table(tmp_path / "a.csv"), "--report", "-", check=False)
    assert done.returncode == 1 and b"--report -: must be the name of a file; write --report run.html" in done.stderr
    assert not (tmp_path / "-").exists()


def test_labels_of_several_lines_stay_on_one_line_of_the_table(tmp_path):
    data = write_table(tmp_path / "a.csv", labels=("no\nway", "o\tk"))
    said = train(data, "--beta", "3")
    lines = said[said.index("  examples  since last") :].split("\n\n")[0].splitlines()
    assert [len(line) for line in lines] == [79] * 7
    assert all(re.search(r" (no\\nway|o\\tk) +(no\\nway|o\\tk) ", line) for line in lines[1:])
