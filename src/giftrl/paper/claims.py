"""The paper's claims, each with a measurement on the panels and the verdict that follows from it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from giftrl.paper.panels import PaperPanel
from giftrl.sweeps import Summary

Results = Mapping[PaperPanel, Summary]

#: A difference in loss too small for a figure.
INVISIBLE_DIFFERENCE = 1e-3
#: The paper: "confidence intervals below 0.01".
NARROW_INTERVAL = 0.01
#: The share that counts as "almost uniformly" and as "mostly".
MOSTLY_SHARE = 0.9


class Verdict(NamedTuple):
    """A claim, the verdict (``holds``, ``mostly``, ``partly`` or ``fails``), and the numbers behind it."""

    claim: str
    verdict: str
    evidence: str


def judge(results: Results) -> list[Verdict]:
    """A verdict on each claim about which these panels say anything.

    >>> from giftrl.paper.panels import PAPER
    >>> runs = np.array([[[3.0, 2.0, 9.0], [3.0, 1.0, 2.0]], [[3.0, 2.0, 8.0], [3.0, 1.0, 2.0]]])
    >>> judge({PAPER[3]: Summary(("linear", "truncated"), (0.1, 1.0, 10.0), runs)})[0]
    Verdict(claim='linear is the most sensitive to beta', verdict='partly',
            evidence='narrowest range of good betas in 0 of 1 panels; steepest rise to the largest beta in 1 of 1')
    """
    return [Verdict(claim, *answer) for claim, measure in CLAIMS.items() if (answer := measure(results))]


def sensitive(results: Results) -> tuple[str, str] | None:
    """Test that linear is the most sensitive to beta: the narrowest range of good betas, and the steepest rise."""
    narrow = steep = 0
    for summary in results.values():
        widths = [summary.good_range(k).decades for k in range(len(summary.names))]
        rises = [float(summary.mean[k, -1]) / summary.best_loss(k) for k in range(len(summary.names))]
        at = summary.curve("linear")
        narrow += all(widths[at] < width for k, width in enumerate(widths) if k != at)
        steep += all(rises[at] > rise for k, rise in enumerate(rises) if k != at)
    n = len(results)
    evidence = (
        f"narrowest range of good betas in {narrow} of {n} panels; "
        f"steepest rise to the largest beta in {steep} of {n}"
    )  # fmt: skip
    return _graded(narrow + steep, 2 * n), evidence


def worse(results: Results) -> tuple[str, str] | None:
    """Test that linear is worse than every other rule, beyond both confidence intervals, at almost every beta."""
    parts, total_worse, total = [], 0, 0
    for loss in dict.fromkeys(panel.loss for panel in results):
        below = above = n = 0
        for summary in (summary for panel, summary in results.items() if panel.loss == loss):
            at, half = summary.curve("linear"), np.nan_to_num(summary.half_width)
            gap = summary.mean[at] - np.delete(summary.mean, at, axis=0)
            margin = half[at] + np.delete(half, at, axis=0)
            above += int((gap > margin).all(axis=0).sum())
            below += int((gap < -margin).all(axis=0).sum())
            n += len(summary.betas)
        parts.append(f"{loss}: worse than every other at {above}, better than every other at {below} of {n} betas")
        total_worse, total = total_worse + above, total + n
    share = total_worse / total
    return "holds" if share >= MOSTLY_SHARE else "fails" if share < 0.5 else "partly", "; ".join(parts)


def same_on_hinge(results: Results) -> tuple[str, str] | None:
    """Test that truncated and proximal are equal on the hinge loss."""
    hinge = [s for p, s in results.items() if p.loss == "hinge" and {"truncated", "proximal"} <= set(s.names)]
    if not hinge:
        return None
    gap = max(float(np.abs(s.mean[s.curve("truncated")] - s.mean[s.curve("proximal")]).max()) for s in hinge)
    evidence = f"largest difference {gap:.1e}, truncated with H' and proximal with H"
    return "holds" if gap <= INVISIBLE_DIFFERENCE else "fails", evidence


def two_step_best(results: Results, losses: tuple[str, ...]) -> tuple[str, str] | None:
    """Test that two-step has the lowest loss, both with its best beta and with the largest beta."""
    parts, won, asked = [], 0, 0
    for loss in losses:
        panels = [s for p, s in results.items() if p.loss == loss and "twostep" in s.names]
        if not panels:
            continue
        tuned = last = 0
        for s in panels:
            at = s.curve("twostep")
            others = [k for k in range(len(s.names)) if k != at]
            tuned += s.best_loss(at) <= min(s.best_loss(k) for k in others)
            last += bool(s.mean[at, -1] <= s.mean[others, -1].min())
        n = len(panels)
        parts.append(f"{loss}: lowest tuned loss in {tuned} of {n} panels, lowest at the largest beta in {last} of {n}")
        won, asked = won + tuned + last, asked + 2 * n
    return (_graded(won, asked), "; ".join(parts)) if asked else None


def narrow_intervals(results: Results) -> tuple[str, str] | None:
    """Test that half the width of every confidence interval of the implicit rules is below 0.01."""
    parts, good = [], []
    for losses, name in ((("hinge", "logistic"), "classification"), (("absolute",), "regression")):
        widths = [
            max(zip(s.half_width[k], s.mean[k], strict=True))
            for p, s in results.items()
            for k, rule in enumerate(s.names)
            if p.loss in losses and rule in ("truncated", "proximal", "twostep") and s.repetitions > 1
        ]
        if widths:
            width, mean = max(widths)
            good.append(width < NARROW_INTERVAL)
            parts.append(f"{name}: at most {width:.2g}, which is {width / mean:.1%} of the loss there")
    return (_graded(sum(good), len(good)), "; ".join(parts)) if good else None


CLAIMS: dict[str, Callable[[Results], tuple[str, str] | None]] = {
    "linear is the most sensitive to beta": sensitive,
    "linear is almost uniformly worse": worse,
    "truncated and proximal are equal on hinge": same_on_hinge,
    "two-step is remarkable in classification": lambda results: two_step_best(results, ("hinge", "logistic")),
    "two-step is essentially the best in regression": lambda results: two_step_best(results, ("absolute",)),
    "confidence intervals of implicit rules are below 0.01": narrow_intervals,
}


def _graded(yes: int, of: int) -> str:
    return "holds" if yes == of else "mostly" if yes >= MOSTLY_SHARE * of else "fails" if yes == 0 else "partly"
