"""The commands and programs that users are shown run as they are: README, help, recipes, examples, and the site."""

import doctest
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from giftrl.cli.commands import COMMANDS, GROUPS
from tests.commands import giftrl

ROOT = Path(__file__).parents[1]
plain, verify = pytest.mark.plain, pytest.mark.verify


def rounded(text):
    """The text with six digits behind a point: further ones depend on the order of sums."""
    return re.sub(r"\d+\.\d{7,}", lambda number: f"{float(number[0]):.6f}", text)


def test_the_commands_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [block] = [each for each in (ROOT / "README.md").read_text().split("```") if "$ giftrl" in each]
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


# Help.

#: Commands that take long; ``make verify`` runs them.
SLOW = {"reproduce", "warmup"}
#: The lines of a data set that are left of it, since loops run as plain Python.
LINES = 41


def tried(command):
    """The commands that a help text begins with."""
    shown = giftrl(*command, "--help").stdout.decode()
    block = re.search(r"\n  Try it:\n((?:    .*\n)+)", shown)
    assert block is not None, shown
    return shown, [line.strip() for line in block[1].splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder, and the commands that were run in it."""
    return tmp_path_factory.mktemp("tried"), set()


def run(lines, folder, monkeypatch, short=True):
    place, done = folder
    monkeypatch.chdir(place)
    for line in lines:
        if line not in done:
            program, *arguments = shlex.split(line)
            assert program == "giftrl"
            giftrl(*arguments)
            done.add(line)
            if arguments[0] == "demo" and len(arguments) > 1 and short:
                for path in place.glob(f"{arguments[1]}.*"):
                    path.write_text("".join(path.read_text().splitlines(keepends=True)[:LINES]))


@plain
@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in SLOW])
def test_the_first_example_of_every_command_runs(command, folder, monkeypatch):
    shown, lines = tried([command])
    assert shown.index("Try it:") < 400, "before the explanation"
    assert any(line.startswith(f"giftrl {command}") for line in lines)
    run([line for line in lines if line != "giftrl demo"], folder, monkeypatch)  # tests/test_tour.py has that one


@verify
@pytest.mark.parametrize("command", sorted(SLOW))
def test_the_first_example_of_slow_commands_runs(command, tmp_path, monkeypatch):
    run(tried([command])[1], (tmp_path, set()), monkeypatch, short=False)


@plain
def test_the_list_of_commands_is_in_groups_and_begins_with_an_example():
    shown, lines = tried([])
    assert lines[0] == "giftrl demo churn"
    places = [shown.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    for title, group in GROUPS.items():
        block = shown[shown.index(f"\n{title}:\n") :].split("\n\n")[0]
        assert all(re.search(rf"^  {name} ", block, re.MULTILINE) for name in group)


# Recipes in docs/how-to.

PAGES = ROOT / "docs" / "how-to"


def blocks(page, kind):
    """The blocks of code of a page, of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", (PAGES / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run_shell(text, folder):
    """Run the commands of giftrl in a block."""
    for line in text.splitlines():
        program, *arguments = line.split()
        assert program == "giftrl"
        giftrl(*arguments, real=True, cwd=folder)


@verify
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


@verify
def test_onnx_on_the_page(tmp_path, monkeypatch):
    pytest.importorskip("skl2onnx", reason="pip install 'giftrl[onnx]'")
    monkeypatch.chdir(tmp_path)
    run_python("interoperate.md", "skl2onnx")
    assert (tmp_path / "model.onnx").stat().st_size > 100


@plain
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


# The loss of docs/performance.md: compiled as in plain Python, and kept on disk.

PAGE = (ROOT / "docs" / "performance.md").read_text()
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


@verify
def test_the_documented_loss_runs_compiled_and_as_the_learner_does(tmp_path):
    (tmp_path / "my_losses.py").write_text(FILE)
    done = subprocess.run(
        [sys.executable, "-c", CHECK], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "same\n", done.stderr


@plain
def test_the_documented_use_runs(tmp_path):
    (tmp_path / "my_losses.py").write_text(FILE)
    script = "import numpy as np, scipy.sparse as sp\nx = sp.csr_array((3, 2**18)); y = np.ones(3)\n" + USE
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


# Programs in examples on the data that they are about; the site runs them offline when it is built.

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: The data set of each.
DATA = {"census": "a9a", "processors": "cpusmall"}


@verify
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_on_the_real_data(example, tmp_path):
    packed = Path(os.environ.get("GIFTRL_DATA", "nowhere"), f"{DATA[example.stem]}.gz")
    if not packed.is_file():
        pytest.skip(f"there is no {packed.name} in the folder GIFTRL_DATA")
    (tmp_path / DATA[example.stem]).write_bytes(gzip.decompress(packed.read_bytes()))
    environment = os.environ | {"GIFTRL_DATA": str(tmp_path)}
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "no linear model" in said
    losses = [float(line.split()[-1]) for line in said.splitlines() if "rate" in line or "nothing set" in line]
    assert losses == [] or losses[0] < min(losses[1:])


# The documentation as a site: built strictly, tutorials run, and every link walked.


@verify
def test_the_site_is_built_without_a_warning():
    pytest.importorskip("mkdocs", reason="pip install 'giftrl[docs]'")
    if shutil.which("make") is None or Path(sys.executable).parent != ROOT / ".venv" / "bin":
        pytest.skip("the site is built in the environment that make has made")
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "WARNING" not in done.stderr
    assert (ROOT / "out" / "site" / "tutorials" / "first-model.html").is_file()
