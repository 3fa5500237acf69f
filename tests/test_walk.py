"""The number of files and functions of giftrl that three uses visit stays small."""

import subprocess
import sys

import pytest

from tests.commands import environment

#: Files and functions, at most, of ``giftrl train``, of ``fit``, and of a row that the service learns.
LIMITS = {"train": (48, 438), "fit": (24, 145), "learn": (15, 62)}


@pytest.mark.parametrize("use", LIMITS)
def test_a_use_visits_few_files_and_functions(use):
    for _ in range(2):  # the first may have to compile loops, which visits more
        command = [sys.executable, "-m", "tests.walk", use, "--count"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(GIFTRL_PLAIN="0"))
        files, functions = (int(words.split()[0]) for words in done.stdout.splitlines()[-1].split(", "))
        if files <= LIMITS[use][0] and functions <= LIMITS[use][1]:
            return
    pytest.fail(f"{use}: {files} files and {functions} functions are visited")
