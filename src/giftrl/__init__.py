"""giftrl: online learning that needs no tuning and proves how well it did.

Generalized implicit Follow-The-Regularized-Leader (Chen and Orabona, ICML 2023).

>>> import giftrl
>>> learner = giftrl.Learner(dimension=2)
>>> for s, y in [([1.0, 0.0], 1.0), ([0.0, 1.0], -1.0), ([1.0, 1.0], 1.0)]:
...     step = learner.observe("logistic", s, y)
>>> round(learner.certificate.loss_sum, 6)
2.082726
>>> round(learner.certificate.regret_bound_ball(radius=1.0), 6)
0.841122
"""

import importlib

TYPE_CHECKING = False  # as typing has it, whose import takes longer than all others here
if TYPE_CHECKING:
    from giftrl import algorithms, domains, errors, losses, regularizers, schedules, updates
    from giftrl.certificates import Certificate, TheoremTerms
    from giftrl.errors import GiftrlError
    from giftrl.linear import FTRLClassifier, FTRLRegressor
    from giftrl.reference import Learner
    from giftrl.service.client import Client
    from giftrl.trace import Step, Trace

    #: The version that is installed.
    __version__: str

__all__ = [
    "Certificate",
    "Client",
    "FTRLClassifier",
    "FTRLRegressor",
    "GiftrlError",
    "Learner",
    "Step",
    "TheoremTerms",
    "Trace",
    "__version__",
    "algorithms",
    "domains",
    "errors",
    "losses",
    "regularizers",
    "schedules",
    "updates",
]


#: The module of each public name that is not a module.
HOMES = {
    "Certificate": "certificates", "Client": "service.client",
    "FTRLClassifier": "linear", "FTRLRegressor": "linear", "GiftrlError": "errors",
    "Learner": "reference", "Step": "trace", "TheoremTerms": "certificates", "Trace": "trace",
}  # fmt: skip


def __getattr__(name: str) -> object:
    # Imported on first use: importing everything takes a second, and the command line needs less.
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("giftrl")
    if name in HOMES:
        return getattr(importlib.import_module(f"giftrl.{HOMES[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"giftrl.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
