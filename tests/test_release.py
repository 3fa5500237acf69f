"""The release: one version, what the sdist and the pure wheel hold, and files that must say the same thing."""

import email
import importlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import requires, version
from pathlib import Path

import numpy as np
import pytest
import yaml

import giftrl
from giftrl import losses

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_is_the_same_everywhere():
    ours = PROJECT["version"]
    assert giftrl.__version__ == version("giftrl") == ours, "install it again: pip install -e ."
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", changelog, re.MULTILINE)
    assert heads[0] == ("Unreleased", "")
    assert heads[1] == (ours, citation["date-released"]) and str(citation["version"]) == ours

    released = changelog[changelog.index(f"## [{ours}]") :]
    assert re.findall(r"^### (.+)$", released, re.MULTILINE) == ["Added", "Changed", "Fixed", "Removed"]
    paper = citation["preferred-citation"]
    assert [each["family-names"] for each in paper["authors"]] == ["Chen", "Orabona"]
    assert (paper["year"], paper["volume"]) == (2023, 202) and citation["license"] == PROJECT["license"]


def test_pre_commit_is_make_lint():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^lint: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    wanted = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == wanted
    for hook in repository["hooks"]:
        assert hook["language"] == "system" and hook["pass_filenames"] is False


def test_the_workflow_runs_what_is_there():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = {name: "\n".join(step.get("run", "") for step in job["steps"]) for name, job in workflow["jobs"].items()}
    assert ".ci/run" in steps["linux"]
    tests = re.findall(r"tests/\w+\.py", steps["quick"])
    assert len(tests) > 5 and [each for each in tests if not (ROOT / each).is_file()] == []


def test_make_says_what_it_can_do():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert "release" in phony and re.search("^# make release .*extra: release", makefile, re.MULTILINE)
    extras = {re.search(r"extra == ['\"]([\w-]+)", each)[1] for each in requires("giftrl") if "extra ==" in each}
    assert extras == set(PROJECT["optional-dependencies"])


def release():
    """The script of ``make release``, as a module."""
    pytest.importorskip("build", reason="pip install 'giftrl[release]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        return importlib.import_module("release")


def elsewhere():
    """The environment of a process that imports giftrl from where it was installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the pure wheel made from it."""
    script = release()
    files = script.build(tmp_path_factory.mktemp("dist"), loops="")
    script.check(files)
    return {each.suffix: each for each in files}


@pytest.mark.verify
def test_the_sdist_holds_the_project_and_nothing_else(built):
    with tarfile.open(built[".gz"]) as archive:
        names = {each.name.partition("/")[2]: each.size for each in archive.getmembers() if each.isfile()}
    for needed in ("pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "hatch_build.py", "usual_loops.py",
                   "release.py", "Makefile", "conftest.py", "tests/smoke.py", "src/giftrl/py.typed"):  # fmt: skip
        assert needed in names
    strange = re.compile(r"__pycache__|\.pyc$|_cache/|\.hypothesis|\.venv|(^|/)out/|\.so$")
    assert [each for each in names if strange.search(each)] == []
    assert sum(names.values()) < 20_000_000 and max(names.values()) < 2_000_000  # no data sets
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        known = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert set(names) - {"PKG-INFO"} <= set(known.split())


@pytest.mark.verify
def test_the_wheel_holds_the_package_and_says_what_it_is(built):
    with zipfile.ZipFile(built[".whl"]) as archive:
        names = archive.namelist()
        (metadata,) = [each for each in names if each.endswith(".dist-info/METADATA")]
        said = email.message_from_bytes(archive.read(metadata))
    source = ROOT / "src"
    wanted = {each.relative_to(source).as_posix() for each in source.rglob("*") if each.is_file()}
    wanted = {each for each in wanted if "__pycache__" not in each}
    assert {each for each in names if not each.startswith("giftrl-")} == wanted
    assert built[".whl"].name == f"giftrl-{PROJECT['version']}-py3-none-any.whl"
    assert said["Version"] == PROJECT["version"] and said["License-Expression"] == "BSD-3-Clause"
    pythons = [each.rsplit(" ", 1)[1] for each in said.get_all("Classifier") if "Python :: 3." in each]
    assert pythons[0] == PROJECT["requires-python"].removeprefix(">=")
    assert tuple(pythons) == release().PYTHONS


@pytest.mark.verify
def test_the_pure_wheel_passes_the_smoke_test(built, tmp_path):
    python = install(built[".whl"], tmp_path / "fresh")
    smoke = [python, str(ROOT / "tests" / "smoke.py")]
    done = subprocess.run(smoke, cwd=tmp_path, env=elsewhere(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"giftrl {PROJECT['version']} works on Python" in done.stdout


@pytest.mark.verify
@pytest.mark.skipif(sys.platform != "linux", reason="wheels for Linux have tags of their own")
@pytest.mark.skipif(shutil.which("cc") is None, reason="without a C compiler the wheel is pure Python")
def test_the_wheel_with_loops_says_on_which_linux_it_works(tmp_path):
    """An index takes no wheel whose tag is linux_x86_64; pip takes this one here."""
    script = release()
    files = script.build(tmp_path, loops="squared")
    script.check(files)
    (wheel,) = [each for each in files if each.suffix == ".whl" and not each.name.endswith("-any.whl")]
    assert re.fullmatch(r"giftrl-.*-py3-none-m[a-z]+linux_\d+_\d+_\w+\.whl", wheel.name), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (said,) = [archive.read(each).decode() for each in names if each.endswith(".dist-info/WHEEL")]
    assert f"Tag: {'-'.join(wheel.stem.split('-')[2:])}\n" in said and "Root-Is-Purelib: false" in said
    assert [each for each in names if ".so" in each] == ["giftrl/compiled/library/loops.so"]  # no library is brought
    python = install(wheel, tmp_path / "fresh")
    opened = "from giftrl.compiled import object_files; index, loops = object_files._opened(); assert index and loops"
    subprocess.run([python, "-c", opened], cwd=tmp_path, check=True)


# The wheel for a platform works where there is no compiler.

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


def build_wheel(folder, **environment):
    """Build a wheel."""
    pytest.importorskip("hatchling", reason="pip install hatchling")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run(command, env=os.environ | environment, check=True, timeout=3000)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.verify
def test_without_a_compiler_the_wheel_is_pure(tmp_path):
    wheel = build_wheel(tmp_path, GIFTRL_WHEEL_LOOPS="1", CC="no-such-compiler -O2")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "compiled/library/" in name]


@pytest.mark.verify
@pytest.mark.skipif(shutil.which("cc") is None, reason="without a C compiler the wheel is pure Python")
def test_the_wheel_needs_no_compiler(tmp_path):
    """Every loss at its defaults: train, predict, inspect and partial_fit, dense and sparse, and every text format."""
    asked = os.environ.get("GIFTRL_WHEEL_LOOPS", "1")
    wanted = list(losses.EVERY) if asked == "1" else asked.split()
    wheel = build_wheel(tmp_path, GIFTRL_WHEEL_LOOPS=asked)
    assert "-py3-none-" in wheel.name and not wheel.name.endswith("-any.whl")

    python = install(wheel, tmp_path / "fresh")
    empty = tmp_path / "cache"
    command = [python, "-c", WITHOUT, str(ROOT / "usual_loops.py"), *wanted]
    environment = elsewhere() | {"GIFTRL_CACHE_DIR": str(empty)}
    run = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert not empty.exists()
