"""The bound for rows that do not fit in memory: they are read again and again, with a dual for each row every time."""

import math
import time
from collections.abc import Callable, Iterable

import numpy as np

from giftrl.certificates.ball import newton_step, price
from giftrl.certificates.best_loss import BestLoss
from giftrl.certificates.blocks import Block
from giftrl.certificates.bound import lower_bound
from giftrl.certificates.kept import Kept
from giftrl.certificates.one_pass import LENGTHS, Pass
from giftrl.certificates.sampled import Sampled
from giftrl.certificates.solver import LEAST
from giftrl.certificates.units import Array
from giftrl.errors import require
from giftrl.ops.loss_scale import kinked

#: Up to this many coordinates a pass adds up the matrix of second derivatives.
DIRECT = 2000
#: The factor by which smoothing falls, and the least smoothing, as a share of what moves predictions by their loss.
FASTER, SHARPEST = 0.25, 1e-4
#: A smoothed problem is solved when its own gap is this share of the whole gap.
SOLVED = 0.3
#: The gap at which the passes end, as a share of the solution: for a smooth loss, and for one with kinks.
GAP, ROUGH_GAP = 1e-6, 3e-4
#: The least damping of steps for a loss with kinks.
LIGHTEST = 1e-4
#: How many passes in a row may leave the bound where it is, and how many tries a step has.
PATIENCE, TRIES = 6, 8

#: Called after each pass with the number of passes and the best bound so far.
Watch = Callable[[int, float], None]


@np.errstate(all="ignore")
def by_passes(
    empty: Kept,
    blocks: Callable[[], Iterable[Block]],
    model: Array,
    *,
    scale: float = 1.0,
    time_limit: float = 60.0,
    gap: float = 0.0,
    sample: Block | None = None,
    watch: Watch | None = None,
) -> BestLoss:
    """:meth:`giftrl.certificates.kept.Kept.best_loss` for rows that are read again and again instead of being kept.

    The slopes at any model are duals, so every pass gives a bound, and the best one is kept. The models of the passes
    are those of Newton's method for the least loss in the ball. With few features a pass also adds up the matrix of
    second derivatives; with many, the next model comes from :class:`giftrl.certificates.sampled.Sampled`.

    Args:
        empty: a record without rows, whose sums over features are those of all rows.
        blocks: reads all rows, the same ones each time.
        model: weights, d or d x K.
        scale: how many times the size of ``model`` the others may have.
        time_limit: no pass but the first begins after so many seconds.
        gap: the passes end when the loss of ``model`` is proved to be within this part of the best.
        sample: a random part of the rows, needed where there are many features.
        watch: called after each pass.

    >>> rows, labels = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]]), np.array([0.0, 1.0, 5.0])
    >>> kept = Kept.of_rows("squared", rows, labels, constant=0)
    >>> block = Block(kept.data, kept.indices, kept.indptr, labels, np.ones(3))
    >>> best = by_passes(kept.without_rows(), lambda: [block], np.array([0.0, 1.0]))
    >>> round(best.lower_bound, 6), best.loss_sum, best.passes < 6
    (1.964325, 2.0, True)
    """
    require(0.0 <= scale < math.inf, "scale", scale, "must be finite and not negative", "try scale=1.0")
    walk = _Walk(empty, blocks, model, scale, time.monotonic() + time_limit, gap, sample, watch)
    walk.run()
    by = max(range(len(walk.bounds)), key=walk.bounds.__getitem__)
    units, radius = walk.balls[by]
    return BestLoss(
        lower_bound=max(walk.bounds[by], walk.least) + 0.0, loss_sum=walk.loss, weight=empty.weight, rows=walk.rows,
        rows_kept=0, units=units.name, radius=radius, solver=f"{walk.passes} passes", scale=scale, least=walk.least,
        passes=walk.passes,
    )  # fmt: skip


