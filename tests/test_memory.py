"""Memory is counted before it is asked for: that of a learner, and that of what is made of it."""

import tracemalloc

import numpy as np
import pytest

from giftrl import system
from giftrl.config import Recipe, make
from giftrl.errors import InvalidInput

pytestmark = pytest.mark.plain

KINDS = [
    {"beta": 1.0, "regularizer": name, "dtype": dtype}
    for name in ("squared_norm", "adagrad", "elastic_net", "centred", "curvature")
    for dtype in ("float32", "float64")
] + [{}, {"preset": "light"}, {"loss": "softmax"}, {"loss": "softmax", "beta": 1.0, "regularizer": "curvature"}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_was_counted_is_enough(kind, monkeypatch):
    """The weights, their norm, the certificate, and whether all of it is finite."""
    dimension = 50_000
    recipe = Recipe(**({"loss": "squared"} | kind))
    small = make(recipe, 8, 4)
    assert small.sound and small.x.size == small.certificate.theta.size  # compiled now, which takes memory too
    monkeypatch.setattr(system, "physical_memory", lambda: 0)
    with pytest.raises(InvalidInput, match="GiB"):
        make(recipe, dimension, 4)
    most = 1
    while True:  # the least memory with which the learner is made
        monkeypatch.setattr(system, "physical_memory", lambda most=most: most)
        try:
            learner = make(recipe, dimension, 4)
            break
        except InvalidInput:
            most = int(most * 1.02) + 1
    del learner
    tracemalloc.start()
    learner = make(recipe, dimension, 4)
    made = np.linalg.norm(learner.x) + np.linalg.norm(learner.certificate.theta) + learner.sound
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made == 1.0 and peak <= 1.05 * most + 1e5


def test_thirty_bits_of_curvature_are_refused_with_the_number(tmp_path, monkeypatch):
    from tests.commands import giftrl, write_rows

    monkeypatch.setattr(system, "physical_memory", lambda: 20 << 30)
    rows = write_rows(tmp_path / "rows.svm", n=10)
    done = giftrl("train", rows, "--beta", "1", "--regularizer", "curvature", "--bits", "30", check=False)
    assert done.returncode == 1 and b"needs 36 GiB of memory, and this machine has 20 GiB" in done.stderr, done.stderr
