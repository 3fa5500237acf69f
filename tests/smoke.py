"""A smoke test of an installed giftrl: ``python smoke.py [--no-compiler]``, with the Python of its environment.

It needs nothing but the standard library and giftrl, and uses the installed command: a table with the labels yes and no
is learnt from, predicted and certified. With ``--no-compiler``, importing Numba or llvmlite is an error, as it is for
whoever has a wheel that brings the usual loops and no compiler; then nothing may be compiled either.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

BLOCKED = 'raise ImportError("the smoke test allows no compiler")\n'


def write_table(path: Path) -> list[str]:
    """Write 400 rows whose labels depend on the columns, and return the labels."""
    rng, labels, lines = random.Random(0), [], ["age,plan,visits,churned"]
    for _ in range(400):
        age, plan, visits = rng.randint(18, 80), rng.choice(["free", "basic", "pro"]), rng.randint(0, 20)
        labels.append("yes" if age / 20 - visits / 3 + 2 * (plan == "free") > 0.5 else "no")
        lines.append(f"{age},{plan},{visits},{labels[-1]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return labels


def main() -> None:
    """Run the smoke test; an AssertionError says what does not work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-compiler", action="store_true")
    without = parser.parse_args().no_compiler
    import giftrl

    assert Path(giftrl.__file__).is_relative_to(sys.prefix), f"{giftrl.__file__} is not of this environment"
    assert giftrl.__version__ == version("giftrl"), giftrl.__version__
    learner = giftrl.Learner(dimension=1)
    learner.observe("squared", [1.0], 1.0)
    assert learner.certificate.loss_sum == 0.5

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = os.environ | {"GIFTRL_CERTIFICATE_SECONDS": "300"}
        environment.pop("PYTHONPATH", None)
        if without:
            for package in ("numba", "llvmlite"):
                (folder / "blocked" / package).mkdir(parents=True)
                (folder / "blocked" / package / "__init__.py").write_text(BLOCKED, encoding="utf-8")
            environment |= {"PYTHONPATH": str(folder / "blocked"), "GIFTRL_CACHE_DIR": str(folder / "cache")}

        def run(*arguments: str) -> tuple[str, str]:
            done = subprocess.run(
                [str(Path(sysconfig.get_path("scripts"), "giftrl")), *arguments],
                env=environment, cwd=folder, capture_output=True, text=True, encoding="utf-8",
            )  # fmt: skip
            assert done.returncode == 0, f"giftrl {' '.join(arguments)}: {done.stderr}"
            return done.stdout, done.stderr

        assert run("--version")[0].split()[-1] == giftrl.__version__
        labels = write_table(folder / "table.csv")
        said = "".join(run("train", "table.csv", "--label", "churned", "--model", "table.giftrl"))
        assert "certificate: average loss" in said and "no linear model" in said, said
        answers = run("predict", "table.giftrl", "table.csv")[0].split()
        right = sum(answer == label for answer, label in zip(answers, labels, strict=True))
        assert right > 0.9 * len(labels), f"{right} of {len(labels)} labels are right"
        proven = json.loads(run("certify", "table.giftrl", "table.csv", "--json")[0])
        assert 0.0 < proven["lower_bound"] <= proven["average_loss"] < 0.2, proven
        assert not (without and (folder / "cache").exists()), "a loop was compiled"
    loops = "with the loops of the wheel" if without else "with loops compiled here"
    print(f"giftrl {giftrl.__version__} works on Python {sys.version.split()[0]}, {loops}: {right} of 400 labels right")


if __name__ == "__main__":
    main()
