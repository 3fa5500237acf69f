"""``giftrl certify --weights FILE DATA``: the weights of scikit-learn, of Vowpal Wabbit and of text files."""

import json

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from giftrl.errors import InvalidInput
from giftrl.training.external_weights import read_vw, vw_hashes
from tests.certified import (
    VW_NAMES,
    certified,
    logistic,
    loss_of,
    noisy,
    numbers,
    refused,
    write_csv,
    write_svm,
    write_vw,
)
from tests.commands import giftrl

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def fit():
    return logistic(*noisy())


@pytest.fixture(scope="module")
def folder(tmp_path_factory, fit):
    folder = tmp_path_factory.mktemp("weights")
    x, y = noisy()
    write_svm(folder / "one.svm", x, y)
    write_svm(folder / "zero.vw", x, 2 * y - 1, zero_based=True)
    text = (folder / "zero.vw").read_text()
    (folder / "zero.vw").write_text("\n".join(line.replace(" ", " | ", 1) for line in text.splitlines()) + "\n")
    write_csv(folder / "rows.csv", x, y)
    write_vw(folder / "rows.vw", x, 2 * y - 1)
    np.savez(folder / "sk.npz", coef=fit.coef_, intercept=fit.intercept_, classes=fit.classes_)
    return folder


@pytest.mark.parametrize("rows", ["one.svm", "zero.vw", "rows.csv"])
def test_an_estimator_of_scikit_learn(folder, fit, rows):
    best = loss_of(fit, *noisy())
    labels = ("--labels=-1,1",) if rows == "zero.vw" else ()
    found = certified("--weights", folder / "sk.npz", "--loss", "logistic", *labels, folder / rows)
    assert found["average_loss"] == pytest.approx(best, rel=1e-12)
    assert best * (1.0 - 1e-4) <= found["lower_bound"] <= best * (1.0 + 1e-9)
    assert found["gap"] < 1e-4 and found["notes"] == []


def test_first_index_names_and_labels(folder, fit, tmp_path):
    best = loss_of(fit, *noisy())
    x, y = noisy()
    np.savez(tmp_path / "w.npz", coef_=fit.coef_[0], intercept_=fit.intercept_[0])
    call = ("--weights", tmp_path / "w.npz", "--loss", "logistic", "--labels", "0,1")
    assert certified(*call, folder / "one.svm", "--first-index", 1)["average_loss"] == pytest.approx(best, rel=1e-12)
    zero = certified(*call[:4], folder / "zero.vw", "--first-index", 0)
    assert zero["average_loss"] == pytest.approx(best, rel=1e-12)
    assert "the data has the feature 6; see --first-index" in refused(*call, folder / "one.svm", "--first-index", 0)
    np.save(tmp_path / "w.npy", fit.coef_)
    with_constant = certified("--weights", tmp_path / "w.npy", *call[2:], folder / "one.svm")
    without = certified("--weights", tmp_path / "w.npy", *call[2:], folder / "one.svm", "--no-constant")
    p = np.where(y == 1, 1.0, -1.0) * (x @ fit.coef_[0])
    assert without["average_loss"] == with_constant["average_loss"] == pytest.approx(np.logaddexp(0.0, -p).mean())
    assert without["lower_bound"] >= with_constant["lower_bound"] * (1 - 1e-6)
    # Names in another order, as a data frame leaves them.
    order = [5, 0, 3, 1, 2, 4]
    names = np.array([f"x{j}" for j in order])
    np.savez(tmp_path / "n.npz", coef=fit.coef_[:, order], intercept=fit.intercept_, feature_names_in_=names)
    found = certified("--weights", tmp_path / "n.npz", *call[2:], folder / "rows.csv")
    assert found["average_loss"] == pytest.approx(best, rel=1e-12)


