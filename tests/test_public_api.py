"""The public names, spelt out: a name that appears or goes is a decision, not an accident."""

import subprocess
import sys

import giftrl
import giftrl.mixtures

PUBLIC = {
    "giftrl": {
        "Certificate", "FTRLClassifier", "FTRLRegressor", "GiftrlError", "Learner", "Step", "TheoremTerms", "Trace",
        "__version__",
        "algorithms", "domains", "errors", "losses", "regularizers", "schedules", "updates",
    },
    "losses": {
        "BY_NAME", "EVERY", "MULTICLASS", "Absolute", "EpsilonInsensitive", "Hinge", "Huber", "LinearModelLoss",
        "Logistic", "MulticlassHinge", "Poisson", "Quantile", "ScalarLoss", "Softmax", "Squared", "SquaredHinge",
        "VectorLoss", "get", "scalar",
    },
    "regularizers": {
        "BY_NAME", "AdaGrad", "Centred", "Curvature", "CurvatureFull", "ElasticNet", "Entropy", "Evidence", "PNorm",
        "Potential", "SquaredNorm", "get",
    },
    "domains": {"BY_NAME", "Ball", "Box", "Domain", "L1Ball", "NonNegative", "Simplex", "WholeSpace", "get"},
    "updates": {
        "BY_NAME", "Choice", "ImportanceAware", "Linear", "Proximal", "Truncated", "TwoStep", "VectorProblem", "get",
    },
    "schedules": {
        "BY_NAME", "AdaGradNorm", "AdaImplicit", "Constant", "SquareRoot", "TemporalVariability", "get",
    },
    "mixtures": {
        "PRESETS", "AdaHedge", "Extended", "FeatureScaler", "LabelUnits", "MixtureLearner", "MulticlassMixture",
        "NewtonStack",
    },
    "algorithms": {"FullFTRL", "ImplicitFTRL", "ImplicitMirrorDescent", "MirrorDescent"},
}  # fmt: skip

NAMES = {
    "losses": "hinge squared_hinge logistic squared absolute quantile huber epsilon_insensitive poisson",
    "regularizers": "squared_norm adagrad elastic_net curvature curvature_full entropy p_norm centred",
    "updates": "linear proximal twostep truncated iwa",
    "schedules": "constant sqrt adagrad_norm temporal ada_implicit",
    "domains": "whole_space ball box non_negative simplex l1_ball",
}


def test_public_names():
    for room, names in PUBLIC.items():
        module = giftrl if room == "giftrl" else getattr(giftrl, room)
        assert set(module.__all__) == names
        for name in names:
            assert hasattr(module, name)


def test_names_that_users_write():
    assert set(giftrl.losses.MULTICLASS) == {"softmax", "multiclass_hinge"}
    for room, names in NAMES.items():
        assert set(getattr(giftrl, room).BY_NAME) == set(names.split())


def test_every_public_class_has_a_docstring_with_an_example():
    for room in ("losses", "regularizers", "domains", "updates", "schedules"):
        for cls in getattr(giftrl, room).BY_NAME.values():
            assert ">>>" in cls.__doc__, f"{cls.__name__} needs an example"
    for name in giftrl.algorithms.__all__:
        assert ">>>" in getattr(giftrl.algorithms, name).__doc__


def test_importing_does_not_import_what_is_slow():
    slow = ["numba", "sklearn", "matplotlib", "cvxpy", "pandas"]
    code = f"import sys, giftrl, giftrl.kernels; print([name for name in {slow} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
