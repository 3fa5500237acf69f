"""The documentation as a site: built strictly, tutorials run, and every link walked."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.verify
def test_the_site_is_built_without_a_warning():
    pytest.importorskip("mkdocs", reason="pip install 'giftrl[docs]'")
    if shutil.which("make") is None or Path(sys.executable).parent != ROOT / ".venv" / "bin":
        pytest.skip("the site is built in the environment that make has made")
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "WARNING" not in done.stderr
    assert (ROOT / "out" / "site" / "tutorials" / "first-model.html").is_file()
