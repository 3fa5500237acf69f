"""The slow twin of a mixture with one score: whole arrays, one expert after the other."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.losses import Logistic
from giftrl.mixtures import PRESETS, Extended
from giftrl.ops import loss as operations
from giftrl.ops.loss import curvature, prox, slope, value
from tests.members import is_classification

Array = NDArray[np.float64]


class ExactLogistic(Logistic):
    """The logistic loss with steps of the experts that are exactly proximal, as those of the twin are."""

    def approach_all(self, side: Any, p: Any, y: float, c: Any, g: Any, a: Any) -> None:
        for k in range(len(p)):
            a[k] = prox(self, p[k], y, c[k])


def exact(loss: Any) -> Any:
    """A loss of which a mixture is equal to its twin."""
    return ExactLogistic() if isinstance(loss, Logistic) else loss


def strengths(expert: Any, norm: float, q: Array, r: Array) -> Array:
    """L_j of an expert of the grid."""
    found: Array = expert.prior * norm + expert.curve * q + expert.root * math.sqrt(norm) * np.sqrt(1.0 + r)
    return found


def ada_hedge(total: Array, gap: float, losses: Array | None = None) -> tuple[Array, float]:
    """The weights, and with the losses of a round the gap after it."""
    n = len(total)
    first = total.min() + 1e-9 * abs(total.min())  # leaders are equal up to rounding
    w = (total <= first).astype(float) if gap == 0.0 else np.exp(-math.log(n) / gap * (total - total.min()))
    w /= w.sum()
    if losses is None:
        return w, gap
    mean, eta = float(w @ losses), math.log(n) / gap if gap > 0.0 else math.inf
    low = losses[w > 0.0].min()
    mix = low if gap == 0.0 else low - math.log(float(w @ np.exp(-eta * (losses - low)))) / eta
    return w, gap + max(0.0, mean - mix)


class Twin:
    """The mixture with every array written out: no views, no lists of dense features, one expert after the other."""

    def __init__(self, dimension: int, loss: Any, constant: int | None, options: dict[str, Any]) -> None:
        self.loss, self.constant = loss, constant
        self.margin = is_classification(loss)
        self.boost = operations.boost(loss) if self.margin else 1.0
        chosen = PRESETS[options.get("preset", "default")]
        self.grid = chosen.experts
        self.count, self.total, self.m, self.mu, self.q, self.r = np.zeros((6, dimension))
        self.dense = np.zeros(dimension, bool)
        self.t, self.norm = 0, 0.0
        self.w = np.zeros((len(self.grid), dimension))
        self.theta, self.slopes, self.won = np.zeros((3, dimension))  # of the coin
        self.coin, self.full = len(self.grid) == 8, chosen.places > 0
        self.inverse, self.ridge, self.prior = (
            np.zeros((dimension, dimension)),
            np.zeros(dimension),
            np.zeros(dimension),
        )
        n = len(self.grid) + self.coin + self.full
        self.offsets, self.totals, self.gap = np.zeros(n), np.zeros(n), 0.0
        self.stack, self.covariance = np.full(n, 1.0 / n), 0.1 * np.eye(n)
        self.last, self.last_gap = np.zeros(4 if self.boost > 1.0 else 2), 0.0
        self.labels: list[tuple[float, float]] = []
        self.o = self.origin = 0.0
        self.spread = self.steep = 1.0 if self.margin else 0.0
        if self.margin:
            self.steep = max(1.0, abs(slope(loss, 0.0, 1.0)))
        reach = operations.reach(loss)
        self.low, self.high = (-reach, reach) if self.margin else (math.inf, -math.inf)
        self.fragile = False  # whether rounding has decided who leads while the gap was 0
        self.later: list[tuple[Array, Array]] = []  # weights after each round of a later pass
        self.judged = np.zeros(4)  # weight, and weighted sums of residuals, slopes and their products

    def enter(self, v: Array) -> tuple[Array, Array]:
        """u and the drift of a row; the experts follow the scales."""
        self.t += 1
        present = v != 0.0
        self.count += present
        self.total += v
        was = self.dense.copy()
        if self.constant is not None:
            self.dense |= present & (self.count >= 0.5 * self.t + 0.5)
            self.dense &= self.count >= 0.4 * self.t + 0.5
            self.dense[self.constant] = False
        target = np.where(self.dense, self.total / self.t, 0.0)
        reference = np.where(was, self.mu, target)
        away = np.where(self.dense, np.abs(v - reference), np.abs(v))
        away[away <= np.where(self.dense, 1e-12 * np.abs(reference), 0.0)] = 0.0
        m = np.maximum(self.m, away)
        grown = m > self.m
        factor = np.where(grown, self.m / np.where(m > 0.0, m, 1.0), 1.0)
        norm = self.norm if self.norm > 0.0 else 1.0
        for k, expert in enumerate(self.grid):
            before = strengths(expert, norm, self.q, self.r)
            self.w[k] *= factor * before / strengths(expert, norm, factor**2 * self.q, factor**2 * self.r)
        self.q *= factor**2
        self.r *= factor**2
        self.theta *= factor
        self.slopes *= factor
        for j in np.flatnonzero(grown & (self.prior > 0.0)):
            most = math.sqrt(self.prior[j] / self.inverse[j, j])
            g = max(1.0, min(1.0 / factor[j], most))
            self.inverse[j] *= g
            self.inverse[:, j] *= g
            self.ridge[j] *= factor[j] * g * g
        self.m, safe = m, np.where(m > 0.0, m, 1.0)
        together = self.constant is not None and not self.margin
        still = together & was & self.dense
        u = np.where(m > 0.0, (v - target) / safe, 0.0)
        drift = np.where((m > 0.0) & ~still, (target - self.mu) / safe, 0.0)
        self.mu = target
        self.norm += (float(u @ u) - self.norm) / self.t
        return u, drift

    def weights(self) -> Array:
        """Every expert's weights on the u, one a row."""
        bets = (self.spread or 1.0) / (self.norm or 1.0) * (4.0 + self.won) * self.theta / (1.0 + self.slopes)
        found: Array = np.vstack([self.w, *[bets] * self.coin, *[self.ridge] * self.full])
        return found

    def combine(self, p: Array) -> tuple[float, float, Array]:
        """The combined prediction before it is clipped, that of the stack, and the candidates."""
        z = p - self.origin
        f = [float(ada_hedge(self.totals, self.gap)[0] @ z), float(self.stack @ z)]
        last = self.origin + np.array(f + ([self.boost * x for x in f] if self.boost > 1.0 else []))
        return float(ada_hedge(self.last, self.last_gap)[0] @ last), self.origin + f[-1], last

    def predict(self, v: Array) -> float:
        """The prediction for a row that is not learnt from, not clipped."""
        u = np.where(self.m > 0.0, (v - self.mu) / np.where(self.m > 0.0, self.m, 1.0), 0.0)
        return self.combine(self.weights() @ u + self.offsets + self.o)[0]

    def learn(self, v: Array, y: float, h: float) -> float:
        """The prediction, then learn."""
        loss = self.loss
        u, drift = self.enter(v)
        self.offsets += self.weights() @ drift
        p = self.weights() @ u + self.offsets + self.o
        combined, f, last = self.combine(p)
        begun = self.low <= self.high
        final = min(max(combined, self.low), self.high) if begun else 0.0
        if begun:
            low, high = (self.low, self.high) if self.high < math.inf else (-30.0, 30.0)
            for name, found in (("totals", p), ("last", last)):
                losses = np.array([h * value(loss, min(max(x, low), high), y) for x in found])
                gap = "gap" if name == "totals" else "last_gap"
                self.fragile |= 0.0 < np.ptp(losses) <= 1e-12 * losses.max() and getattr(self, gap) <= 1e-12
                setattr(self, gap, ada_hedge(getattr(self, name), getattr(self, gap), losses)[1])
                setattr(self, name, getattr(self, name) + losses)
            residual, g = operations.spread(loss, y, final), abs(slope(loss, final, y))
            self.judged += h * np.array([1.0, residual, g, residual * g])
        span = self.high - self.low if begun else math.inf
        if not self.margin:
            self.low, self.high = min(self.low, operations.lowest(loss, y)), max(self.high, operations.highest(loss, y))
        longer = self.longer(max(0.0, self.high - self.low - span) if span < math.inf else 0.0)
        spread, steep = self.spread or 1.0, self.steep or 1.0
        bend = self.bend(final, y)
        if begun:
            tau = 1.0 if self.margin else max(self.judged[3] / self.judged[0], 1e-6 * spread * steep)
            self.covariance = self.newton(self.covariance, self.stack, p - self.origin, longer, f, y, h, bend, tau)
        if self.spread > 0.0 and self.steep > 0.0:
            self.teach(u, p, longer, final, y, h, bend)
        self.witness(y, h)
        return final

    def longer(self, beyond: float = 0.0) -> Extended:
        """The loss from which the experts learn, so far beyond the range of labels."""
        return Extended(self.loss, self.low - beyond, self.high + beyond)

    def bend(self, final: float, y: float) -> float:
        """The curvature at the combined prediction, or that of the parabola in its place."""
        if not operations.kinked(self.loss):
            return float(curvature(self.loss, final, y))
        weight, residual, g, _ = self.judged
        away = 1.0 if self.margin else max(residual / max(weight, 1e-300), 1e-3 * (self.spread or 1.0))
        return float(g / weight / away) if weight > 0.0 else 0.0

    def learn_again(self, v: Array, y: float, h: float) -> float:
        """The prediction for a row of a later pass, then learn."""
        u = np.where(self.m > 0.0, (v - self.mu) / np.where(self.m > 0.0, self.m, 1.0), 0.0)
        seen = np.where(self.dense, self.t, self.count)
        pulled = ((v != 0.0) | self.dense) & (seen > 0.0) & (np.arange(len(v)) != self.constant)
        for k, expert in enumerate(self.grid):
            first, now = (strengths(expert, self.norm or 1.0, q, r) for q, r in ((0.0, 0.0), (self.q, self.r)))
            self.w[k] *= np.where(pulled, 1.0 - first / (now * np.maximum(seen, 1.0)), 1.0)
        p = self.weights() @ u + self.offsets + self.o
        final = min(max(self.combine(p)[0], self.low), self.high) if self.low <= self.high else 0.0
        if self.spread > 0.0 and self.steep > 0.0:
            self.teach(u, p, self.longer(), final, y, h, self.bend(final, y), again=True)
        self.later.append((self.w.copy(), self.ridge.copy()))
        return final

    def settle(self) -> None:
        """The mean over all later rounds, in the place of the weights."""
        self.w, self.ridge = (np.mean(found, axis=0) for found in zip(*self.later, strict=True))

    @staticmethod
    def newton(
        a: Array, x: Array, u: Array, longer: Any, p: float, y: float, h: float, bend: float, unit: float
    ) -> Array:
        """A proximal step of x in the metric of the inverse of a, in place; a with the curvature taken in."""
        au = a @ u
        c = float(u @ au)
        x -= h * longer.prox(p, y, h * c / unit) / unit * au
        k = h * bend / unit
        found: Array = a - k / (1.0 + k * c) * np.outer(au, au)
        return found

    def teach(
        self, u: Array, p: Array, longer: Any, final: float, y: float, h: float, bend: float, again: bool = False
    ) -> None:
        """A round of every expert."""
        kappa = self.steep / self.spread
        x = self.weights()
        for k, expert in enumerate(self.grid):
            steps = u / strengths(expert, self.norm or 1.0, self.q, self.r)
            self.w[k] -= h * longer.prox(float(p[k]), y, h * float(u @ steps) / kappa) / kappa * steps
        self.q += h * bend / kappa * u**2
        self.r += (h * longer.slope(final, y) / self.steep * u) ** 2
        if self.coin and not again:
            coin = len(self.grid)
            z = min(1.0, max(-1.0, h * longer.slope(float(p[coin]), y) / self.steep)) * u
            self.won = np.clip(self.won - z * x[coin] * (self.norm or 1.0) / self.spread, 0.0, 1e12)
            self.theta -= z
            self.slopes += np.abs(z)
        if self.full:
            new = (u != 0.0) & (self.prior == 0.0)
            self.prior[new] = 100.0 / (self.norm or 1.0)
            self.inverse[new, new] = self.prior[new]
            self.inverse = self.newton(self.inverse, self.ridge, u, longer, float(p[-1]), y, h, bend, kappa)

    def witness(self, y: float, h: float) -> None:
        """The means of labels, and of their spread and slopes, each at the constant prediction before it."""
        if self.margin:
            return
        loss, first = self.loss, not self.labels
        self.labels.append((y, h))
        weight = math.fsum(k for _, k in self.labels)
        mean = math.fsum(k * label for label, k in self.labels) / weight
        centre = self.constant is not None
        if not (first and centre):
            known = self.spread > 0.0 and self.steep > 0.0
            part = h / weight if known else 1.0
            self.spread += part * (operations.spread(loss, y, self.o) - self.spread)
            self.steep += part * (abs(slope(loss, self.o, y)) - self.steep)
        if centre:
            self.o = operations.offset(loss, mean, weight)
            self.origin = self.o if first else self.origin
