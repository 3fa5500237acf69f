"""``giftrl train``, ``predict`` and ``inspect`` with a score for each class."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from giftrl.errors import InvalidInput
from giftrl.kernels.multiclass_learner import MulticlassLearner
from giftrl.mixtures.mixture import MulticlassMixture
from giftrl.training import LinearModel, Settings
from tests.commands import giftrl

pytestmark = pytest.mark.plain

LABELS = (4.0, 1.0, 7.0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file of three classes, its rows with the constant in front, and the number of each row's class."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 300)
    x = np.round(rng.normal(size=(300, 3)) + 2.0 * np.eye(3)[codes], 4)
    path = tmp_path_factory.mktemp("classes") / "rows.svm"
    path.write_text(
        "".join(
            f"{LABELS[code]:g} {' '.join(f'{j + 1}:{v:g}' for j, v in enumerate(row))}\n"
            for code, row in zip(codes, x, strict=True)
        )
    )
    return path, sp.csr_array(np.column_stack([np.ones(300), x])), codes


def run(*args):
    return giftrl(*args).stdout.decode()


@pytest.fixture(scope="module", params=["auto", "1.0"])
def trained(request, data, tmp_path_factory):
    """A trained model, its summary, and the same from the learner itself."""
    path, x, codes = data
    model = tmp_path_factory.mktemp("model") / "m.giftrl"
    summary = run(
        "train", path, "--loss", "softmax", "--labels", "4,1,7", "--beta", request.param, "--model", model, "--json",
        "--dictionary", "--dtype", "float64",
    )  # fmt: skip
    auto = request.param == "auto"
    learner = (MulticlassMixture if auto else MulticlassLearner)(
        4, 3, "softmax", dtype="float64", compiled=False, **({"constant": 0} if auto else {})
    )
    learner.learn(x, codes)
    return model, json.loads(summary), learner


def test_the_model_is_that_of_the_learner(trained, data):
    model, summary, learner = trained
    path, x, codes = data
    assert summary["average_loss"] == pytest.approx(learner.certificate.loss_sum / 300, rel=1e-9)
    assert summary["certificate"]["bound_sum"] == pytest.approx(learner.certificate.bound_sum, rel=1e-9)
    assert summary["settings"]["label_values"] == list(LABELS)
    found, _ = LinearModel.load(model)
    assert_allclose(found.learner.x, learner.x, rtol=1e-8, atol=1e-10)
    scores = x @ learner.x
    expected = np.array(LABELS)[scores.argmax(axis=1)]
    lines = run("predict", model, path).splitlines()
    assert np.array_equal([float(line) for line in lines], expected)
    assert np.mean(expected == np.array(LABELS)[codes]) > 0.8
    names, *shown = run("predict", model, path, "--proba").splitlines()
    assert names.split("\t") == ["4", "1", "7"]
    shares = np.array([[float(each) for each in line.split()] for line in shown])
    assert shares.shape == (300, 3)
    parts = np.exp(scores - scores.max(axis=1, keepdims=True))
    assert_allclose(shares, parts / parts.sum(axis=1, keepdims=True), rtol=1e-7, atol=1e-9)


def test_inspect_names_the_class_of_a_weight(trained):
    model, _, learner = trained
    found = json.loads(run("inspect", model, "--json", "--top", "12"))
    assert found["norms"]["l2"] == pytest.approx(np.linalg.norm(learner.x))
    assert len(found["weights"]) == 12 and ("experts" in found) == hasattr(learner, "experts")
    weights = {each["feature"]: each["weight"] for each in found["weights"]}
    for name, j in (("(constant)", 0), ("1", 1), ("3", 3)):
        for k, label in enumerate(LABELS):
            assert weights[f"{name} (class {label:g})"] == pytest.approx(learner.x[j, k])
    assert "class 7" in run("inspect", model)


@pytest.mark.parametrize("given", [None, (1.0,), (1.0, 2.0, 1.0)])
def test_all_classes_are_named_once(given):
    with pytest.raises(InvalidInput, match="label_values.*labels of all classes"):
        Settings(loss="softmax", label_values=given)


def test_labels_of_the_command_line(data):
    path, _, _ = data
    done = giftrl("train", path, "--loss", "softmax", "--labels", "1..x", check=False)
    assert done.returncode == 2 and "write --labels 0,1" in done.stderr.decode()
    done = giftrl("train", path, "--loss", "softmax", "--labels", "1..3", "--quiet", check=False)
    assert done.returncode == 1 and "expected 1, 2 or 3" in done.stderr.decode()
