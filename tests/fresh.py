"""A fresh environment with a wheel in it."""

import subprocess
import sys
from pathlib import Path

import numpy as np


def install(wheel, folder):
    """Make an environment in a folder, install the wheel there, and return the path of its Python.

    The packages that giftrl needs come from the environment of the tests; a link to giftrl itself is not followed.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(command, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(str(Path(np.__file__).parents[1]))
    return python