def test_names_in_text_and_json(folder, fit, tmp_path):
    best, w, b = loss_of(fit, *noisy()), fit.coef_[0], fit.intercept_[0]
    call = ("--loss", "logistic", "--labels", "0,1")
    (tmp_path / "w.txt").write_text("# by number\n" + "".join(f"{j + 1} {v!r}\n" for j, v in enumerate(w.tolist())))
    with (tmp_path / "w.txt").open("a") as file:
        file.write(f"\nintercept\t{float(b)!r}\n")
    assert certified("--weights", tmp_path / "w.txt", *call, folder / "one.svm")["gap"] < 1e-4
    lines = [f"{j} {v!r}" for j, v in enumerate(w.tolist())]
    (tmp_path / "from0.txt").write_text("\n".join([*lines, f"intercept {float(b)!r}"]))
    found = certified("--weights", tmp_path / "from0.txt", *call, folder / "one.svm")
    assert found["gap"] < 1e-4 and "count from 0 and those of the data from 1: 1 was added" in found["notes"][0]
    named = {f"x{j}": v for j, v in enumerate(w.tolist())} | {"(constant)": b}
    (tmp_path / "w.json").write_text(json.dumps(named))
    found = certified("--weights", tmp_path / "w.json", *call, folder / "rows.csv")
    assert found["average_loss"] == pytest.approx(best, rel=1e-12)
    (tmp_path / "vw.json").write_text(json.dumps(dict(zip(VW_NAMES, w.tolist(), strict=True)) | {"intercept": b}))
    found = certified("--weights", tmp_path / "vw.json", "--loss", "logistic", folder / "rows.vw")
    assert found["average_loss"] == pytest.approx(best, rel=1e-12)
    # A smaller ball does not have the model.
    said = giftrl(
        "certify", "--weights", tmp_path / "w.json", *call, folder / "rows.csv", "--scale", 0.1
    ).stdout.decode()
    assert "up to 0.1 times this one's" in said
    assert said.endswith("This model is better than every one of that size.\n")


def test_several_classes_of_scikit_learn(tmp_path):
    x, y = noisy(200, 4, classes=3)
    fit = logistic(x, y)
    rows = write_svm(tmp_path / "rows.svm", x, y)
    np.savez(tmp_path / "w.npz", coef=fit.coef_, intercept=fit.intercept_, classes=fit.classes_)
    found = certified("--weights", tmp_path / "w.npz", "--loss", "softmax", rows, "--time-limit", 30)
    assert found["average_loss"] == pytest.approx(loss_of(fit, x, y), rel=1e-12)
    assert found["gap"] < 1e-3
    said = refused("--weights", tmp_path / "w.npz", "--loss", "hinge", "--labels", "0,1", rows)
    assert "has weights of 3 scores, and hinge has 1 here; use --loss multiclass_hinge or softmax" in said
    assert "must be" in refused("--weights", tmp_path / "w.npz", "--loss", "softmax", "--labels", "0", rows)
    lines = [f"{j + 1} " + " ".join(map(repr, row)) for j, row in enumerate(fit.coef_.T.tolist())]
    (tmp_path / "w.txt").write_text("\n".join([*lines, "intercept " + " ".join(map(repr, fit.intercept_.tolist()))]))
    again = certified("--weights", tmp_path / "w.txt", "--loss", "softmax", "--labels", "0,1,2", rows)
    assert again["average_loss"] == pytest.approx(found["average_loss"], rel=1e-12)


def test_real_labels_and_categories(tmp_path):
    x, y = numbers()
    fit = Ridge(alpha=30.0).fit(x, y)
    rows = write_csv(tmp_path / "rows.csv", x, y)
    np.savez(tmp_path / "w.npz", coef=fit.coef_, intercept=fit.intercept_)
    found = certified("--weights", tmp_path / "w.npz", "--loss", "squared", rows)
    assert found["average_loss"] == pytest.approx(0.5 * np.mean((fit.predict(x) - y) ** 2), rel=1e-12)
    assert found["lower_bound"] <= found["average_loss"]
    tilted = certified("--weights", tmp_path / "w.npz", "--loss", "quantile", "--set", "tau=0.9", rows)
    residual = y - fit.predict(x)
    assert tilted["average_loss"] == pytest.approx(np.maximum(0.9 * residual, -0.1 * residual).mean(), rel=1e-9)
    rows.write_text("city,age,y\nRome,3,1\nOslo,4,2\nRome,5,7\n")
    said = refused("--weights", tmp_path / "w.npz", "--loss", "squared", rows)
    assert "the column 'city' is not a column of numbers; give names, as in {\"city=red\": 0.5}" in said
    (tmp_path / "w.json").write_text('{"city=Rome": 2, "age": 0.5}')
    found = certified("--weights", tmp_path / "w.json", "--loss", "squared", rows)
    assert found["average_loss"] == pytest.approx(0.5 * np.mean(np.square([3.5 - 1, 2 - 2, 4.5 - 7])))
    assert found["notes"] == ["1 feature has no weight, which counts as 0: 'city=Oslo'"]


def vw(arguments, rows):
    """Run Vowpal Wabbit on a file."""
    workspace = pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed").Workspace
    model = workspace(f"{arguments} --quiet")
    for line in rows.read_text().splitlines():
        example = model.example(line)
        model.learn(example)
        model.finish_example(example)
    # What the final model predicts.
    predictions = [model.predict(line[line.index("|") :]) for line in rows.read_text().splitlines()]
    model.finish()
    return np.array(predictions)


