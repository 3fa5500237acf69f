"""The wheel for a platform works where there is no compiler."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from giftrl import losses
from tests.fresh import install

ROOT = Path(__file__).parents[1]

WITHOUT = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None  # importing them is an error from now on
sys.argv[0] = "usual_loops.py"
import runpy, warnings
warnings.simplefilter("error")
import giftrl
assert giftrl.__file__.startswith(sys.prefix), giftrl.__file__
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def build(folder, **environment):
    """Build a wheel."""
    pytest.importorskip("hatchling", reason="pip install hatchling")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run(command, env=os.environ | environment, check=True, timeout=3000)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.verify
def test_without_a_compiler_the_wheel_is_pure(tmp_path):
    wheel = build(tmp_path, GIFTRL_WHEEL_LOOPS="1", CC="no-such-compiler -O2")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "compiled/library/" in name]


@pytest.mark.verify
@pytest.mark.skipif(shutil.which("cc") is None, reason="without a C compiler the wheel is pure Python")
def test_the_wheel_needs_no_compiler(tmp_path):
    """Every loss at its defaults: train, predict, inspect and partial_fit, dense and sparse, and every text format."""
    asked = os.environ.get("GIFTRL_WHEEL_LOOPS", "1")
    wanted = list(losses.EVERY) if asked == "1" else asked.split()
    wheel = build(tmp_path, GIFTRL_WHEEL_LOOPS=asked)
    assert "-py3-none-" in wheel.name and not wheel.name.endswith("-any.whl")

    python = install(wheel, tmp_path / "fresh")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    empty = tmp_path / "cache"
    command = [python, "-c", WITHOUT, str(ROOT / "usual_loops.py"), *wanted]
    run = subprocess.run(
        command, env=environment | {"GIFTRL_CACHE_DIR": str(empty)}, cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert not empty.exists()
