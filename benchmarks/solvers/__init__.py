"""The solvers: giftrl, the rivals, and the floors."""

from benchmarks.solvers.contract import Solver, Timing
from benchmarks.solvers.floors import Floor
from benchmarks.solvers.ours import Mixed, One
from benchmarks.solvers.rivals import RiverOne, ScikitLearn, VowpalWabbit

__all__ = ["SOLVERS", "Solver", "Timing"]

_all: tuple[Solver, ...] = (
    Floor(unsigned=False),
    Floor(unsigned=True),
    *(One("squared_norm", update) for update in ("linear", "truncated", "proximal")),
    *(One("curvature", update) for update in ("truncated", "proximal")),
    *(Mixed(preset) for preset in ("default", "light")),
    *(
        One(regularizer, update, models)
        for regularizer in ("squared_norm", "curvature")
        for update in ("truncated", "proximal")
        for models in (8, 16)
    ),
    VowpalWabbit(),
    VowpalWabbit("--sgd"),
    ScikitLearn("float32"),
    ScikitLearn("float64"),
    RiverOne(),
)

#: Every solver by its key, in the order of the table.
SOLVERS: dict[str, Solver] = {solver.key: solver for solver in _all}
