"""The bound for data beyond memory: examples are read repeatedly, and every pass computes a dual for each example.

The slopes at any model are duals, so every pass gives a bound. :func:`by_passes` runs Newton's method for the least
loss F in a ball, with a pass for each point. With few features, a pass also adds up the matrix of second derivatives.
With many, a step uses the curvature of a random part of the examples (:class:`DataSample`). With F_S its loss, scaled
to the weight of all examples, and g the gradient of F at z, the point after z minimises

    F_S(v) + <g - grad F_S(z), v> + (damping/2)|v - z|^2     over the ball:

its gradient at z is that of F, and its curvature nearly so (Shamir, Srebro and Zhang 2014, DANE). The damping falls
after a full step, and rises after a shortened one.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from giftrl.certificates.bound import Array, BestLoss, Units, conjugates, lower_bound, price
from giftrl.certificates.evidence import Evidence
from giftrl.certificates.problem import BallProblem, ScaledRows, loss_sum, slopes
from giftrl.certificates.row_record import Examples
from giftrl.certificates.solver import CLOSED_GAP_OF_ZERO, newton_step, solve
from giftrl.errors import require
from giftrl.ops.loss import kinked

#: Up to this many coordinates a pass adds up the matrix of second derivatives.
MAX_HESSIAN_COORDINATES = 2000
#: The factor by which smoothing falls, and the minimum smoothing, relative to the smoothing that moves predictions by
#: as much as their losses.
SMOOTHING_FACTOR, MIN_SMOOTHING = 0.25, 1e-4
#: A smoothed problem is solved when its own gap is this share of the whole gap.
SMOOTHED_GAP_SHARE = 0.3
#: The gap at which the passes end, as a share of the solution: for a smooth loss, and for one with kinks.
CLOSED_GAP, CLOSED_GAP_WITH_KINKS = 1e-6, 3e-4
#: The least damping of steps for a loss with kinks, and the first damping of steps from a random part of the examples.
MIN_DAMPING, FIRST_SAMPLED_DAMPING = 1e-4, 0.1
#: The maximum number of passes without a better bound, and of attempts to shorten a step.
MAX_IDLE_PASSES, MAX_ATTEMPTS = 6, 8
#: The fractions of a step at which a pass adds up the loss as well.
STEP_FRACTIONS = (0.7, 0.45, 0.25, 0.12, 0.05, 0.02, 0.005, 0.001)

#: Called after each pass with the number of passes and the best bound so far.
Watch = Callable[[int, float], None]


class DataSample:
    """All examples if they fit in memory, else a random sample.

    Each example has a random key between 0 and 1, and is stored if the key is below ``share``, which is 1 at first. If
    there are more than ``most`` stored entries, the share is halved and examples with larger keys are dropped.
    """

    def __init__(self, most: int) -> None:
        self.most, self.share, self.entries = most, 1.0, 0
        self._random = np.random.default_rng(0)
        self._blocks: list[tuple[Examples, Array]] = []

    def add(self, examples: Examples) -> None:
        """Add the next examples."""
        self._store(examples, self._random.random(len(examples.labels)))
        while self.entries > self.most:
            self.share *= 0.5
            earlier, self._blocks, self.entries = self._blocks, [], 0
            for block, keys in earlier:
                self._store(block, keys)

    def _store(self, examples: Examples, keys: Array) -> None:
        chosen = keys < self.share
        if not chosen.all():
            examples, keys = examples.only(chosen), keys[chosen]
        if len(keys):
            self._blocks.append((examples, keys))
            self.entries += len(examples.data)

    def rows(self) -> Examples:
        """The stored examples in order. There must be some."""
        if len(self._blocks) > 1:
            blocks, keys = zip(*self._blocks, strict=True)
            self._blocks = [(Examples.joined(list(blocks)), np.concatenate(keys))]
        return self._blocks[0][0]


class Pass(NamedTuple):
    """The sums of one pass over all examples at a model u."""

    evidence: Evidence  # evidence with every example committed; its dual is its slope at u
    value: float  # the sum of smoothed losses of u
    loss: float  # the sum of losses of u
    hessian: Array | None  # second derivatives of the smoothed losses, in the coordinates of the present units
    along: Array  # the sums of smoothed losses of models on the way to u


@np.errstate(all="ignore")
def by_passes(
    empty: Evidence,
    blocks: Callable[[], Iterable[Examples]],
    model: Array,
    *,
    scale: float = 1.0,
    time_limit: float = 60.0,
    gap: float = 0.0,
    sample: Examples | None = None,
    watch: Watch | None = None,
) -> BestLoss:
    """:meth:`giftrl.certificates.Evidence.best_loss` for examples that are read repeatedly instead of stored.

    Args:
        empty: evidence without examples, with the feature sums of all examples.
        blocks: a function that reads all examples, the same in each call.
        model: weights, d or d x K.
        scale: the size of the other models as a multiple of the size of ``model``.
        time_limit: in seconds; later, no new pass begins except the first.
        gap: stop if the loss of ``model`` is within this share of the lower bound.
        sample: a random part of the examples, needed for many features.
        watch: called after each pass.

    >>> rows, labels = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]]), np.array([0.0, 1.0, 5.0])
    >>> evidence = Evidence.of_rows("squared", rows, labels, constant=0)
    >>> best = by_passes(evidence.without_rows(), lambda: [evidence.examples], np.array([0.0, 1.0]))
    >>> round(best.lower_bound, 6), best.loss_sum, best.passes < 6
    (1.964325, 2.0, True)
    """
    require(0.0 <= scale < math.inf, "scale", scale, "must be finite and not negative", "try scale=1.0")
    balls = [(units, scale * units.norm(model)) for units in empty.units()]
    state = _Passes(empty, blocks, model, balls, time.monotonic() + time_limit, gap, sample, watch)
    state.run()
    bound, (units, radius) = max(zip(state.bounds, balls, strict=True), key=lambda pair: pair[0])
    return BestLoss(
        lower_bound=max(bound, state.least) + 0.0, loss_sum=state.loss, weight=empty.weight, rows=state.rows,
        rows_kept=0, units=units.name, radius=radius, solver=f"{state.passes} passes", scale=scale, least=state.least,
        passes=state.passes,
    )  # fmt: skip


class _Passes:
    """Newton's method with a pass over the data per point; tracks the best bound of each ball."""

    def __init__(
        self, empty: Evidence, blocks: Callable[[], Iterable[Examples]], model: Array,
        balls: list[tuple[Units, float]], end: float, gap: float, sample: Examples | None, watch: Watch | None,
    ) -> None:  # fmt: skip
        self.empty, self.blocks, self.model, self.balls, self.end = empty, blocks, model, balls, end
        self.gap, self.sample, self.watch, self.passes, self.rows, self.idle = gap, sample, watch, 0, 0, 0
        self.smooth, self.eps, self.rough = not kinked(empty.loss), 0.0, 0.0
        self.direct = model.size <= MAX_HESSIAN_COORDINATES
        self.damping = MIN_DAMPING  # damping, relative to the curvature
        self.units, self.radius = balls[0]
        self.bounds, self.at = [-math.inf] * len(balls), 0  # the best bound of each ball, and the present ball
        self.upper = math.inf  # the least loss in the present ball
        self.loss, self.zero, self.least = math.nan, 0.0, -math.inf  # of the model, and of 0; the sum of infima

    def run(self) -> None:
        """Read until the bound reaches the target or its maximum, or time is up."""
        here = self.read(self.model)
        self.loss = here.loss
        squares, loss = here.evidence.dual_squares, min(here.loss, self.zero)
        if not self.smooth:  # moves predictions by about as much as their losses
            self.rough = loss / squares if squares > 0.0 and 0.0 < loss < math.inf else 1.0
        u = self.model if here.loss <= self.zero else np.zeros_like(self.model)
        for number, (units, radius) in enumerate(self.balls):
            self.at, self.units, self.radius = number, units, radius
            self.features = np.flatnonzero(units.scale > 0.0)
            z = self.coordinates(u)
            norm = float(np.linalg.norm(z))
            self.upper, self.idle, self.eps = math.inf, 0, SMOOTHING_FACTOR * self.rough
            if self.finished or not math.isfinite(norm + radius):
                return
            if not self.direct and self.sample is not None:
                everywhere = np.ones(len(units.scale))
                self.sampled = ScaledRows(self.sample.matrix(len(everywhere)), units, everywhere)
                self.damping = FIRST_SAMPLED_DAMPING
            z = z * min(1.0, radius / norm) if norm > 0.0 else z
            again = not self.smooth or self.passes > 1 or not np.array_equal(z, self.coordinates(self.model))
            here = self.read(self.whole(z)) if again else here
            self.upper = min(self.upper, here.loss)
            z = self.minimise(z, here)
            if float(np.linalg.norm(z)) < 0.999 * radius:
                return  # the ball does not matter
            u = self.whole(z)

    def minimise(self, z: Array, here: Pass) -> Array:
        """Newton's method from z on, in one ball."""
        sharpest = MIN_SMOOTHING * self.rough
        while not self.finished:
            theta = self.units.compared(self.units.dual(here.evidence.theta))[self.features]
            unsolved = price(float(np.linalg.norm(theta)), self.radius) - float(np.vdot(theta, z))
            if self.eps > 0.0 and unsolved <= SMOOTHED_GAP_SHARE * (here.loss - self.bounds[self.at]):
                self.eps = max(SMOOTHING_FACTOR * self.eps, sharpest)
                here = here._replace(value=here.loss)  # an upper bound on the loss with less smoothing
            step = self.step(here, z, theta)
            slope = -float(np.vdot(theta, step))
            if slope < -1e-15 * abs(here.value) and self.advance(here, z, step, slope):
                z, here = self.z, self.here
            elif self.eps > sharpest and not self.finished:
                self.eps = max(SMOOTHING_FACTOR * self.eps, sharpest)
                here = self.read(self.whole(z))
            else:
                break
        return z

    def coordinates(self, u: Array) -> Array:
        """The coordinates of a model, without features that never occur."""
        out: Array = self.units.coordinates(self.units.compared(u))[self.features]
        return out

    def step(self, here: Pass, z: Array, theta: Array) -> Array:
        """The next step from z; theta is minus the gradient."""
        if here.hessian is not None:
            if not np.isfinite(here.hessian).all():
                return np.zeros_like(z)
            # A loss with kinks has almost no curvature in some directions, so undamped steps would be too long.
            ridge = 0.0 if self.smooth else self.damping * float(np.trace(here.hessian)) / len(here.hessian)
            return newton_step(here.hessian, -theta.ravel(), z.ravel(), self.radius, ridge).reshape(z.shape)
        if self.direct or self.sample is None:
            return np.zeros_like(z)
        loss, rows, (*_, labels, weights) = self.empty.loss, self.sampled, self.sample
        weight = math.fsum(weights)
        weights = (self.empty.weight / weight if weight > 0.0 else 1.0) * weights
        p = rows.scores(z)
        a, _, bend = slopes(loss, labels, weights, p, self.eps, np.zeros_like(p))
        # In units of the curvature of one feature: for K scores, the squared slopes are about that.
        ridge = self.damping * float(weights @ (bend if a.ndim == 1 else (a * a).sum(axis=1)))
        linear = theta + rows.gather((a.T * weights).T) + ridge * z
        model = BallProblem(loss, rows, labels, weights, linear, self.radius, ridge)
        out: Array = solve(model, z, max(0.5 * (self.end - time.monotonic()), 1.0), 50).z - z
        return out

    def advance(self, here: Pass, z: Array, step: Array, slope: float) -> bool:
        """Take a step, shortened until the loss falls enough; return False if it never does. Each attempt is a pass."""
        length = 1.0
        for _ in range(MAX_ATTEMPTS):
            if self.finished:
                return False
            self.z = z + length * step
            # A smoothed loss is piecewise quadratic, and full steps are often too long.
            full_step = self.whole(step) if self.eps > 0.0 and length == 1.0 else None
            self.here = self.read(self.whole(self.z), full_step)
            self.upper = min(self.upper, self.here.loss)
            if self.here.value <= here.value + 1e-4 * length * slope + 1e-14 * abs(here.value):
                if self.direct:
                    longer = 0.25 if length == 1.0 else min(1.0 / length, 32.0)
                    self.damping = max(MIN_DAMPING, self.damping * longer)
                else:
                    self.damping *= 0.25 if length == 1.0 else 8.0
                return True
            if len(self.here.along):
                length *= STEP_FRACTIONS[int(np.argmin(self.here.along))]
                continue
            # The minimum of the parabola through the two values, with the slope at the first.
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
        """Run a pass at a model.

        If ``step`` led to it, the losses after :data:`STEP_FRACTIONS` of the step are added up too.
        """
        evidence, value, loss, hessian, before = self.empty, 0.0, 0.0, None, self.bounds[self.at]
        along = np.zeros(0 if step is None else len(STEP_FRACTIONS))
        for block in self.blocks():
            rows, (*_, labels, weights) = block.matrix(len(u)), block
            p = np.asarray(rows @ u)
            origin = np.zeros_like(p)
            a, smoothed, bend = slopes(evidence.loss, labels, weights, p, self.eps, origin)
            value += smoothed
            loss += loss_sum(evidence.loss, labels, weights, p)
            if self.passes == 0:
                self.zero += loss_sum(evidence.loss, labels, weights, origin)
            if step is not None:
                q = np.asarray(rows @ step)
                shorter = (p - (1.0 - part) * q for part in STEP_FRACTIONS)
                along += [slopes(evidence.loss, labels, weights, each, self.eps, origin)[1] for each in shorter]
            if self.direct and (self.smooth or self.eps > 0.0):
                # Every feature has a coordinate, whether or not it occurs in these rows.
                scaled = ScaledRows(rows, self.units, np.ones(len(u)))
                problem = BallProblem(evidence.loss, scaled, labels, weights, u, math.inf)
                part = problem.hessian(p, self.eps, origin, bend)
                hessian = part if hessian is None else hessian + part
            if not np.isfinite(conjugates(evidence.loss, p, labels, a)).all():
                a = np.zeros_like(a)  # scores beyond float64: the dual 0 is always in the domain
            evidence = replace(evidence, examples=block).commit(np.ones(len(labels), bool), a)
        self.passes, self.rows, self.least = self.passes + 1, evidence.committed, evidence.infimum
        none = np.empty((0, *u.shape[1:]))
        bounds = [lower_bound(evidence, none, units, radius) for units, radius in self.balls]
        self.bounds = [max(pair) for pair in zip(self.bounds, bounds, strict=True)]
        gain = max(self.bounds[self.at] - before, self.upper - loss)
        self.idle = 0 if gain > 1e-3 * (self.upper - before) else self.idle + 1
        if self.watch is not None:
            self.watch(self.passes, max(*self.bounds, self.least))
        return Pass(evidence, value, loss, hessian, along)

    @property
    def finished(self) -> bool:
        """True if the gap is closed or time is up."""
        excess = max(*self.bounds, self.least) - self.least
        if self.gap > 0.0 and self.loss - self.least <= (1.0 + self.gap) * excess:
            return True
        small, bound = CLOSED_GAP_OF_ZERO * abs(self.zero), self.bounds[self.at]
        if time.monotonic() >= self.end or self.idle >= MAX_IDLE_PASSES:
            return True
        # No bound for the present ball exceeds a loss in it.
        if self.upper <= max(*self.bounds, self.least + small):
            return True
        share = CLOSED_GAP if self.smooth else CLOSED_GAP_WITH_KINKS
        return self.upper - bound <= max(share * min(abs(bound), abs(self.upper)), small)
