"""The loss of docs/performance.md, taken from the page and run: as in plain Python, and kept on disk."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "performance.md").read_text()
FILE, USE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

CHECK = """
import numpy as np
from giftrl import Learner, regularizers, updates
from giftrl.kernels import LinearLearner
from my_losses import Expectile

rng = np.random.default_rng(0)
x, y = rng.normal(size=(200, 5)), rng.normal(size=200)
runs = [LinearLearner(5, Expectile(0.9), "curvature", dtype="float64", compiled=c) for c in (True, False)]
np.testing.assert_allclose(runs[0].learn(x, y), runs[1].learn(x, y), atol=1e-12)
reader = Learner(5, regularizers.Curvature(), update=updates.Proximal())
for s, label in zip(x, y):
    reader.observe(Expectile(0.9), s, label)
np.testing.assert_allclose(runs[0].x, reader.x, atol=1e-11)
print("same")
"""


@pytest.mark.verify
def test_the_documented_loss_runs_compiled_and_as_the_learner_does(tmp_path):
    (tmp_path / "my_losses.py").write_text(FILE)
    done = subprocess.run(
        [sys.executable, "-c", CHECK], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "same\n", done.stderr


@pytest.mark.plain
def test_the_documented_use_runs(tmp_path):
    (tmp_path / "my_losses.py").write_text(FILE)
    script = "import numpy as np, scipy.sparse as sp\nx = sp.csr_array((3, 2**18)); y = np.ones(3)\n" + USE
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
