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

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from giftrl import algorithms, domains, errors, losses, regularizers, schedules, updates
from giftrl.certificates import Certificate, TheoremTerms
from giftrl.errors import GiftrlError
from giftrl.learner import Learner
from giftrl.trace import Step, Trace

if TYPE_CHECKING:
    from giftrl.linear import FTRLClassifier, FTRLRegressor

__version__ = version("giftrl")

__all__ = [
    "Certificate",
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


def __getattr__(name: str) -> Any:
    # The estimators need scikit-learn, which takes a second to import and is optional: only those who ask pay.
    if name in ("FTRLClassifier", "FTRLRegressor"):
        from giftrl import linear

        return getattr(linear, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
