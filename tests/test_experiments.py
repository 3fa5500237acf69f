"""The experiments, run as a user runs them."""

import subprocess
import sys

import numpy as np

from experiments.breast_cancer import best_in_ball, data, rules, runs
from giftrl import updates


def test_make_runs_job_prints_a_table_row_for_each_rule_and_the_certificate():
    command = [sys.executable, "-m", "experiments.breast_cancer"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env={"COLUMNS": "80"}).stdout
    lines = printed.splitlines()
    assert max(len(line) for line in lines) <= 80
    for name in rules(1.0):
        assert sum(name in line for line in lines) >= 3, f"{name} must be in each of the three tables"
    assert "Theorem 3.1" in printed
    assert "nan" not in printed


def test_implicit_rules_forgive_a_beta_that_ruins_the_linear_one():
    s, y = data()
    found = {run.name: run for run in runs(s, y, (1000.0,))}
    assert set(found) == set(rules(1.0)) and len(found) == 2 * len(updates.BY_NAME) + 2
    assert found["linear H'"].progressive[-1] > 1.0
    for name in ("proximal H", "truncated H'", "iwa H", "twostep safe H", "curvature"):
        assert found[name].progressive[-1] < 0.25
    u = best_in_ball(s, y, 15.0)
    assert np.linalg.norm(u) <= 15.0 + 1e-6
    optimum = float(np.logaddexp(0.0, -y * (s @ u)).sum())
    for run in found.values():
        c = run.certificate
        assert c.best_loss_lower_bound(15.0) <= optimum + 1e-6
        assert c.loss_sum - optimum <= c.regret_bound(u) + 1e-6
