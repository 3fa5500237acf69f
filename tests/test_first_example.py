"""The README's example of the command does what it says. Its example in Python is a doctest."""

import re
from pathlib import Path

from tests.commands import giftrl

README = Path(__file__).parent.parent / "README.md"


def rounded(text):
    """The text with six digits behind a point: further ones depend on the order of sums."""
    return re.sub(r"\d+\.\d{7,}", lambda number: f"{float(number[0]):.6f}", text)


def test_the_commands_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [block] = [each for each in README.read_text().split("```") if "$ giftrl" in each]
    commands = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    assert len(commands) == 3
    for each in commands:
        command, _, shown = each.partition("\n")
        words = command.partition("#")[0].partition("|")[0].split()
        assert words[0] == "giftrl"
        done = giftrl(*words[1:], *(["--certificate-seconds", 60] if words[1] == "train" else []))
        said = " ".join((done.stdout + done.stderr).decode().split())
        for part in " ".join(shown.split()).split("..."):
            assert rounded(part.strip()) in rounded(said)
    assert (tmp_path / "run.html").stat().st_size > 10_000
