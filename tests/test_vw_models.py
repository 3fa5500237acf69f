"""Models of Vowpal Wabbit that giftrl predicts with, and models of giftrl as Vowpal Wabbit's readable models."""

import numpy as np
import pytest

from giftrl.errors import Incompatible, InvalidInput
from giftrl.training import LinearModel, Settings, Trainer
from giftrl.training.given_weights import read_weights
from giftrl.training.vw_export import readable_model
from giftrl.training.vw_model import VWModel
from giftrl.training.vw_weights import read_vw, vw_hashes
from tests.commands import giftrl

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def vowpalwabbit():
    return pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed")


def write_rows(path, count=300, numbers=False, labels=(-1, 1), twice=" x:0.5"):
    """Rows of VW text: namespaces or none, names and numbers, values and none, a feature that occurs twice."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(count):
        x = rng.normal(size=3).round(3)
        colour, word = rng.choice(["red", "green", "blue"]), rng.integers(0, 40)
        y = labels[int(x[0] + (colour == "red") - 0.1 * x[2] > 0.2)]
        if numbers:
            lines.append(f"{y} | 1:{x[0]} 5:{x[1]} {word + 10} 7")
        else:
            lines.append(f"{y} |a x:{x[0]} y:{x[1]}{twice} |color {colour} |words w{word} 17:{x[2]} | plain 3:2")
    path.write_text("\n".join(lines) + "\n")
    return path


def train_vw(vowpalwabbit, options, rows):
    """Train Vowpal Wabbit on a file, and return what the final model predicts for each row, without its label."""
    model = vowpalwabbit.Workspace(f"{options} --quiet")
    lines = rows.read_text(encoding="utf-8").strip("\n").split("\n")
    for line in lines:
        model.learn(line)
    predictions = [model.predict(line[line.index("|") :]) for line in lines]
    model.finish()
    return np.array(predictions)


def predictions_of(model, rows):
    return np.concatenate([model.predict(batch) for batch in model.read(rows)])


@pytest.mark.parametrize("written", ["--invert_hash", "--readable_model"])
@pytest.mark.parametrize(
    "options",
    [
        "--loss_function logistic",
        "--loss_function logistic -b 22 --link logistic",
        "--loss_function squared",  # whose predictions are clipped to the labels seen
        "--loss_function hinge --noconstant",
        "--loss_function logistic -b 10",  # names that share a hash
        "--l1 1e-3 --l2 1e-3 --loss_function logistic",
        "--l1 1e-4 -b 22",
        "--l2 1e-3 -q aw",
        "-q aw",
        "-q wa --loss_function logistic",
        "--cubic acw -l 0.1 --loss_function logistic",
        "--interactions aac -q aa --power_t 0.3 --loss_function logistic",
    ],
)
def test_predictions_are_those_of_vowpal_wabbit(vowpalwabbit, tmp_path, options, written):
    # In the square of a sum, Vowpal Wabbit has the product of different terms once.
    twice = "" if "aa" in options else " x:0.5"
    rows, text = write_rows(tmp_path / "rows.vw", twice=twice), tmp_path / "vw.txt"
    expected = train_vw(vowpalwabbit, f"{options} {written} {text}", rows)
    if written == "--readable_model" and any(each in options for each in ("-q", "--cubic", "--interactions")):
        with pytest.raises(InvalidInput, match=r"has products of features \(.*\) and no names; write it with vw --inv"):
            VWModel(text)
        return
    np.testing.assert_allclose(predictions_of(VWModel(text), rows), expected, rtol=1e-5, atol=1e-5)


def test_numbers_and_the_command(vowpalwabbit, tmp_path):
    rows, text = write_rows(tmp_path / "rows.vw", numbers=True), tmp_path / "vw.txt"
    expected = train_vw(vowpalwabbit, f"--loss_function logistic --readable_model {text}", rows)
    done = giftrl("predict", text, rows)
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], expected, rtol=1e-5, atol=1e-5)
    done = giftrl("predict", text, rows, "-o", tmp_path / "p.txt", "--audit", check=False)
    assert done.returncode == 2 and b"--audit is for models of giftrl, and" in done.stderr
    assert giftrl("predict", text, rows, "-o", tmp_path / "p.txt").stdout == b""
    assert len((tmp_path / "p.txt").read_text().split()) == len(expected)


def test_scores_are_predictions_before_the_link(vowpalwabbit, tmp_path):
    rows, text = write_rows(tmp_path / "rows.vw", 50), tmp_path / "vw.txt"
    expected = train_vw(vowpalwabbit, f"--loss_function logistic --link logistic --readable_model {text}", rows)
    done = giftrl("predict", text, rows, "--scores")
    scores = np.array([float(line) for line in done.stdout.split()])
    np.testing.assert_allclose(scores, np.log(expected / (1.0 - expected)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("option", ["--ngram 2", "--oaa 3", "--hash all", "--ignore a", "--lrq aw2"])
def test_other_options_are_refused_by_name(vowpalwabbit, tmp_path, option):
    rows = write_rows(tmp_path / "rows.vw", 20, labels=(1, 2))
    train_vw(vowpalwabbit, f"{option} --invert_hash {tmp_path}/vw.txt", rows)
    with pytest.raises(InvalidInput, match=option.split()[0]):
        VWModel(tmp_path / "vw.txt")


@pytest.mark.parametrize("option", ["-q aa", "-q ::", "--cubic :::", "--interactions aa"])
def test_weights_that_depend_on_the_order_of_features_are_refused(vowpalwabbit, tmp_path, option):
    rows, text = tmp_path / "rows.vw", tmp_path / "vw.txt"
    rows.write_text("1 |a r q\n-1 |a q r\n" * 30)
    train_vw(vowpalwabbit, f"{option} --invert_hash {text}", rows)
    with pytest.raises(InvalidInput, match="have different weights, and the order of factors does not count"):
        VWModel(text)
    done = giftrl("certify", "--weights", text, "--loss", "squared", rows, "-q", "aa", check=False)
    assert done.returncode != 0 and b"have different weights, and the order of factors does not count" in done.stderr
    rows.write_text("1 |a q r\n-1 |a q s\n" * 30)
    expected = train_vw(vowpalwabbit, f"{option} --invert_hash {text}", rows)
    np.testing.assert_allclose(predictions_of(VWModel(text), rows), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("written", ["--invert_hash", "--readable_model"])
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("| a^b", "'a^b': has a caret and no namespace, so it looks like a feature of a namespace; rename it"),
        ("|d e |a^b c", "'a^b': is a namespace with a caret, which should end it; rename it"),
        ("|a b^c | d", ""),
        ("|a b\u0085c d\u2028:0.5", ""),
    ],
)
def test_carets_and_breaks_in_names(vowpalwabbit, tmp_path, line, words, written):
    """Vowpal Wabbit tells the feature a^b apart from b of the namespace a."""
    rows, text = tmp_path / "rows.vw", tmp_path / "vw.txt"
    rows.write_text(f"1 {line}\n-1 |a x\n" * 20, encoding="utf-8")
    expected = train_vw(vowpalwabbit, f"{written} {text}", rows)
    done = giftrl("predict", text, rows, check=False)
    if words:
        assert done.returncode != 0 and words.encode() in done.stderr
    else:
        np.testing.assert_allclose([float(line) for line in done.stdout.split()], expected, rtol=1e-5, atol=1e-5)
    if written == "--readable_model":
        done = giftrl("certify", "--weights", text, "--loss", "squared", rows, check=False)
        assert (done.returncode != 0) == bool(words) and words.encode() in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bits:18\noptions:\n:x\n7:1\n", "ends before its weights begin"),
        ("bits:many\noptions:\n:0\n7:1\n", "has 'many' where a number should be, after 'bits'"),
        ("bits:0\noptions:\n:0\n7:1\n", "has hashes of 0 bits"),
        ("Min label:low\noptions:\n:0\n7:1\n", "has 'low' where a number should be, after 'Min label'"),
        ("options:\n:0\n7:nan\n", "is not finite"),
        ("options:\n:0\na:7:x\n", "is no number"),
        ("options:\n:0\n", "holds no weights"),
        ("options: --new thing\n:0\n7:1\n", "is a model with the option --new thing, which is not known here"),
    ],
)
def test_damaged_texts(tmp_path, text, words):
    (tmp_path / "vw.txt").write_text(f"Version 9.11.9\n{text}")
    with pytest.raises(InvalidInput, match=words):
        VWModel(tmp_path / "vw.txt")


def test_line_breaks_of_unicode_are_part_of_names():
    text = "Version 9\r\nbits:18\r\noptions:\r\n:0\r\na^b\u0085c:7:0.5\r\na^q\u2028r:8:1\r\n"
    for each in (text, text.replace("\r", "")):
        assert read_vw("m.txt", each).names == ["a^b\u0085c", "a^q\u2028r"]


def test_another_file_is_refused(tmp_path):
    (tmp_path / "a").write_text("a model\n")
    with pytest.raises(
        InvalidInput, match="is not the text of a model of Vowpal Wabbit; write it with vw --readable_mo"
    ):
        VWModel(tmp_path / "a")


def trained(rows, **settings):
    model = LinearModel(Settings(**{"loss": "logistic", **settings}))
    Trainer(model, [rows]).run()
    return model


def scores_of(model, rows):
    from giftrl.streams.reader import Reader

    model.features.freeze()
    reader = Reader(rows, model.features, constant=model.settings.constant)
    return np.concatenate([model.scores(batch) for batch in reader])


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize(
    "settings", [{"bits": 18}, {"bits": None}, {"bits": 18, "beta": 1.0, "constant": False}], ids=str
)
def test_vowpal_wabbit_predicts_with_our_weights(vowpalwabbit, tmp_path, settings, numbers):
    """Our weights, set in a model of Vowpal Wabbit at the hashes of the file, give our scores."""
    rows = write_rows(tmp_path / "rows.vw", numbers=numbers)
    model = trained(rows, **settings)
    (tmp_path / "m.txt").write_text(readable_model(model))
    ours = scores_of(model, rows)

    imported = VWModel(tmp_path / "m.txt")  # by our own reader
    np.testing.assert_allclose(predictions_of(imported, rows), ours, rtol=1e-6, atol=1e-6)
    size = imported._bits
    assert size == (settings["bits"] or 18)
    constant = "" if model.settings.constant else "--noconstant"
    theirs = vowpalwabbit.Workspace(f"-b {size} --quiet --loss_function logistic {constant}")
    for number, weight in imported._hashed.items():
        theirs.set_weight(number, 0, weight)
    lines = rows.read_text().splitlines()
    predicted = [theirs.predict(line[line.index("|") :]) for line in lines]
    theirs.finish()
    np.testing.assert_allclose(predicted, np.clip(ours, -50, 50), rtol=1e-5, atol=1e-5)


def test_the_command_writes_it(tmp_path):
    rows = write_rows(tmp_path / "rows.vw", 40)
    giftrl("train", rows, "--bits", 18, "--model", tmp_path / "m.giftrl")
    giftrl("inspect", tmp_path / "m.giftrl", "--readable-model", tmp_path / "m.txt")
    model, _ = LinearModel.load(tmp_path / "m.giftrl")
    assert (tmp_path / "m.txt").read_text() == readable_model(model)


def test_the_command_says_that_hashed_names_may_share_a_weight(tmp_path):
    """The estimate of shared coordinates is 0 here, though two of three names share one."""
    rows, model, text = tmp_path / "rows.vw", tmp_path / "m.giftrl", tmp_path / "m.txt"
    rows.write_text("1 |u n898\n-1 |u n126\n1 |u other\n" * 20)

    def written(*options):
        giftrl("train", rows, "--model", model, *options)
        done = giftrl("inspect", model, "--readable-model", text)
        weights, hashes = read_weights(text).hashed, vw_hashes(["u^n898", "u^n126", "u^other"], 18)
        return b"a weight that names share is written under that name alone" in done.stderr, [
            each in weights for each in hashes
        ]

    assert written() == (True, [True, False, True])
    assert written("--dictionary") == (False, [True, True, True])
    rows = tmp_path / "rows.svm"
    rows.write_text("1 1:1\n-1 2:1\n" * 20)
    assert not written()[0]  # numbers of LIBSVM text have coordinates of their own
    model, _ = LinearModel.load(model)
    np.testing.assert_allclose(predictions_of(VWModel(text), rows), scores_of(model, rows), rtol=1e-6)


def test_clipped_predictions(tmp_path):
    """The range of labels in the text is the one that predictions keep to."""
    rows = write_rows(tmp_path / "rows.vw", labels=(0.0, 3.0))
    model = trained(rows, loss="squared", bits=None)
    text = readable_model(model)
    low, high = (float(each[0]) for each in model.freeze()[2:4])
    low, high = max(low, -np.finfo(np.float32).max), min(high, np.finfo(np.float32).max)
    assert f"Min label:{low:.9g}\nMax label:{high:.9g}\n" in text
    (tmp_path / "m.txt").write_text(text)
    np.testing.assert_allclose(predictions_of(VWModel(tmp_path / "m.txt"), rows), scores_of(model, rows), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"normalize": "unit"}, r"divides rows by their norms \(normalize=unit\)"),
        ({"interactions": (("a", "w"),)}, "has products of features"),
        ({"ngrams": ((":", 2),)}, "has n-grams"),
        ({"loss": "poisson"}, r"predicts exp of the score \(the Poisson loss\)"),
        ({"loss": "softmax", "label_values": (0, 1)}, "has 2 scores"),
        ({"bits": 4}, "names share a coordinate with another one"),
    ],
    ids=str,
)
def test_models_that_are_refused(tmp_path, settings, words):
    rows = write_rows(tmp_path / "rows.vw", 60, labels=(0, 1) if "loss" in settings else (-1, 1))
    with pytest.raises(Incompatible, match=words):
        readable_model(trained(rows, **settings))


def test_names_that_are_refused(tmp_path):
    (tmp_path / "a.vw").write_text(f"1 |a {'long' * 100}\n-1 |a b\n" * 10)
    with pytest.raises(Incompatible, match="is not known in full"):
        readable_model(trained(tmp_path / "a.vw", bits=18))
    assert readable_model(trained(tmp_path / "a.vw", bits=None))
    (tmp_path / "a.csv").write_text("city,label\n" + "New York,1\nRome,-1\n" * 10)
    with pytest.raises(InvalidInput, match="'city=New York': has a blank, a colon or a bar"):
        readable_model(trained(tmp_path / "a.csv", bits=None))
    rows = write_rows(tmp_path / "rows.vw")
    with pytest.raises(
        InvalidInput, match=r"bits=5: give '.*' and '.*' the same hash in Vowpal Wabbit; give more bits"
    ):
        readable_model(trained(rows, bits=None), 5)


def test_hashes_are_those_of_vowpal_wabbit(vowpalwabbit):
    names = ["a^x", "color^red", "17", "words^17", "ünï^cödé", "plain"]
    theirs = vowpalwabbit.Workspace("-b 20 --quiet")
    for name, ours in zip(names, vw_hashes(names, 20), strict=True):
        space, caret, feature = name.rpartition("^")
        seed = theirs.hash_space(space) if caret else 0
        assert theirs.hash_feature(feature, seed) & ((1 << 20) - 1) == ours, name
    theirs.finish()


def test_products_of_a_readable_model_are_not_certified(vowpalwabbit, tmp_path):
    rows = write_rows(tmp_path / "rows.vw", 30)
    train_vw(vowpalwabbit, f"-q aw --loss_function logistic --readable_model {tmp_path}/vw.txt", rows)
    done = giftrl("certify", "--weights", tmp_path / "vw.txt", "--loss", "logistic", rows, "-q", "aw", check=False)
    assert done.returncode != 0 and b"products of features are not found; write it with vw --invert_hash" in done.stderr


@pytest.mark.parametrize(("before", "index"), [("", 262144), ("", 999999999), ("a^x:", 262144)])
def test_an_index_beyond_the_bits_is_refused_by_its_line(before, index, tmp_path):
    text = tmp_path / "vw.txt"
    start = f"Version 9.11.9\nbits:18\noptions:\n:0\n{before}"
    text.write_text(f"{start}262143:1\n")
    VWModel(text)
    text.write_text(f"{start}{index}:1\n")
    with pytest.raises(InvalidInput, match=rf"vw.txt:5: the weight {index} is beyond the 18 bits of the model"):
        VWModel(text)
