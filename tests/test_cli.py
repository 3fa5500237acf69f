"""The command line, as users run it."""

import gzip
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from giftrl.certificates import Evidence
from giftrl.cli.options import VOWPAL_WABBIT_OPTIONS
from giftrl.kernels import LinearLearner
from tests.commands import GIFTRL, environment, giftrl, write_rows

pytestmark = pytest.mark.plain


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.svm")


def test_train_is_the_learner_and_the_summary_says_so(rows, tmp_path):
    model, summary = tmp_path / "m.giftrl", tmp_path / "s.json"
    shown = giftrl(
        "train", rows, "--beta", 1, "--model", model, "--summary", summary, "--radius", 1, "--radius", 2.5,
        "--certificate-seconds", 20,
    ).stderr.decode()  # fmt: skip
    found = json.loads(summary.read_text())
    x, y = load_svmlight_file(str(rows))
    x = np.column_stack([x.toarray(), np.ones(len(y))])
    learner = LinearLearner(x.shape[1], "logistic")
    predictions = learner.learn(x, y)
    certificate = learner.certificate
    assert found["examples"] == 400
    assert found["features"] == 30
    assert found["nonzeros"] == 400 * 7
    assert found["rejected"] == 0
    assert found["average_loss"] == pytest.approx(np.logaddexp(0, -y * predictions).mean(), rel=1e-4)
    assert found["lambda"] == pytest.approx(learner.lam, rel=1e-4)
    assert found["theta_norm"] == pytest.approx(learner.theta_norm, rel=1e-4)
    assert 0.0 < found["seconds_learning"] < found["seconds_total"]
    assert found["certificate"]["bound_sum"] == pytest.approx(certificate.bound_sum, rel=1e-3)
    assert found["certificate"]["delta_sum"] == pytest.approx(certificate.delta_sum, rel=1e-3)
    for radius in (1.0, 2.5):
        bounds = found["certificate"]["radius"][f"{radius:g}"]
        assert bounds["regret_bound"] == pytest.approx(certificate.regret_bound_ball(radius), rel=1e-3)
        assert bounds["best_loss_lower_bound"] == pytest.approx(certificate.best_loss_lower_bound(radius), rel=1e-3)
    settings = found["settings"]
    assert (settings["loss"], settings["beta"], settings["update"]) == ("logistic", 1.0, "proximal")
    assert "experts" not in found and "preset" not in settings
    why, *lines = shown.splitlines()
    assert why.startswith("labels: -1 and 1 in the first 400 rows; so the loss is logistic")
    assert lines[0].split() == ["examples", "since", "last", "average", "label", "prediction", "nonzeros", "lambda"]
    assert [line.split()[0] for line in lines[1:10]] == ["1", "2", "4", "8", "16", "32", "64", "128", "256"]
    assert "certificate: no linear model of Euclidean norm 2.5 or less has an average loss below 0." in shown
    best = found["certificate"]["best_loss"]
    assert lines[-1].startswith(f"certificate: average loss {found['average_loss']:.4g}. Lower bound: no linear model")
    least = f"has an average loss below {best['1']['average']:.4g} on these examples. All examples were stored."
    assert least in lines[-1]
    assert best["1"]["rows_kept"] == best["1"]["rows"] == 400
    kept = Evidence.of_rows("logistic", x, y, constant=x.shape[1] - 1)
    for scale in (1.0, 10.0):
        twin = kept.best_loss(learner.x, scale)
        assert best[f"{scale:g}"]["lower_bound"] == pytest.approx(twin.lower_bound, rel=1e-3)
    assert best["10"]["lower_bound"] < best["1"]["lower_bound"] < found["average_loss"] * 400


def test_predictions_are_those_of_the_weights(rows, tmp_path):
    model, out = tmp_path / "m.giftrl", tmp_path / "p.txt"
    giftrl("train", rows, "--model", model, "--quiet", "--beta", 1, "--regularizer", "curvature")
    giftrl("predict", model, rows, "--scores", "-o", out)
    plain = np.loadtxt(out)
    labels = np.array(giftrl("predict", model, rows).stdout.split(), dtype=float)
    np.testing.assert_array_equal(labels, np.sign(plain))
    names, *proba = giftrl("predict", model, rows, "--proba").stdout.decode().splitlines()
    assert names.split("\t") == ["-1", "1"]
    np.testing.assert_allclose(
        np.array([each.split()[1] for each in proba], float), 1 / (1 + np.exp(-plain)), rtol=1e-6
    )
    shown = json.loads(giftrl("inspect", model, "--top", 1000, "--json").stdout)
    weights = {each["feature"]: each["weight"] for each in shown["weights"]}
    x, y = load_svmlight_file(str(rows))
    by_hand = x.toarray() @ [weights.get(str(j + 1), 0.0) for j in range(30)] + weights["(constant)"]
    np.testing.assert_allclose(plain, by_hand, rtol=1e-6, atol=1e-7)
    assert np.mean(np.sign(plain) == y) > 0.85
    assert shown["norms"]["l2"] == pytest.approx(np.linalg.norm(list(weights.values())))