class _Walk:
    """Where the passes have come to."""

    def __init__(
        self, empty: Kept, blocks: Callable[[], Iterable[Block]], model: Array, scale: float, end: float, gap: float,
        sample: Block | None, watch: Watch | None,
    ) -> None:  # fmt: skip
        self.empty, self.blocks, self.model, self.end, self.wanted = empty, blocks, model, end, gap
        self.watch, self.passes, self.rows, self.idle = watch, 0, 0, 0
        self.balls = [(units, scale * units.norm(model)) for units in empty.units()]
        self.smooth, self.eps, self.rough = not kinked(empty.loss), 0.0, 0.0
        columns = 1 if model.ndim == 1 else model.shape[1]
        self.direct, self.sample = columns * len(model) <= DIRECT, sample
        self.sampled: Sampled | None = None
        self.damping = LIGHTEST  # a part of the mean curvature, added to it where the loss has kinks
        self.units, self.radius = self.balls[0]
        self.bounds, self.at = [-math.inf] * len(self.balls), 0  # the best bound of each ball, and the present ball
        # The least loss met in the present ball; that of the model, and of 0; the sum of infima.
        self.upper = math.inf
        self.loss, self.zero, self.least = math.nan, math.nan, -math.inf

    def run(self) -> None:
        """Read until the bound is as high as wanted or possible, or the time is over."""
        here = self.read(self.model)
        self.loss, self.zero = here.loss, here.zero
        squares, loss = here.kept.dual_squares, min(here.loss, here.zero)
        if not self.smooth:  # predictions are moved by about as much as their losses are
            self.rough = loss / squares if squares > 0.0 and 0.0 < loss < math.inf else 1.0
        u = self.model if here.loss <= here.zero else np.zeros_like(self.model)
        for number, (units, radius) in enumerate(self.balls):
            self.at, self.units, self.radius = number, units, radius
            self.features = np.flatnonzero(self.units.scale > 0.0)
            z = self.coordinates(u)
            norm = float(np.linalg.norm(z))
            self.upper, self.idle, self.eps = math.inf, 0, FASTER * self.rough
            if self.finished or not math.isfinite(norm + self.radius):
                return
            if not self.direct and self.sample is not None:
                self.sampled = Sampled(self.empty, self.sample, self.units, self.radius)
            z = z * min(1.0, self.radius / norm) if norm > 0.0 else z
            again = not self.smooth or self.passes > 1 or not np.array_equal(z, self.coordinates(self.model))
            here = self.read(self.whole(z)) if again else here
            self.upper = min(self.upper, here.loss)
            z = self.walk(z, here)
            if float(np.linalg.norm(z)) < 0.999 * self.radius:
                return  # the ball does not matter
            u = self.whole(z)

    def walk(self, z: Array, here: Pass) -> Array:
        """Newton's method from z on, in one ball."""
        sharpest = SHARPEST * self.rough
        while not self.finished:
            theta = self.units.compared(self.units.dual(here.kept.theta))[self.features]
            unsolved = price(float(np.linalg.norm(theta)), self.radius) - float(np.vdot(theta, z))
            if self.eps > 0.0 and unsolved <= SOLVED * (here.loss - self.bounds[self.at]):
                self.eps = max(FASTER * self.eps, sharpest)
                here = here._replace(value=here.loss)  # which the loss that is smoothed less is not above
            step = self.step(here, z, theta)
            slope = -float(np.vdot(theta, step))
            if slope < -1e-15 * abs(here.value) and self.advance(here, z, step, slope):
                z, here = self.z, self.here
            elif self.eps > sharpest and not self.finished:
                self.eps = max(FASTER * self.eps, sharpest)
                here = self.read(self.whole(z))
            else:
                break
        return z

    def coordinates(self, u: Array) -> Array:
        """The coordinates of a model, without those of features that all rows lack."""
        out: Array = self.units.coordinates(self.units.compared(u))[self.features]
        return out

    def step(self, here: Pass, z: Array, theta: Array) -> Array:
        """Where to go from z."""
        if here.hessian is not None:
            if not np.isfinite(here.hessian).all():
                return np.zeros_like(z)
            # A loss with kinks has next to no curvature in some directions, and steps would be far too long there.
            ridge = 0.0 if self.smooth else self.damping * float(np.trace(here.hessian)) / len(here.hessian)
            return newton_step(here.hessian, -theta.ravel(), z.ravel(), self.radius, ridge).reshape(z.shape)
        if self.sampled is not None:
            return self.sampled.step(z, theta, self.eps, self.end - time.monotonic())
        return np.zeros_like(z)

    def advance(self, here: Pass, z: Array, step: Array, slope: float) -> bool:
        """Go along a step as far as that is good; each try is a pass. Whether it was."""
        length = 1.0
        for _ in range(TRIES):
            if self.finished:
                return False
            self.z = z + length * step
            # A smoothed loss is quadratic in pieces, and whole steps are often too long.
            looking = self.whole(step) if self.eps > 0.0 and length == 1.0 else None
            self.here = self.read(self.whole(self.z), looking)
            self.upper = min(self.upper, self.here.loss)
            if self.here.value <= here.value + 1e-4 * length * slope + 1e-14 * abs(here.value):
                self.damping = max(LIGHTEST, self.damping * (0.25 if length == 1.0 else min(1.0 / length, 32.0)))
                if self.sampled is not None:
                    self.sampled.trust(length == 1.0)
                return True
            if self.here.along:
                length *= LENGTHS[int(np.argmin(self.here.along))]
                continue
            # The least point of the parabola through the two values, with the slope at the first.
            over = self.here.value - here.value - length * slope
            least = -0.5 * slope * length / over if over < math.inf else 0.1
            length *= min(0.5, max(0.1, least))
        return False

    def whole(self, z: Array) -> Array:
        """The model with these coordinates."""
        coordinates = np.zeros(self.model.shape)
        coordinates[self.features] = z
        return self.units.model(coordinates)

    def read(self, u: Array, step: Array | None = None) -> Pass:
        """A pass at a model, to which a step may have led."""
        bent = self.units if self.direct and (self.smooth or self.eps > 0.0) else None
        done = Pass.over(self.empty, self.blocks(), u, self.eps, bent, step)
        self.passes, self.rows, self.least = self.passes + 1, done.kept.committed, done.kept.infimum
        none, before = np.empty((0, *u.shape[1:])), self.bounds[self.at]
        found = [lower_bound(done.kept, none, units, radius) for units, radius in self.balls]
        self.bounds = [max(pair) for pair in zip(self.bounds, found, strict=True)]
        gain = max(self.bounds[self.at] - before, self.upper - done.loss)
        self.idle = 0 if gain > 1e-3 * (self.upper - before) else self.idle + 1
        if self.watch is not None:
            self.watch(self.passes, max(*self.bounds, self.least))
        return done

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to gain, or no time for it."""
        excess = max(*self.bounds, self.least) - self.least
        if self.wanted > 0.0 and self.loss - self.least <= (1.0 + self.wanted) * excess:
            return True
        small, bound = LEAST * abs(self.zero), self.bounds[self.at]
        if time.monotonic() >= self.end or self.idle >= PATIENCE:
            return True
        # No bound about the present ball is above a loss that was met in it.
        if self.upper <= max(*self.bounds, self.least + small):
            return True
        share = GAP if self.smooth else ROUGH_GAP
        return self.upper - bound <= max(share * min(abs(bound), abs(self.upper)), small)
