"""Data for ``giftrl certify``, and the command with its answer."""

import json

import numpy as np
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression

from tests.commands import giftrl


def certified(*arguments):
    """The answer of the command as JSON, and what it said beside that."""
    done = giftrl("certify", *arguments, "--json")
    return json.loads(done.stdout)


def refused(*arguments, stdin=None):
    """The one line with which the command refuses."""
    done = giftrl("certify", *arguments, check=False, stdin=stdin)
    said = done.stderr.decode()
    assert done.returncode in (1, 2), said
    assert "Traceback" not in said
    return said.strip().splitlines()[-1]


def noisy(n=300, d=6, seed=0, classes=2):
    """Rows on several scales, and labels 0, 1, ... that no linear model explains."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-1, 3, d) + rng.normal(size=d)
    x[rng.random((n, d)) < 0.3] = 0.0
    scores = (x / np.abs(x).max(axis=0)) @ rng.normal(size=(d, classes)) + rng.gumbel(size=(n, classes))
    return x.round(4), scores.argmax(axis=1)


def numbers(n=300, d=6, seed=0):
    """The same rows with real labels."""
    x, _ = noisy(n, d, seed)
    rng = np.random.default_rng(seed + 1)
    return x, (x @ rng.normal(size=d) + 3.0 + rng.standard_t(3, size=n)).round(4)


def write_svm(path, x, y, zero_based=False):
    dump_svmlight_file(x, y, str(path), zero_based=zero_based)
    return path


def write_csv(path, x, y):
    names = [f"x{j}" for j in range(x.shape[1])]
    lines = [",".join([*names, "label"]), *(",".join(map(str, (*row, label))) for row, label in zip(x, y, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_vw(path, x, y):
    """Two namespaces, the default one too, and names that are numbers."""
    parts = "| a:{} 17:{} |user age:{} 8:{} b:{} |z c:{}"
    lines = [f"{label} {parts.format(*row)}" for row, label in zip(x, y, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


VW_NAMES = ("a", "17", "user^age", "user^8", "user^b", "z^c")


def logistic(x, y):
    """The fit of scikit-learn that is as good as without a penalty."""
    scale = np.abs(x).max(axis=0)
    model = LogisticRegression(C=1e9, tol=1e-10, max_iter=10_000).fit(x / scale, y)
    model.coef_ = model.coef_ / scale
    return model


def loss_of(model, x, y):
    """Its average loss, by hand."""
    scores = x @ model.coef_.T + model.intercept_
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return float(losses.mean())
