"""Small cases for the benchmark of quality, and marks for the rivals that may not be installed."""

import importlib.util

import numpy as np
import pytest
from scipy import sparse

from benchmarks.quality.data import DATASETS, LOSSES, SCALINGS, Case, Source, Task

needs = {
    key: pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")
    for key, module in (("vw", "vowpalwabbit"), ("sklearn", "sklearn"), ("river", "river"))
}
#: Every task.
TASKS = [
    Task(source.name, loss, scaling)
    for source in DATASETS.values()
    for loss in LOSSES[source.kind]
    for scaling in (SCALINGS if isinstance(source, Source) else ("raw",))
]


def tiny(label_kind: str, rows: int = 300, features: int = 6, seed: int = 0) -> Case:
    """Rows whose labels a linear model can learn."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, features)) * (rng.random((rows, features)) < 0.7)
    score = x @ np.linspace(-2.0, 2.0, features) + 0.3 * rng.standard_normal(rows)
    if label_kind == "multiclass":
        return Case("tiny", label_kind, "raw", "0", sparse.csr_matrix(x), np.digitize(score, [-1.0, 1.0]) * 1.0, 3)
    y = 5.0 + score if label_kind == "regression" else np.where(score > 0.0, 1.0, -1.0)
    return Case("tiny", label_kind, "raw", "0", sparse.csr_matrix(x), y)
