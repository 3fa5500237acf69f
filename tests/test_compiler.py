"""Compiled loops between processes: kept on disk, never stale, and no trouble where they cannot be kept."""

import importlib
import json
import operator
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from giftrl import losses
from giftrl.compiled import digest as digest_module
from giftrl.compiled.digest import digest
from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.ops.loss import conjugate, prox, slope, value

LOSS = '''
from typing import NamedTuple

from giftrl.compiled.registry import formula
from giftrl.ops.loss import slope, value


class Scaled(NamedTuple):
    """A loss of the user's own: value and slope, nothing else."""

    def value(self, p, y):
        return FACTOR * abs(p - y)

    def slope(self, p, y):
        return FACTOR * ((p > y) - (p < y))


@formula
def both(loss, p, y, out):
    """Three lines compile in a second, where a loop over rows takes ten."""
    out[0] = value(loss, p, y)
    out[1] = slope(loss, p, y)
'''

SCRIPT = """
import json, os, warnings
import numpy as np

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    if "NO_PLACE" in os.environ:  # as if no place that Numba tries could be written to
        from numba.core import caching

        caching.CacheImpl._locator_classes = []
    from giftrl.compiled.door import ready
    from user_loss import Scaled, both

    out = np.zeros(2)
    ready(both)(Scaled(), 3.0, 0.0, out)
print(json.dumps({"out": out.tolist(), "warnings": [str(w.message) for w in caught]}))
"""


def start(folder: Path, cache: Path, **extra: str) -> subprocess.Popen:
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": paths, **extra}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen) -> dict:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "user_loss.py").write_text(LOSS.replace("FACTOR", "1.0"))
    return tmp_path


def test_processes_share_compiled_loops_and_an_edited_loss_is_not_stale(folder):
    cache = folder / "cache"
    # Three at once on an empty cache: one compiles, the others wait for it and load.
    together = [finish(process) for process in [start(folder, cache) for _ in range(3)]]
    assert [run["out"] for run in together] == [[3.0, 1.0]] * 3
    (kept,) = cache.rglob("*.nbc")
    written = kept.stat().st_mtime_ns
    again = finish(start(folder, cache))
    assert again["out"] == [3.0, 1.0]
    assert [path.stat().st_mtime_ns for path in cache.rglob("*.nbc")] == [written]
    for index in cache.rglob("*.nbi"):
        index.write_bytes(b"")
    damaged = finish(start(folder, cache))
    assert damaged["out"] == [3.0, 1.0]
    assert any("delete the files" in message for message in damaged["warnings"])
    (folder / "user_loss.py").write_text(LOSS.replace("FACTOR", "2.0"))
    edited = finish(start(folder, cache))
    assert edited["out"] == [6.0, 2.0]


def test_without_a_place_to_write_every_process_compiles_and_says_so(folder):
    run = finish(start(folder, folder / "cache", NO_PLACE="1"))
    assert run["out"] == [3.0, 1.0]
    assert any("NUMBA_CACHE_DIR" in message for message in run["warnings"])


@formula
def every_operation(loss, p, y, c, out):
    for i in range(len(p)):
        out[i, 0] = value(loss, p[i], y[i])
        out[i, 1] = slope(loss, p[i], y[i])
        out[i, 2] = prox(loss, p[i], y[i], c[i])
        out[i, 3] = conjugate(loss, out[i, 2], y[i])


def test_a_loss_of_the_users_own_runs_compiled_as_in_plain_python():
    class Half(losses.Squared):
        """Not importable by name from another process: compiled for this one."""

        def value(self, p, y):
            return 0.25 * (p - y) * (p - y)

        def slope(self, p, y):
            return 0.5 * (p - y)

        def conjugate(self, a, y):
            return a * (a + y)

        def prox(self, p, y, c):
            return 0.5 * (p - y) / (1.0 + 0.5 * c)

    p, y, c = np.random.default_rng(0).normal(size=(3, 50))
    found = [np.zeros((50, 4)) for _ in range(2)]
    for out, compiled in zip(found, (True, False), strict=True):
        ready(every_operation, compiled)(Half(), p, y, np.abs(c), out)
    np.testing.assert_allclose(*found, atol=1e-14)
    assert found[0][:, 0] == pytest.approx(0.25 * (p - y) ** 2)
    assert digest(every_operation, (Half(),))[1] is False


def test_the_digest_sees_the_file_of_a_users_loss(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    import user_loss

    before = digest(every_operation, (user_loss.Scaled(),))
    assert before[1] is True
    (folder / "user_loss.py").write_text(LOSS.replace("FACTOR", "3.0"))
    importlib.reload(user_loss)
    assert digest(every_operation, (user_loss.Scaled(),)) != before


def test_the_digest_sees_constants_and_functions_of_other_modules(tmp_path, monkeypatch):
    (tmp_path / "far_module.py").write_text("STEP = 1.0\n\ndef grow(x):\n    return x + STEP\n")
    (tmp_path / "near_module.py").write_text(
        "import far_module\nfrom far_module import STEP\n\ndef loop(x):\n    return far_module.grow(x) * STEP\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import far_module
    import near_module

    def seen():
        digest_module._digest.cache_clear()
        return digest(near_module.loop)[0]

    before = seen()
    assert seen() == before
    monkeypatch.setattr(near_module, "STEP", 2.0)
    assert seen() != before
    monkeypatch.setattr(near_module, "STEP", 1.0)
    assert seen() == before
    monkeypatch.setattr(far_module, "STEP", 2.0)
    assert seen() != before
    monkeypatch.setattr(far_module, "STEP", 1.0)
    (tmp_path / "far_module.py").write_text("STEP = 1.0\n\ndef grow(x):\n    return x - STEP\n")
    assert seen() != before


# What is used of Numba though Numba does not promise it ---------------------------------------------------------------

#: Names that Numba does not document, by module: pyproject.toml allows only versions in which they were seen to work.
PRIVATE = {
    "numba.core.caching": ["CacheImpl._locator_classes"],  # these tests only
    "numba.core.dispatcher": ["Dispatcher.typeof_pyval"],
    "numba.core.options": ["DefaultOptions._nrt", "DefaultOptions.forceinline"],
    "numba.core.cgutils": ["get_item_pointer", "get_or_insert_function"],
    "numba.core.datamodel.models": ["PrimitiveModel"],
    "numba.core.base": [
        *("BaseContext.cast", "BaseContext.get_dummy_value", "BaseContext.get_value_type", "BaseContext.make_array"),
    ],
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in PRIVATE.items() for name in names])
def test_the_private_names_of_numba_are_there(module, name):
    assert operator.attrgetter(name)(importlib.import_module(module)) is not None


def test_the_private_attributes_of_numba_are_there(tmp_path, monkeypatch):
    from numba import njit, typeof

    assert typeof(losses.Logistic()).instance_class is losses.Logistic  # how operations find the class of a member
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert isinstance(njit(cache=True)(kept_on_disk)._cache.cache_path, str)  # where the lock between processes is


def kept_on_disk(x):
    return x


def test_the_versions_of_numba_that_are_allowed_have_an_end():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (rule,) = [rule for rule in project["dependencies"] if rule.startswith("numba")]
    assert re.fullmatch(r"numba>=0\.\d+,<0\.\d+", rule)
