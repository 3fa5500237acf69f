"""The programs in ``examples`` on the data that they are about; the site runs them offline when it is built."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
#: The data set of each.
DATA = {"census": "a9a", "processors": "cpusmall"}

pytestmark = pytest.mark.verify


def run(example, **environment):
    command = [sys.executable, str(example)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_on_the_real_data(example, tmp_path):
    packed = Path(os.environ.get("GIFTRL_DATA", "nowhere"), f"{DATA[example.stem]}.gz")
    if not packed.is_file():
        pytest.skip(f"there is no {packed.name} in the folder GIFTRL_DATA")
    (tmp_path / DATA[example.stem]).write_bytes(gzip.decompress(packed.read_bytes()))
    said = run(example, GIFTRL_DATA=str(tmp_path))
    assert "no linear model" in said
    losses = [float(line.split()[-1]) for line in said.splitlines() if "rate" in line or "nothing set" in line]
    assert losses == [] or losses[0] < min(losses[1:])
