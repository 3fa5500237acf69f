"""The recipes in docs/how-to, run as they stand there."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import giftrl

pytestmark = pytest.mark.plain

PAGES = Path(__file__).parents[1] / "docs" / "how-to"


def blocks(page, kind):
    """The blocks of code of a page, of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", (PAGES / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run_shell(text, folder):
    """Run the commands of giftrl in a block."""
    for line in text.splitlines():
        program, *arguments = line.split()
        assert program == "giftrl"
        giftrl(*arguments, real=True, cwd=folder)


@pytest.mark.verify
def test_mlflow(tmp_path):
    pytest.importorskip("mlflow", reason="pip install 'giftrl[mlflow]'")
    programs = {re.match(r"# (\S+)\n", each)[1]: each for each in blocks("mlflow.md", "python")}
    assert list(programs) == ["giftrl_pyfunc.py", "use_it.py"]
    for name, text in programs.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for each in blocks("mlflow.md", "sh"):
        run_shell(each, tmp_path)
    more = """
print("CHECK", list(model.predict(table)[:40]))
print("CHECK", model.predict(table, params={"proba": True}).shape)
"""
    (tmp_path / "use_it.py").write_text(programs["use_it.py"] + more, encoding="utf-8")
    environment = os.environ | {"MLFLOW_TRACKING_URI": str(tmp_path / "runs"), "GIT_PYTHON_REFRESH": "quiet"}
    command = [sys.executable, "use_it.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = re.findall("^CHECK (.*)$", done.stdout, re.MULTILINE)
    ours = giftrl("predict", tmp_path / "churn.giftrl", tmp_path / "churn.csv").stdout.decode().split()
    answers = re.findall(r"'(\w+)'", said[0])
    assert answers == ours[:40] and len(set(answers)) == 2
    assert said[1] == f"({len(ours)}, 2)"
    assert not list((tmp_path / "churn-model").rglob("*.pkl"))


def run_python(page, last):
    """Run the blocks of Python of a page as a reader does, one after the other, up to the one with these words."""
    names: dict[str, object] = {}
    for text in blocks(page, "python"):
        if text.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
            for each in test.examples:
                if each.exc_msg is None:
                    exec(compile(each.source, page, "single"), names)
        else:
            exec(text, names)
        if last in text:
            return
    raise AssertionError(f"{page} has no block with {last}")


@pytest.mark.verify
def test_onnx_on_the_page(tmp_path, monkeypatch):
    pytest.importorskip("skl2onnx", reason="pip install 'giftrl[onnx]'")
    monkeypatch.chdir(tmp_path)
    run_python("interoperate.md", "skl2onnx")
    assert (tmp_path / "model.onnx").stat().st_size > 100


def test_vowpal_wabbit_on_the_page(tmp_path):
    vowpalwabbit = pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed")
    rows = ["1 |a x:1 y |b u", "-1 |a x:-1 |b v", "1 |a x:2 |b v"] * 20
    (tmp_path / "rows.vw").write_text("\n".join(rows) + "\n")
    [block] = blocks("interoperate.md", "sh")
    first, second = block.splitlines()
    options = re.fullmatch(r"vw rows\.vw (.*)", first)[1].replace("vw.txt", str(tmp_path / "vw.txt"))
    model = vowpalwabbit.Workspace(f"{options} --quiet")
    for each in rows:
        model.learn(each)
    model.finish()
    run_shell(second, tmp_path)