@pytest.mark.parametrize("written", ["--invert_hash", "--readable_model"])
def test_vowpal_wabbit(folder, tmp_path, written):
    _, y = noisy()
    p = vw(f"--loss_function logistic {written} {tmp_path}/vw.txt", folder / "rows.vw")
    loss = np.logaddexp(0.0, -(2 * y - 1) * p).mean()
    found = certified("--weights", tmp_path / "vw.txt", "--loss", "logistic", folder / "rows.vw")
    assert found["average_loss"] == pytest.approx(loss, rel=1e-4)
    assert 0.0 < found["lower_bound"] <= found["average_loss"] and found["notes"] == []


def test_vowpal_wabbit_with_products_and_classes(folder, tmp_path):
    x, y = noisy(classes=3)
    rows = write_vw(tmp_path / "rows.vw", x, y + 1)
    vw(f"--oaa 3 --loss_function logistic -q uz --invert_hash {tmp_path}/vw.txt", rows)
    call = ("--weights", tmp_path / "vw.txt", "--loss", "softmax", rows)
    assert "is a product of features, and the data is read without products; add -q" in refused(*call)
    found = certified(*call, "-q", "uz", "--time-limit", 60)
    assert found["features"] == 10 and found["notes"] == []
    assert 0.0 < found["lower_bound"] <= found["average_loss"]
    vw(f"--oaa 3 --readable_model {tmp_path}/bare.txt", rows)
    said = refused("--weights", tmp_path / "bare.txt", "--loss", "softmax", "--labels", "1..3", rows)
    assert "has several classes and no names; write it with vw --invert_hash" in said


def test_features_that_do_not_match(folder, tmp_path):
    call = ("--loss", "logistic", "--labels", "0,1", folder / "one.svm")
    (tmp_path / "w").write_text("1 0.5\n2 0.25\nage 3\nheight 2\n")
    notes = certified("--weights", tmp_path / "w", *call)["notes"]
    assert notes == [
        f"2 of 4 weights are of features that no row has, the first one: 'age' ({tmp_path}/w:3)",
        "4 features have no weight, which counts as 0, the first one: '3'",
    ]
    said = giftrl("certify", "--weights", tmp_path / "w", *call).stderr.decode()
    assert f"giftrl: note: {notes[0]}" in said
    (tmp_path / "w").write_text("age 3\n")
    said = refused("--weights", tmp_path / "w", *call)
    assert "has no weight for any feature of the data; its names must be those of the data, such as '1', " in said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1 0.5\n2 nan\n", ":2: the weight of '2' is not finite"),
        ("1 0.5\n2 x\n", ":2: the weight of '2' is no number"),
        ("1 0.5\n1 0.5\n", ":2: '1' has a weight already"),
        ("1 0.5\n2 1 2\n", ":2: '2' has 2 weights, and the first name has 1"),
        ("1\n", ":1: there is no weight in '1'"),
        ("", "holds no weights"),
        ("{", "is no JSON"),
        ("[1, 2]", "must be a JSON object"),
        ('{"1": NaN}', "the weight of '1' is not finite"),
        ('{"1": {"2": 3}}', "the weight of '1' is no number"),
        ('{"1": 1, "1": 2}', "'1' has a weight already"),
        (b"\xff\xfe\x00", "is neither text nor of NumPy"),
        (b"PK\x03\x04 and no archive", "cannot be read"),
        ("Version 9.11\noptions: --nn 3\n:0\n1:1:0.5\n", "is a model of --nn, which is not linear"),
        ("Version 9.11\noptions:\n:0\n", "holds no weights"),
        ("Version 9.11\nbits:18\n:x\n7:1\n\n:", "ends before its weights begin"),
        ("Version 9.11\nbits:many\n:0\n7:1\n", "has 'many' where a number should be, after 'bits'"),
        ("Version 9.11\nbits:0\n:0\n7:1\n", "has hashes of 0 bits"),
        ("Version 9.11\n:0\n7:nan\n", ":3: the weight of '7' is not finite"),
        ("Version 9.11\n:0\na:7:x\n", ":3: the weight of 'a' is no number"),
    ],
)
def test_hostile_files(folder, tmp_path, content, words):
    path = tmp_path / "w"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = refused("--weights", path, "--loss", "logistic", "--labels", "0,1", folder / "one.svm")
    assert words in said and str(path) in said


