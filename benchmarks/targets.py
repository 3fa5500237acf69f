"""The targets for the speed of giftrl, and whether they are reached.

Some are for every data set. A single model has its own on long sparse rows (``rcv1_like``), where walking over entries
takes most of the time, and on dense rows (``covtype``).
"""

from typing import NamedTuple

from benchmarks.timing import Result

__all__ = ["Check", "checks"]

SINGLE = (
    "squared_norm-linear", "squared_norm-truncated", "squared_norm-proximal", "curvature-truncated",
    "curvature-proximal",
)  # fmt: skip

#: The most that a model may take, in times of a floor, by data set.
FLOORS: dict[str, list[tuple[str, str, float]]] = {
    "rcv1_like": [
        ("squared_norm-linear", "floor", 1.4),
        ("squared_norm-linear", "floor-unsigned", 1.4),
        ("squared_norm-truncated", "floor", 1.4),
        ("squared_norm-truncated", "floor-unsigned", 1.4),
        ("squared_norm-proximal", "floor", 1.5),
        ("squared_norm-proximal", "floor-unsigned", 1.5),
        ("curvature-proximal", "floor", 2.0),
        ("curvature-proximal", "floor-unsigned", 1.8),
    ],
    "covtype": [(key, "floor", 2.5) for key in SINGLE],
}


class Check(NamedTuple):
    """A target and the ratio that was measured.

    >>> Check("linear", "floor", "<=", 1.4, 1.2, None).reached
    True
    """

    what: str
    against: str
    relation: str  # "<=" or ">="
    target: float
    measured: float  # the ratio of the times of whole calls; for rivals, of the smaller of their two times
    inner: float | None  # the ratio with our compiled loop alone

    @property
    def reached(self) -> bool:
        """Whether the measured ratio reaches the target."""
        return self.measured <= self.target if self.relation == "<=" else self.measured >= self.target


def checks(data: str, results: list[Result]) -> list[Check]:
    """Every target on a data set for which both times were measured. The ratios are ratios of medians.

    >>> from benchmarks.solvers import Timing
    >>> ours = Result("squared_norm-linear", "giftrl linear", timings=[Timing(3.0, 2.0)])
    >>> [c.measured for c in checks("covtype", [ours, Result("floor", "floor", timings=[Timing(2.0, 2.0)])])]
    [1.5]
    """
    timed = {result.key: result for result in results if result.timings}
    made: list[Check] = []

    def cost(key: str, against: str, target: float) -> None:
        """Our time divided by another time of ours or by that of a floor."""
        if key in timed and against in timed:
            ours, other = timed[key], timed[against]
            inner = ours.inner / other.inner if ours.inner and other.inner else None
            made.append(Check(ours.name, other.name, "<=", target, ours.seconds / other.seconds, inner))

    def rival(keys: list[str], ours: str, target: float) -> None:
        """The time of the fastest of these rivals divided by ours."""
        rivals = [timed[key] for key in keys if key in timed]
        if rivals and ours in timed:
            best, mine = min(rivals, key=lambda result: result.kinder), timed[ours]
            name = best.name if len(keys) == 1 else f"the quickest {best.name.split(',')[0]}"
            inner = best.kinder / mine.inner if mine.inner else None
            made.append(Check(name, mine.name, ">=", target, best.kinder / mine.seconds, inner))

    for key, floor, target in FLOORS.get(data, []):
        cost(key, floor, target)
    for regularizer in ("squared_norm", "curvature"):
        for update in ("truncated", "proximal"):
            for models, target in ((8, 3.0), (16, 5.0)):
                cost(f"{regularizer}-{update}-{models}", f"{regularizer}-{update}", target)
    cost("auto-default", "curvature-proximal", 3.0)
    cost("auto-light", "curvature-proximal", 1.8)
    rival(["vw"], "auto-default", 1.0)
    rival([key for key in timed if key.startswith("sklearn")], "squared_norm-linear", 1.0)
    if data == "rcv1_like":
        for key in ("vw", "vw-sgd"):
            rival([key], "squared_norm-proximal", 5.0)
            rival([key], "curvature-proximal", 4.0)
        rival(["river"], "squared_norm-proximal", 100.0)
    return made
