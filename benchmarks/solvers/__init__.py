"""The solvers: giftrl, the rivals, and the floors."""

from benchmarks.solvers.contract import Solver, Timing
from benchmarks.solvers.floors import Floor
from benchmarks.solvers.ours import Many, Mixed, One
from benchmarks.solvers.rivals import RiverOne, ScikitLearn, VowpalWabbit

__all__ = ["SOLVERS", "Solver", "Timing"]

_all: tuple[Solver, ...] = (
    *(Floor(kind) for kind in ("", "unsigned", "single")),
    *(One("squared_norm", update) for update in ("linear", "truncated", "proximal")),
    *(One("curvature", update) for update in ("truncated", "proximal")),
    *(Mixed(preset) for preset in ("default", "light")),
    *(
        Many(regularizer, update, models)
        for regularizer in ("squared_norm", "curvature")
        for update in ("truncated", "proximal")
        for models in (8, 16)
    ),
    VowpalWabbit(),
    VowpalWabbit("--sgd"),
    ScikitLearn("float32", False),
    ScikitLearn("float32", True),
    ScikitLearn("float64", False),
    RiverOne(),
)

#: Every solver by its key, in the order of the table.
SOLVERS: dict[str, Solver] = {solver.key: solver for solver in _all}
