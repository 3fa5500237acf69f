"""Compiled merges against plain ones: vectors and threads give what the loops in plain Python give."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.mixture import MulticlassMixture
from giftrl.workers.threads import Team

FEATURES = 40


def stream(n: int) -> tuple[Any, Any]:
    """Rows of three dense features, many rare ones whose scales grow on the way, and a constant; scores."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, FEATURES)) * np.where(rng.random((n, FEATURES)) < 0.1, 1.0, 0.0)
    x[:, 3:] *= np.exp(np.linspace(0.0, 3.0, n))[:, None]
    x[:, :3] = rng.normal(size=(n, 3)) + 1.0
    x[:, -1] = 1.0
    return sparse.csr_array(x), x @ rng.normal(size=FEATURES) / 3.0 + rng.normal(size=n)


def learner_of(kind: str, compiled: bool) -> Any:
    options: dict[str, Any] = {"constant": FEATURES - 1, "compiled": compiled}
    if kind == "softmax":
        return MulticlassMixture(FEATURES, 3, "softmax", **options)
    return MixtureLearner(FEATURES, kind, **options)


@pytest.mark.verify
@pytest.mark.parametrize("workers", [3])
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_a_compiled_team_learns_what_a_plain_one_learns(kind: str, workers: int) -> None:
    x, score = stream(900)
    y: Any = np.digitize(score, [0.0, 1.5]) if kind == "softmax" else np.where(score > 0.5, 1.0, -1.0)
    found = []
    for compiled in (False, True):
        learner = learner_of(kind, compiled)
        with Team(learner, workers, first=100) as team:
            made = team.learn(x, y)
            team.finish()
            found.append((made, team.steps, learner.predict(x)))
        assert team.times.merges > 5
    for plain, own in zip(*found, strict=True):
        np.testing.assert_allclose(own, plain, rtol=1e-3, atol=1e-3)
