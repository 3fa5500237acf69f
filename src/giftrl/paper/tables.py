"""The tables of a reproduction: their columns, and their rows as text."""

import math

from giftrl.paper import temporal
from giftrl.paper.reproduce import Reproduction
from giftrl.reports import number

__all__ = [
    "ABLATIONS", "CLAIMS", "DISTANCES", "FAIR", "TEMPORAL",
    "ablation_rows", "claim_rows", "distance_rows", "fair_rows", "temporal_rows",
]  # fmt: skip

DISTANCES = ("panel", "update", "points", "median distance", "largest distance", "at beta", "reproduced")
ABLATIONS = ("variant", "mean distance", "as found", "largest distance", "curves reproduced")
CLAIMS = ("claim", "reading", "verdict", "evidence")
FAIR = ("panel", "rule", "tuned", "tuned, floor for all", "largest beta", "largest beta, floor for all")
TEMPORAL = ("sequence", "rule", "T", "regret", "exponent of T", "Corollary 4.3")


def distance_rows(result: Reproduction) -> list[list[str]]:
    """A row for each published curve: panel, update, points, median and largest distance, and if it is reproduced."""
    return [
        [
            d.panel.removeprefix("Figure "), d.update, str(d.points), f"{100 * d.median:.2f}%",
            f"{100 * d.largest:.2f}%", f"{d.at:.3g}", "yes" if d.reproduced else "no",
        ]
        for d in result.distances
    ]  # fmt: skip


def claim_rows(result: Reproduction) -> list[list[str]]:
    """A row for each claim and reading: claim, reading, verdict and evidence."""
    claims = dict.fromkeys(v.claim for verdicts in result.verdicts.values() for v in verdicts)
    return [
        [claim, reading, v.verdict, v.evidence]
        for claim in claims
        for reading, verdicts in result.verdicts.items()
        for v in verdicts
        if v.claim == claim
    ]


def fair_rows(result: Reproduction) -> list[list[str]]:
    """A row for each panel and rule: the tuned loss and the loss at the largest beta, without and with the floor."""
    rows = []
    for panel, fair in result.readings["fair"].items():
        without = result.readings["found"][panel]
        for k, name in enumerate(without.names):
            losses = (without.best_loss(k), fair.best_loss(k), float(without.mean[k, -1]), float(fair.mean[k, -1]))
            rows.append([panel.title.removeprefix("Figure "), name, *(number(loss) for loss in losses)])
    return rows


def temporal_rows(result: Reproduction) -> list[list[str]]:
    """A row for each sequence and rule: the regret, the exponent of its growth, and the bound if there is one."""
    return [
        [
            path.sequence, path.rule, str(path.rounds[-1]), number(path.regret[-1], 2),
            f"{temporal.growth(path):.2f}", "" if math.isnan(path.bound[-1]) else number(path.bound[-1], 2),
        ]
        for path in result.paths
    ]  # fmt: skip


def ablation_rows(result: Reproduction) -> list[list[str]]:
    """A row for each variant: mean distance of a point, the same as found, the largest, and the curves reproduced."""
    return [
        [a.variant, _share(a.mean), _share(a.before), _share(a.largest), f"{a.reproduced} of {a.curves}"]
        for a in result.ablations
    ]


def _share(value: float) -> str:
    return f"{value:.2%}" if value <= 10.0 else "over 1000%"
