"""Every update on real data with a beta that is far too large: implicit ones still learn, and all are certified."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from giftrl import Learner, losses, regularizers, schedules, updates

RADIUS = 15.0
BETA = 1000.0


def data() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shuffled rows of norm 1 with a constant among their features, and labels -1 and +1."""
    x, y = load_breast_cancer(return_X_y=True)
    x = np.hstack([StandardScaler().fit_transform(x), np.ones((len(x), 1))])
    order = np.random.default_rng(0).permutation(len(y))
    return (x / np.linalg.norm(x, axis=1, keepdims=True))[order], np.where(y == 1, 1.0, -1.0)[order]


def best_in_ball(s, y):
    """The model of norm at most RADIUS with the lowest total logistic loss."""

    def total(u):
        margin = y * (s @ u)
        return float(np.logaddexp(0.0, -margin).sum()), -s.T @ (y * 0.5 * (1.0 - np.tanh(0.5 * margin)))

    inside = {"type": "ineq", "fun": lambda u: RADIUS**2 - u @ u, "jac": lambda u: -2.0 * u}
    return minimize(total, np.zeros(s.shape[1]), jac=True, method="SLSQP", constraints=inside).x


def parts():
    """The arguments of each learner, by name."""
    temporal = schedules.TemporalVariability(beta=BETA, gradient_bound=1.0)
    every = {
        f"{name} {objective}": {"update": cls(lookahead=objective == "H"), "schedule": temporal}
        for name, cls in updates.BY_NAME.items()
        for objective in ("H", "H'")
    }
    every["twostep safe H"] = {"update": updates.TwoStep(lookahead=True, safeguard=True), "schedule": temporal}
    every["curvature"] = {"regularizer": regularizers.Curvature(), "schedule": schedules.Constant(BETA)}
    return every


def test_implicit_updates_tolerate_a_beta_that_ruins_the_linear_one():
    s, y = data()
    certificates = {}
    for name, arguments in parts().items():
        learner = Learner(s.shape[1], **arguments)
        for features, label in zip(s, y, strict=True):
            learner.observe(losses.Logistic(), features, label)
        certificates[name] = learner.certificate
    average = {name: certificate.loss_sum / len(y) for name, certificate in certificates.items()}
    assert average["linear H'"] > 1.0
    for name in ("proximal H", "truncated H'", "iwa H", "twostep safe H", "curvature"):
        assert average[name] < 0.25
    u = best_in_ball(s, y)
    assert np.linalg.norm(u) <= RADIUS + 1e-6
    optimum = float(np.logaddexp(0.0, -y * (s @ u)).sum())
    for certificate in certificates.values():
        assert certificate.best_loss_lower_bound(RADIUS) <= optimum + 1e-6
        assert certificate.loss_sum - optimum <= certificate.regret_bound(u) + 1e-6
