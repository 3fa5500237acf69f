"""The public names: a name that appears or goes is a decision, not an accident."""

import os
import re
import subprocess
import sys

import giftrl
import giftrl.mixtures

#: What each module exports besides the members of its kind.
PUBLIC = {
    "giftrl": {
        "Certificate", "Client", "FTRLClassifier", "FTRLRegressor", "GiftrlError", "Learner", "Step", "TheoremTerms",
        "Trace", "__version__",
        "algorithms", "domains", "errors", "losses", "regularizers", "schedules", "updates",
    },
    "losses": {
        "BY_NAME", "EVERY", "MULTICLASS", "LinearModelLoss", "MulticlassHinge", "ScalarLoss", "Softmax", "VectorLoss",
        "get", "scalar",
    },
    "regularizers": {"BY_NAME", "Evidence", "Potential", "get"},
    "domains": {"BY_NAME", "Domain", "get"},
    "updates": {"BY_NAME", "Choice", "ScoreProblem", "VectorProblem", "get"},
    "schedules": {"BY_NAME", "get"},
    "mixtures": {"PRESETS", "Extended", "MixtureLearner", "MulticlassMixture"},
    "algorithms": {"FullFTRL", "ImplicitFTRL", "ImplicitMirrorDescent", "MirrorDescent"},
}  # fmt: skip

#: The members that users name otherwise than by the class in lower case with underscores.
SHORT_NAMES = {
    "AdaGrad": "adagrad", "AdaGradNorm": "adagrad_norm", "ImportanceAware": "iwa", "SquareRoot": "sqrt",
    "TemporalVariability": "temporal", "TwoStep": "twostep",
}  # fmt: skip


def members(room):
    """The classes of a kind. The tables of docs/theory.md spell them out, and test_theory_page.py compares."""
    return getattr(getattr(giftrl, room, None), "BY_NAME", {})


def test_public_names():
    for room, names in PUBLIC.items():
        module = giftrl if room == "giftrl" else getattr(giftrl, room)
        assert set(module.__all__) == names | {cls.__name__ for cls in members(room).values()}
        for name in module.__all__:
            assert hasattr(module, name)


def test_names_that_users_write():
    assert set(giftrl.losses.MULTICLASS) == {"softmax", "multiclass_hinge"}
    for room in ("losses", "regularizers", "updates", "schedules", "domains"):
        for name, cls in members(room).items():
            assert name == SHORT_NAMES.get(cls.__name__, re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower())


def test_every_public_class_has_a_docstring_with_an_example():
    for room in ("losses", "regularizers", "domains", "updates", "schedules"):
        for cls in getattr(giftrl, room).BY_NAME.values():
            assert ">>>" in cls.__doc__, f"{cls.__name__} needs an example"
    for name in giftrl.algorithms.__all__:
        assert ">>>" in getattr(giftrl.algorithms, name).__doc__


def test_importing_does_not_import_what_is_slow():
    slow = ["numba", "sklearn", "matplotlib", "cvxpy", "pandas", "river"]
    code = f"import sys, giftrl, giftrl.kernels; print([name for name in {slow} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def imported(names, *command):
    """Which of these modules a command imports; its loops are plain Python, as a compiler imports what it needs."""
    code = (
        "import sys\nfrom giftrl.cli import main\ntry:\n    main()\nfinally:\n"
        f"    print([name for name in {names} if name in sys.modules])"
    )
    plain = os.environ | {"GIFTRL_PLAIN": "1"}
    return subprocess.check_output([sys.executable, "-c", code, *map(str, command)], text=True, env=plain).strip()


def test_commands_import_no_more_than_they_need(tmp_path):
    rows, converted, model = (tmp_path / name for name in ("two.svm", "two.arrow", "m.giftrl"))
    rows.write_text("1 1:1 3:2\n-1 2:1\n")
    never = ["llvmlite", "matplotlib", "numba", "orjson", "pandas", "rich", "scipy", "sklearn"]
    assert imported([*never, "pyarrow"], "train", rows, "--model", model, "--certificate-seconds", 5) == "[]"
    assert imported([*never, "pyarrow"], "predict", model, rows, "-o", tmp_path / "p") == "[]"
    assert imported(never, "convert", rows, converted) == "[]"
    assert imported([*never, "pyarrow.compute"], "train", converted) == "[]"
