"""Every update rule on scikit-learn's bundled breast-cancer data, one pass, with the certificate of each run.

    python -m experiments.breast_cancer

569 examples, 30 features. Columns are standardised, a constant 1 is appended, and rows are scaled to norm 1, so that
G = 1 for the logistic loss.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from giftrl import Certificate, Learner, losses, regularizers, schedules, updates

__all__ = ["Run", "best_in_ball", "data", "main", "runs"]

Array = NDArray[np.float64]

RADIUS = 15.0
BETAS = (0.1, 1.0, 10.0, 100.0, 1000.0)
SHOWN = 10.0  # the beta of the tables that show one
LOSS = losses.Logistic()


@dataclass(frozen=True)
class Run:
    """One rule with one beta over the data once."""

    name: str
    beta: float
    certificate: Certificate
    progressive: Array  # the average loss after each round
    mistakes: int


def data(seed: int = 0) -> tuple[Array, Array]:
    """Features of norm 1 with a constant among them, labels -1 and +1, shuffled."""
    x, y = load_breast_cancer(return_X_y=True)
    x = np.hstack([StandardScaler().fit_transform(x), np.ones((len(x), 1))])
    order = np.random.default_rng(seed).permutation(len(y))
    return (x / np.linalg.norm(x, axis=1, keepdims=True))[order], np.where(y == 1, 1.0, -1.0)[order]


def rules(beta: float) -> dict[str, dict[str, Any]]:
    """The rules compared, by name."""
    temporal = schedules.TemporalVariability(beta=beta, gradient_bound=1.0)
    found: dict[str, dict[str, Any]] = {}
    for name, cls in updates.BY_NAME.items():
        for label, lookahead in (("H", True), ("H'", False)):
            found[f"{name} {label}"] = {"update": cls(lookahead=lookahead), "schedule": temporal}
    safe = updates.TwoStep(lookahead=True, safeguard=True)
    found["twostep safe H"] = {"update": safe, "schedule": temporal}
    found["curvature"] = {"regularizer": regularizers.Curvature(), "schedule": schedules.Constant(beta)}
    return found


def runs(s: Array, y: Array, betas: tuple[float, ...], progress: Progress | None = None) -> list[Run]:
    """Every rule with every beta."""
    jobs = [(beta, name, parts) for beta in betas for name, parts in rules(beta).items()]
    task = progress.add_task("learning", total=len(jobs)) if progress else None
    result = []
    for beta, name, parts in jobs:
        learner = Learner(s.shape[1], **parts)
        steps = [learner.observe(LOSS, features, label) for features, label in zip(s, y, strict=True)]
        progressive = np.cumsum([step.loss for step in steps]) / np.arange(1, len(y) + 1)
        wrong = np.array([step.prediction for step in steps]) * y <= 0.0
        result.append(Run(name, beta, learner.certificate, progressive, int(wrong.sum())))
        if progress and task is not None:
            progress.advance(task)
    return result


def best_in_ball(s: Array, y: Array, radius: float) -> Array:
    """The model of norm at most radius with the least total loss, found by seeing all the data at once."""

    def total(u: Array) -> tuple[float, Array]:
        margin = y * (s @ u)
        return float(np.logaddexp(0.0, -margin).sum()), -s.T @ (y * 0.5 * (1.0 - np.tanh(0.5 * margin)))

    inside = {"type": "ineq", "fun": lambda u: radius**2 - u @ u, "jac": lambda u: -2.0 * u}
    return np.asarray(minimize(total, np.zeros(s.shape[1]), jac=True, method="SLSQP", constraints=inside).x)


def new_table(title: str, *columns: str) -> Table:
    """A table of numbers with names on the left."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=not i)
    return table


def progressive_table(results: list[Run]) -> Table:
    """The progressive loss at a few rounds."""
    n = len(results[0].progressive)
    rounds = [*(t for t in (16, 64, 256) if t < n), n]
    title = f"Progressive logistic loss, beta = {SHOWN:g}: mean of the first t"
    table = new_table(title, "update", *(f"t = {t}" for t in rounds), "mistakes")
    for run in results:
        table.add_row(run.name, *(f"{run.progressive[t - 1]:.4f}" for t in rounds), str(run.mistakes))
    return table


def sensitivity_table(results: list[Run]) -> Table:
    """The loss of the whole pass for each beta; the best of each column in green."""
    names = list(dict.fromkeys(run.name for run in results))
    loss = {(run.name, run.beta): run.progressive[-1] for run in results}
    table = new_table("The whole pass, for each beta", "update", *(f"{beta:g}" for beta in BETAS))
    for name in names:
        cells = []
        for beta in BETAS:
            best = min(loss[other, beta] for other in names)
            cells.append(
                f"[green]{loss[name, beta]:.4f}[/]" if loss[name, beta] <= best + 5e-5 else f"{loss[name, beta]:.4f}"
            )
        table.add_row(name, *cells)
    return table


def certificate_table(results: list[Run], u: Array, optimum: float) -> Table:
    """What each run proves, beside the truth that it did not need to know."""
    n = len(results[0].progressive)
    title = f"What each run proves, beta = {SHOWN:g}, per example (*: in hindsight)"
    table = new_table(title, "update", "loss", "best >=", "best *", "regret <=", "regret *", "gain")
    for run in results:
        c = run.certificate
        numbers = (
            c.loss_sum,
            c.best_loss_lower_bound(RADIUS),
            optimum,
            c.regret_bound(u),
            c.loss_sum - optimum,
            c.delta_sum,
        )
        table.add_row(run.name, *(f"{number / n:.4f}" for number in numbers))
    return table


def terms_table(run: Run, u: Array) -> Table:
    """Theorem 3.1, term by term."""
    terms = run.certificate.theorem_terms(u)
    table = new_table(f"Theorem 3.1 for '{run.name}' at u: which term dominates", *terms._fields, "sum = bound")
    table.add_row(*(f"{value:.3f}" for value in terms), f"{run.certificate.regret_bound(u):.3f}")
    return table


def main() -> None:
    """Run and print."""
    console = Console()
    s, y = data()
    console.print(f"[bold]giftrl[/] on breast cancer: {len(y)} examples, {s.shape[1]} features, one pass\n")
    with Progress(console=console, transient=True) as progress:
        results = runs(s, y, BETAS, progress)
    u = best_in_ball(s, y, RADIUS)
    optimum = float(np.logaddexp(0.0, -y * (s @ u)).sum())
    shown = [run for run in results if run.beta == SHOWN]
    console.print(progressive_table(shown), "")
    console.print(sensitivity_table(results), "")
    console.print(certificate_table(shown, u, optimum), "")
    console.print(terms_table(min(shown, key=lambda run: run.certificate.loss_sum), u))
    console.print(
        f"\nbest >= and regret <= are proved in the one pass: for every model of norm\n"
        f"{RADIUS:g}, and for u, the best of them, which the run never knew. Columns with *\n"
        "are computed in hindsight. gain: how much the choice of z lowers the bound\n"
        "against z = g, under H or H'."
    )


if __name__ == "__main__":
    main()
