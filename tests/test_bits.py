"""Loops from object files compute what Numba's own compiler in memory computes, bit for bit, for the same processor."""

import os
import subprocess
import sys

import pytest

from giftrl import losses
from giftrl.compiled.object_files import CPU_LEVEL, target

SCRIPT = """
import json
import sys
import numpy as np
from scipy.sparse import csr_array

from giftrl.compiled import compiler
from giftrl.kernels import LinearLearner, MulticlassLearner
from giftrl.losses import MULTICLASS
from giftrl.mixtures import MixtureLearner, MulticlassMixture
from giftrl.streams import Hashing, Position
from giftrl.streams.text.json import JsonLines
from giftrl.streams.text.libsvm import LibsvmText
from giftrl.streams.text.vw import VwText

what, loss, kind = sys.argv[1:4]
rng = np.random.default_rng(0)
x = rng.normal(size=(60, 7)) * (rng.random((60, 7)) < 0.6)
rows = csr_array(x) if kind == "csr" else x
low = 0.0 if loss == "poisson" else -1.0
y = rng.integers(0, 3, 60) if loss in MULTICLASS else np.where(rng.random(60) < 0.5, 1.0, low)


def mixture():
    many = loss in MULTICLASS
    learner = MulticlassMixture(7, 3, loss, constant=6) if many else MixtureLearner(7, loss, constant=6)
    return [learner.learn(rows, y), learner.predict(rows), learner.x, learner.certificate.loss_sum]


def linear():
    if loss in MULTICLASS:
        learner = MulticlassLearner(7, 3, loss)
        return [learner.learn(rows, y), learner.x]
    learner = LinearLearner(7, loss, "curvature")
    return [learner.learn(rows, y), learner.predict(rows), learner.x]


def team():
    from giftrl.compiled.rows import as_rows
    from giftrl.workers.threads import Team

    many = loss in MULTICLASS
    learner = MulticlassMixture(7, 3, loss, constant=6) if many else MixtureLearner(7, loss, constant=6)
    together = Team(learner, 2, first=20)
    made = together.learn_rows(as_rows(rows, 7)[0], y, np.empty(0))
    together.finish()
    assert together.times.merges == 1
    return [made, learner.x, together.steps]


def text():
    lines = [[f"{j + 1}:{v:.6g}" for j, v in enumerate(row) if v] for row in x]
    if loss == "libsvm":
        parser, data = LibsvmText(Hashing(8)), "".join(f"1 {' '.join(line)}\\n" for line in lines)
    elif loss == "json":
        parser = JsonLines(Hashing(8))
        data = "".join(json.dumps({"label": 1} | {f"x{j}": v for j, v in enumerate(row)}) + "\\n" for row in x.tolist())
    else:
        parser, data = VwText(Hashing(8)), "".join(f"1 |a {' '.join(line)}\\n" for line in lines)
    batch = parser.parse(data.encode(), "a", Position())
    return [batch.data, batch.indices, batch.indptr, batch.labels]


def run():
    return [np.asarray(each).tobytes() for each in globals()[what]()]


compiled = run()
# The same again, but compiled by Numba in memory.
kernels = []
def with_numba(self, args):
    kernels.append(self.loop.__name__)
    return self._kernels.setdefault(compiler.kind_of(args), compiler.NumbaLoop(self.loop, self.counted))
compiler.CompiledLoop._kernel = with_numba
compiler._compiled_loop.cache_clear()
assert run() == compiled
assert kernels, "no loop was called"
print(*kernels)
"""

CASES = [
    *(("mixture", loss, kind) for loss in losses.EVERY for kind in ("dense", "csr")),
    *(("linear", loss, kind) for loss in losses.EVERY for kind in ("dense", "csr")),
    *(("team", loss, "csr") for loss in losses.EVERY),
    *(("text", format_, "") for format_ in ("json", "libsvm", "vw")),
]
#: All take a quarter of an hour, in which Numba compiles every loop once more: ``make bits`` runs them, and ``make
#: verify`` every sixth.
RUN = CASES if os.environ.get("GIFTRL_BITS") == "every" else CASES[::6]


@pytest.mark.verify
@pytest.mark.parametrize(("what", "which", "kind"), RUN)
def test_object_files_have_the_bits_of_numba(what, which, kind):
    environment = dict(os.environ)
    if target()[0] == CPU_LEVEL:  # Numba compiles for the very processor unless it is told otherwise
        name, features = target()
        environment |= {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    command = [sys.executable, "-c", SCRIPT, what, which, kind]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