def test_hostile_arrays_and_calls(folder, tmp_path):
    call = ("--loss", "logistic", "--labels", "0,1", folder / "one.svm")

    def saved(**arrays):
        np.savez(tmp_path / "w.npz", **arrays)
        return refused("--weights", tmp_path / "w.npz", *call)

    assert "coef that is not finite" in saved(coef=[np.nan] * 6)
    assert "holds X and no coef" in saved(X=[1.0])
    assert "which is no number" in saved(coef=["a"])
    assert "has 2 intercepts for 1 scores" in saved(coef=np.ones(6), intercept=np.ones(2))
    assert "Python objects are not read" in saved(coef=np.array([{}]))
    assert "has 5 names for 6 weights" in saved(coef=np.ones(6), feature_names_in_=np.array(list("abcde")))
    assert "and the data has the feature 6" in saved(coef=np.ones(5))
    np.save(tmp_path / "w.npy", np.ones(6))
    by_name = refused("--weights", tmp_path / "w.npy", "--loss", "logistic", folder / "rows.vw")
    assert "has no names, and the features of the data have: 'a'" in by_name
    seven = refused("--weights", tmp_path / "w.npy", *call[:4], "--ignore", "x0", folder / "rows.csv")
    assert "has 6 weights, and the data has 5 columns of numbers" in seven
    assert "must be given for weights" in refused("--weights", tmp_path / "w.npy", folder / "one.svm")
    assert "did you mean 'logistic'" in refused(
        "--weights", tmp_path / "w.npy", "--loss", "logistics", folder / "one.svm"
    )
    assert "does not exist" in refused("--weights", tmp_path / "none", *call)
    np.savez(tmp_path / "c.npz", coef=np.ones(6), intercept=1.0)
    said = refused("--weights", tmp_path / "c.npz", *call, "--no-constant")
    assert "has a constant, which the data is read without; leave out --no-constant" in said
    expected = refused("--weights", tmp_path / "w.npy", "--loss", "logistic", "--labels=-1,1", folder / "one.svm")
    assert "the label 0, expected -1 or 1" in expected


def test_line_breaks_of_unicode_are_part_of_names():
    text = "Version 9\r\nbits:18\r\noptions:\r\n:0\r\na^b\u0085c:7:0.5\r\na^q\u2028r:8:1\r\n"
    for each in (text, text.replace("\r", "")):
        assert read_vw("m.txt", each).names == ["a^b\u0085c", "a^q\u2028r"]


@pytest.mark.parametrize(("name", "index"), [("", 262144), ("", 999999999), ("a^x:", 262144)])
def test_an_index_beyond_the_bits_is_refused_by_its_line(name, index):
    start = f"Version 9.11.9\nbits:18\noptions:\n:0\n{name}"
    assert read_vw("vw.txt", f"{start}262143:1\n").values.tolist() == [[1.0]]
    with pytest.raises(InvalidInput, match=rf"vw.txt:5: the weight {index} is beyond the 18 bits of the model"):
        read_vw("vw.txt", f"{start}{index}:1\n")


def test_hashes_are_those_of_vowpal_wabbit():
    workspace = pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed").Workspace
    names = ["a^x", "color^red", "17", "words^17", "ünï^cödé", "plain"]
    theirs = workspace("-b 20 --quiet")
    for name, ours in zip(names, vw_hashes(names, 20), strict=True):
        space, caret, feature = name.rpartition("^")
        seed = theirs.hash_space(space) if caret else 0
        assert theirs.hash_feature(feature, seed) & ((1 << 20) - 1) == ours, name
    theirs.finish()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("| a^b", "'a^b': has a caret and no namespace, so it looks like a feature of a namespace; rename it"),
        ("|d e |a^b c", "'a^b': is a namespace with a caret, which should end it; rename it"),
    ],
)
def test_carets_that_vowpal_wabbit_hashes_in_another_way_are_refused(line, words, tmp_path):
    (tmp_path / "rows.vw").write_text(f"1 {line}\n-1 |a x\n")
    (tmp_path / "vw.txt").write_text("Version 9.11.9\nbits:18\noptions:\n:0\n7:1\n")
    assert words in refused("--weights", tmp_path / "vw.txt", "--loss", "squared", tmp_path / "rows.vw")


def test_products_of_vowpal_wabbit(tmp_path):
    (tmp_path / "rows.vw").write_text("1 |a r q\n-1 |a q r\n")
    call = ("--weights", tmp_path / "vw.txt", "--loss", "squared", tmp_path / "rows.vw", "-q", "aa")
    start = "Version 9.11.9\nbits:18\noptions: --quadratic aa\n:0\n"
    (tmp_path / "vw.txt").write_text(f"{start}a^q*a^r:7:1\na^r*a^q:8:2\n")
    assert "have different weights, and the order of factors does not count" in refused(*call)
    (tmp_path / "vw.txt").write_text(f"{start}7:1\n")
    assert "products of features are not found; write it with vw --invert_hash" in refused(*call)