def test_inspect_shows_tables_and_draws(rows, tmp_path):
    giftrl("train", rows, "--model", tmp_path / "m.giftrl", "--quiet")
    drawn = ("--plot", tmp_path / "w.svg", "--certificate-seconds", 1)
    shown = giftrl("inspect", tmp_path / "m.giftrl", "--top", 40, *drawn).stdout.decode()
    for word in ("setting", "logistic", "lower bound", "largest weights", "(constant)", "theta_norm"):
        assert word in shown
    assert (tmp_path / "w.svg").read_text().startswith("<?xml")


@pytest.mark.verify
def test_all_ways_in_give_the_same_model(rows, tmp_path):
    """Plain, gzip, standard input, converted, and the same rows as VW text with the same numbers."""
    (tmp_path / "rows.svm.gz").write_bytes(gzip.compress(rows.read_bytes()))
    giftrl("convert", rows, tmp_path / "rows.arrow", "--quiet")
    losses = set()
    for source in (rows, tmp_path / "rows.svm.gz", tmp_path / "rows.arrow"):
        losses.add(json.loads(giftrl("train", source, "--json").stdout)["average_loss"])
    losses.add(json.loads(giftrl("train", "-", "--json", stdin=rows.read_bytes()).stdout)["average_loss"])
    assert len(losses) == 1


def test_json_and_quiet(rows):
    done = giftrl("train", rows, "--json")
    assert done.stderr == b"" and json.loads(done.stdout)["examples"] == 400
    done = giftrl("train", rows, "--quiet")
    assert done.stderr == done.stdout == b""


def test_labels_of_two_values(tmp_path):
    rows = write_rows(tmp_path / "a.svm")
    zero_one = tmp_path / "b.svm"
    zero_one.write_text(rows.read_text().replace("\n-1 ", "\n0 "))
    if not zero_one.read_text().startswith("1"):
        zero_one.write_text(zero_one.read_text().replace("-1 ", "0 ", 1))
    expected = json.loads(giftrl("train", rows, "--json").stdout)["average_loss"]
    for said in ((), ("--labels", "0,1"), ("--loss", "logistic")):
        assert json.loads(giftrl("train", zero_one, *said, "--json").stdout)["average_loss"] == expected
    done = giftrl("train", zero_one, "--labels=-1,1", check=False)
    assert done.returncode == 1 and "the label 0, expected -1 or 1 (--labels -1,1,0 adds it, " in done.stderr.decode()


def test_dictionary_grows_and_passes_repeat(rows, tmp_path):
    once = json.loads(giftrl("train", rows, "--dictionary", "--json").stdout)
    hashed = json.loads(giftrl("train", rows, "--json").stdout)
    assert once["average_loss"] == pytest.approx(hashed["average_loss"], rel=1e-5)
    assert once["features"] == 30
    thrice = json.loads(giftrl("train", rows, "--passes", 3, "--holdout", 0, "--json").stdout)
    assert thrice["examples"] == 400 and thrice["passes"] == {"done": 3, "kept": 3, "held_out_losses": []}
    assert thrice["average_loss"] == hashed["average_loss"]  # of the first pass


def test_parameters_go_to_their_member(rows):
    parts = "--loss", "quantile", "--set", "tau=0.9", "--update", "truncated", "--no-lookahead", "--schedule", "sqrt"
    found = json.loads(giftrl("train", rows, *parts, "--beta", "2", "--json").stdout)["settings"]
    assert found["parameters"] == {"tau": 0.9} and found["lookahead"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], ["No such command 'trian'", "Did you mean 'train'?"]),
        (["train", "ROWS", "--loss", "logistics"], ["did you mean 'logistic'?", "hinge"]),
        (["train", "ROWS", "--beta", "1", "--update", "proximale"], ["did you mean 'proximal'?"]),
        (["train", "ROWS", "--beta", "automatic"], ["'automatic' is neither a number nor auto"]),
        (["train", "ROWS", "--set", "tua=0.9", "--loss", "quantile"], ["tua", "did you mean 'tau'?"]),
        (["train", "ROWS", "--beta", "-1"], ["--beta -1.0", "must be positive and finite, or 'auto'"]),
        (["train", "ROWS", "--los", "hinge"], ["No such option", "--loss"]),
        (["train", "no-such-file.svm"], ["no-such-file.svm"]),
        (["train", "ROWS", "--beta", "1", "--lookahead", "--schedule", "adagrad_norm"],
         ["--lookahead", "not known in time"]),
        (["train", "ROWS", "--model", "ROWS"], ["--model ", "must not be a file that is read (data): its content"]),
        (["train", "ROWS", "--summary", "ROWS"], ["--summary ", "must not be a file that is read"]),
        (["train", "ROWS", "--on-error", "skip", "--rejects", "ROWS"], ["--rejects ", "must not be a file that is"]),
        (["convert", "ROWS", "ROWS"], ["output=", "must not be a file that is read"]),
        (["train", "ROWS", "--resume"], ["is needed for checkpoints"]),
        (["train", "ROWS", "--model", "no/such/folder/m.giftrl"], ["cannot be written", "which does not exist"]),
        (["predict", "ROWS", "ROWS"], ["rows.svm"]),
        (["inspect", "no-such-model"], ["no-such-model"]),
    ],
)  # fmt: skip
def test_errors_say_what_and_what_instead(rows, arguments, words):
    before = rows.read_bytes()
    done = giftrl(*[rows if each == "ROWS" else each for each in arguments], check=False)
    assert rows.read_bytes() == before
    assert done.returncode in (1, 2)
    shown = done.stderr.decode()
    assert "Traceback" not in shown
    for word in words:
        assert word in shown


