"""The tables of a reproduction: the names of the columns, and the rows as text."""

import math

from giftrl.paper import temporal
from giftrl.paper.reproduce import Reproduction
from giftrl.reports import number

Table = tuple[tuple[str, ...], list[list[str]]]


def distances(result: Reproduction) -> Table:
    """A row for each published curve: its distances to the measured one, and whether it is reproduced."""
    head = ("panel", "update", "points", "median distance", "largest distance", "at beta", "reproduced")
    return head, [
        [
            d.panel.removeprefix("Figure "), d.update, str(d.points), f"{100 * d.median:.2f}%",
            f"{100 * d.largest:.2f}%", f"{d.at:.3g}", "yes" if d.reproduced else "no",
        ]
        for d in result.distances
    ]  # fmt: skip


def claims(result: Reproduction) -> Table:
    """A row for each claim and reading: claim, reading, verdict and evidence."""
    names = dict.fromkeys(v.claim for verdicts in result.verdicts.values() for v in verdicts)
    return ("claim", "reading", "verdict", "evidence"), [
        [claim, reading, v.verdict, v.evidence]
        for claim in names
        for reading, verdicts in result.verdicts.items()
        for v in verdicts
        if v.claim == claim
    ]


def fair(result: Reproduction) -> Table:
    """A row for each panel and rule: the tuned loss and the loss at the largest beta, without and with the floor."""
    head = ("panel", "rule", "tuned", "tuned, floor for all", "largest beta", "largest beta, floor for all")
    rows = []
    for panel, with_floor in result.readings["fair"].items():
        without = result.readings["found"][panel]
        for k, name in enumerate(without.names):
            tuned = without.best_loss(k), with_floor.best_loss(k)
            last = float(without.mean[k, -1]), float(with_floor.mean[k, -1])
            rows.append([panel.title.removeprefix("Figure "), name, *(number(loss) for loss in (*tuned, *last))])
    return head, rows


def paths(result: Reproduction) -> Table:
    """A row for each sequence and rule: the regret, the exponent of its growth, and the bound if there is one."""
    return ("sequence", "rule", "T", "regret", "exponent of T", "Corollary 4.3"), [
        [
            path.sequence, path.rule, str(path.rounds[-1]), number(path.regret[-1], 2),
            f"{temporal.growth(path):.2f}", "" if math.isnan(path.bound[-1]) else number(path.bound[-1], 2),
        ]
        for path in result.paths
    ]  # fmt: skip


def ablations(result: Reproduction) -> Table:
    """A row for each variant: mean distance of a point, the same as found, the largest, and the curves reproduced."""

    def share(value: float) -> str:
        return f"{value:.2%}" if value <= 10.0 else "over 1000%"

    return ("variant", "mean distance", "as found", "largest distance", "curves reproduced"), [
        [a.variant, share(a.mean), share(a.before), share(a.largest), f"{a.reproduced} of {a.curves}"]
        for a in result.ablations
    ]
