"""The paper's figures: within reach of the published ones with the setting that was found, and not without it."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from giftrl.cli.commands import command_of
from giftrl.errors import InvalidInput
from giftrl.paper import PAPER, compare, points, rules, temporal
from giftrl.paper.claims import judge
from giftrl.paper.curves import REPETITIONS, choices, schedules_and_regularizers
from giftrl.paper.experiments import VARIANTS, ablate
from giftrl.paper.panels import available, bundled
from giftrl.sweeps import Grid, Summary, repeat

command = command_of("reproduce")

DATA = os.environ.get("GIFTRL_DATA")
no_data = pytest.mark.skipif(DATA is None, reason="GIFTRL_DATA does not name a folder with the paper's data sets")


def needs_data(test):
    """Skipped where there is no data; whole figures are slow."""
    return pytest.mark.verify(no_data(test))


def run(panel, curves, repetitions=REPETITIONS):
    load = dict(available(Path(DATA)))[panel]
    return repeat(load(), Grid(panel.loss, curves, panel.betas), repetitions)


def test_every_published_point_lies_on_the_grid_and_on_the_axis_of_its_panel():
    count = 0
    for panel in PAPER:
        for update, curve in points(panel.loss, panel.dataset).items():
            assert update in {rule.name for rule in rules(panel.loss)}
            for beta, loss in curve:
                assert any(math.isclose(beta, found, rel_tol=1e-9) for found in panel.betas)
                assert panel.axis[0] <= loss <= panel.axis[1]
                count += panel.dataset != "bng_stock"
    curves = [points(p.loss, p.dataset) for p in PAPER if p.dataset != "bng_stock"]
    assert (sum(map(len, curves)), count) == (29, 301)


@needs_data
@pytest.mark.parametrize("panel", [panel for panel in PAPER if panel.dataset != "bng_stock"], ids=lambda p: p.name)
def test_the_found_setting_reproduces_every_published_curve(panel):
    distances = compare(panel, run(panel, rules(panel.loss)))
    assert len(distances) == (3 if panel.loss == "logistic" else 4)
    for distance in distances:
        assert distance.reproduced, distance


@needs_data
def test_without_the_floor_two_step_is_far_from_its_curve():
    for panel in PAPER[2], PAPER[6]:
        literal = {d.update: d for d in compare(panel, run(panel, rules(panel.loss, "literal"), 3))}
        assert literal["twostep"].largest > 0.5
        assert literal["truncated"].reproduced and literal["proximal"].reproduced


@needs_data
def test_every_part_of_the_setting_is_needed():
    results = {found.variant: found for found in ablate(Path(DATA), 2, only=("phishing", "abalone"))}
    assert set(results) == set(VARIANTS) and results["as found"].mean < 0.002
    for name, found in results.items():
        if name in ("as found", "two-step with H'"):
            assert found.mean < 1.2 * found.before
        else:
            assert found.mean > 1.2 * found.before, found


@needs_data
def test_curvature_forgives_beta_and_beats_the_published_rules_on_the_logistic_loss():
    panel = PAPER[5]
    paper, more = run(panel, rules("logistic"), 3), run(panel, schedules_and_regularizers("logistic"), 3)
    k = more.curve("curvature")
    assert more.best_loss(k) < 0.95 * min(paper.best_loss(j) for j in range(3))
    assert more.good_range(k).decades > 2.0


@needs_data
def test_truncated_iwa_and_proximal_are_one_rule_on_hinge_for_the_same_objective():
    found = run(PAPER[2], choices("hinge"), 2)
    runs = {name: found.runs[:, found.curve(name)] for name in found.names}
    for name in ("truncated", "iwa"):
        assert runs[name] == pytest.approx(runs["proximal H'"], rel=1e-9)
    assert runs["iwa H"] == pytest.approx(runs["proximal"], rel=1e-9)
    # With H they part where the slope at x_t is 0 and the shrunk point has a loss: truncated does not see it.
    assert runs["truncated H"] == pytest.approx(runs["proximal"], rel=1e-4)
    assert not np.array_equal(runs["truncated H"], runs["proximal"])


def test_a_folder_without_data_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="must hold at least one of a9a"):
        available(tmp_path)
    (tmp_path / "phishing").write_text("0 1:1\n1 2:1\n")
    assert [panel.loss for panel, _ in available(tmp_path)] == ["hinge", "logistic"]


def test_the_bundled_data_is_ready_to_learn_from():
    for panel, load in bundled():
        data = load()
        assert np.linalg.norm(data.x, axis=1) == pytest.approx(np.ones(data.rows))
        assert panel.loss == "absolute" or set(data.y) == {-1.0, 1.0}


def summaries(linear, twostep, others, width):
    """Panels with made-up curves: what follows from them is known."""
    found = {}
    for panel in PAPER[:8]:
        curves = {"linear": linear, "truncated": others, "twostep": twostep}
        if panel.loss != "logistic":
            curves["proximal"] = others
        mean = np.array(list(curves.values()))
        noise = np.full(mean.shape, width)
        found[panel] = Summary(tuple(curves), (0.1, 1.0, 10.0, 100.0), np.array([mean - noise, mean, mean + noise]))
    return found


def test_verdicts_follow_from_the_curves():
    good = summaries([3.0, 2.0, 9.0, 99.0], [1.0, 0.9, 0.9, 0.9], [2.0, 1.0, 1.2, 1.2], 1e-4)
    assert {v.verdict for v in judge(good)} == {"holds"} and len(judge(good)) == 6
    bad = summaries([1.0, 0.9, 0.9, 0.9], [3.0, 2.0, 9.0, 99.0], [2.0, 1.0, 1.2, 1.2], 0.1)
    verdicts = {v.claim: v.verdict for v in judge(bad)}
    assert verdicts.pop("truncated and proximal are equal on hinge") == "holds"
    assert set(verdicts.values()) == {"fails"}
    hinge = {panel: summary for panel, summary in good.items() if panel.loss == "hinge"}
    assert "two-step is essentially the best in regression" not in {v.claim for v in judge(hinge)}


@pytest.mark.parametrize("sequence", temporal.SEQUENCES)
def test_the_corollary_is_never_below_the_regret(sequence):
    path = temporal.follow(sequence, "proximal, temporal schedule", 600)
    assert path.rounds[-1] == 600
    for regret, bound in zip(path.regret, path.bound, strict=True):
        assert regret <= bound + 1e-9


def test_regret_stays_constant_where_losses_do_not_move_and_linear_pays_sqrt_t():
    paths = {(path.sequence, path.rule): path for path in temporal.run(2048)}
    proximal, linear = "proximal, temporal schedule", "linear, sqrt schedule"
    fixed = paths["fixed", proximal].regret
    assert fixed[-1] == pytest.approx(fixed[2], abs=1e-9)
    assert temporal.growth(paths["fixed", linear]) == pytest.approx(0.5, abs=0.03)
    assert paths["fixed", linear].regret[-1] > 20.0 * fixed[-1]
    # The drift moves the losses by about log T in all; the regret follows it and not sqrt(T).
    assert temporal.growth(paths["drift", proximal]) < 0.1 < temporal.growth(paths["drift", linear])
    # Where losses move in every round there is no free lunch.
    assert temporal.growth(paths["switch", proximal]) == pytest.approx(0.5, abs=0.05)


@pytest.mark.verify
def test_the_command_ends_in_a_page_and_goes_on_where_it_stopped(tmp_path):
    arguments = ["--quick", "--repetitions", "2", "--out", str(tmp_path)]
    ran = CliRunner().invoke(command, arguments, catch_exceptions=False, env={"GIFTRL_DATA": None})
    assert ran.exit_code == 0 and f"open {tmp_path / 'index.html'}" in ran.output
    page = (tmp_path / "index.html").read_text()
    for panel, _ in bundled():
        assert panel.title in page and (tmp_path / f"{panel.name}-found.csv").is_file()
    verdicts = (tmp_path / "claims.html").read_text()
    claim = "linear is the most sensitive to beta"
    assert claim in verdicts and claim not in ran.output + page and "Corollary 4.3" in ran.output
    again = CliRunner().invoke(command, arguments, catch_exceptions=False, env={"GIFTRL_DATA": None})
    assert "30 of 30 repetitions were read from an earlier run" in again.output