def test_shell_completion():
    done = giftrl(check=False, timeout=60)
    assert done.returncode in (0, 2)
    asked = environment(_GIFTRL_COMPLETE="bash_complete", COMP_WORDS="giftrl tr", COMP_CWORD="1")
    found = subprocess.run([GIFTRL], env=asked, capture_output=True, check=False, timeout=60).stdout.decode()
    assert "train" in found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "-d", "rows"], "the files are arguments"),
        (["train", "ROWS", "-b", "20"], "--bits N"),
        (["train", "ROWS", "--loss_function", "logistic"], "--loss logistic"),
        (["train", "ROWS", "--l1", "1e-6"], "elastic_net --set l1"),
        (["train", "ROWS", "--oaa", "3"], "--loss softmax; labels are those of the first rows, or --labels 1..K"),
        (["train", "ROWS", "-t"], "giftrl predict MODEL FILE"),
        (["train", "ROWS", "-l", "0.5"], "there is no learning rate"),
        (["predict", "-t", "ROWS"], "giftrl predict MODEL FILE"),
    ],
)
def test_options_of_vowpal_wabbit_are_answered_with_ours(rows, arguments, words):
    done = giftrl(*[rows if each == "ROWS" else each for each in arguments], check=False)
    said = done.stderr.decode()
    assert done.returncode == 2 and "is an option of Vowpal Wabbit; here: " in said and words in " ".join(said.split())


def test_options_that_matched_nothing_are_named(tmp_path):
    data = tmp_path / "a.vw"
    data.write_text("1 |user age:3 |ad size:2\n-1 |user age:1 |ad size:4\n")
    common = ["-q", "zz", "-q", "ua", "--ignore", "ctx", "--bits", "6"]
    said = giftrl("train", data, "--beta", "1", *common, "--model", tmp_path / "m").stderr.decode()
    assert "note: ignore: the data has no columns" in said and "note: interactions z:z: nothing is called that" in said
    assert "u:a" not in said
    assert json.loads(giftrl("train", data, "--beta", "1", *common, "--json").stdout)["unmatched"] == [
        "ignore: the data has no columns", "interactions z:z: nothing is called that",
    ]  # fmt: skip
    assert "note: " not in giftrl("train", data, "--beta", "1", "-q", "ua").stderr.decode()
    for command in (
        ["predict", tmp_path / "m", data, "--ignore", "ctx"],
        ["convert", data, tmp_path / "a.arrow", "-q", "zz"],
    ):
        assert "note: i" in giftrl(*command).stderr.decode()


def test_the_page_for_users_of_vowpal_wabbit_has_every_option():
    page = (Path(__file__).parent.parent / "docs" / "from-vowpal-wabbit.md").read_text()
    lines = [line for line in page.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    assert lines[:-1] == [f"| `{option}` | {ours} |" for option, ours in VOWPAL_WABBIT_OPTIONS.items()]


def test_rows_that_are_sorted_by_label_are_pointed_out(rows, tmp_path):
    lines = sorted(rows.read_text().splitlines(keepends=True))
    data = tmp_path / "sorted.svm"
    data.write_text("".join(lines))
    said = giftrl("train", data, "--beta", "1", "--bits", "6").stderr.decode()
    assert "note: the first" in said and "labels are all -1: if the rows are sorted, shuffle them" in " ".join(
        said.split()
    )
    assert "note: " not in giftrl("train", rows, "--beta", "1", "--bits", "6").stderr.decode()
    (tmp_path / "one.svm").write_text("1 1:1\n" * 50)
    assert json.loads(giftrl("train", tmp_path / "one.svm", "--beta", "1", "--json").stdout)["order"] is None


@pytest.mark.parametrize("option", [("--label", "²"), ("--label=--5",), ("--radius", "nan"), ("--labels", "0,nan")])
def test_odd_options_are_refused_in_a_sentence_before_the_work(tmp_path, option):
    (tmp_path / "a.csv").write_text("a,y\n1,1\n2,-1\n")
    done = giftrl("train", tmp_path / "a.csv", *option, "--model", tmp_path / "m", "--quiet", check=False)
    assert done.returncode in (1, 2) and b"Traceback" not in done.stderr and not (tmp_path / "m").exists()
