"""Mixtures for K scores as tests see them: streams, learners, and a slow twin with whole matrices."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.compiled.rows import as_rows
from giftrl.kernels.base import aligned_zeros
from giftrl.losses import MulticlassHinge, Softmax
from giftrl.mixtures.experts import hedge, observe, rate
from giftrl.mixtures.feature_state import (
    CENTRE,
    DENSE_PLACE,
    ONE_SCORE,
    ROWS,
    SCALE,
    Pieces,
    entries,
    no_features,
    scale_row,
    with_capacity,
)
from giftrl.mixtures.mixture import MulticlassMixture
from tests.multiclass import filled


def stream(rows=60, features=4, classes=3, seed=0, scale=1.0, signal=1.0):
    """Rows whose last feature is the constant and whose second is often absent, and classes that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)) * scale
    x[:, 1] *= rng.random(rows) < 0.3
    x[:, 0] += 2.0 * scale
    x[:, -1] = 1.0
    scores = signal * x @ rng.normal(size=(features, classes)) / scale + rng.gumbel(size=(rows, classes))
    return x, scores.argmax(axis=1)


def mixture(x, classes=3, loss="softmax", **options):
    made = {"constant": x.shape[1] - 1, "dtype": "float64", "compiled": False} | options
    return MulticlassMixture(x.shape[1], classes, loss, **made)


class AdaHedge:
    """Weights for experts from their losses so far."""

    def __init__(self, experts: int) -> None:
        self.total = np.zeros(experts)
        self.gap = 0.0
        self.loss = 0.0

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights for the next round."""
        weights: NDArray[np.float64] = hedge(self.total, self._rate)
        return weights

    @property
    def _rate(self) -> float:
        return rate(math.log(len(self.total)), self.gap)

    def observe(self, losses: ArrayLike) -> None:
        """Update the weights by the losses of a round."""
        given, weights = np.asarray(losses, np.float64), self.weights
        self.loss += float(weights @ given)
        self.gap = observe(self._rate, self.gap, weights, given)
        self.total += given

    @property
    def regret(self) -> float:
        """The sum of the weighted mean losses, less the total loss of the best expert."""
        return self.loss - float(self.total.min())


class Twin:
    """The same rounds with whole matrices, precisions in place of inverses, and nothing in place."""

    GRID = [(b, 4.0, None) for b in (1.0, 10.0, 100.0, 1000.0)] + [(10.0, 1.0, None)]
    GRID += [(None, None, b) for b in (0.3, 10.0, 1000.0)]

    def __init__(self, features, classes, loss):
        self.loss, self.classes = loss, classes
        self.features = with_capacity(no_features(aligned_zeros(features, ONE_SCORE.total, float)), features, features)
        n = len(self.GRID)
        self.x = np.zeros((n, features, classes))
        self.q, self.z2 = np.zeros((2, features))
        self.theta, self.slopes, self.wealth = np.zeros((3, features, classes))
        self.precisions = [np.zeros((0, 0))] * classes
        self.places, self.priors, self.full = [], [], np.zeros((0, classes))
        self.offsets = np.zeros((n + 2, classes))
        self.experts, self.last = AdaHedge(n + 2), AdaHedge(4)
        self.v, self.precision = np.full(n + 2, 1.0 / (n + 2)), 10.0 * np.eye(n + 2)
        self.later = []  # weights after each round of a later pass
        self.means, self.weight, self.norm = np.zeros(classes), 0.0, 1.0
        self.reach, self.boost = (1.0, 10.0) if isinstance(loss, MulticlassHinge) else (np.inf, 1.25)

    def strengths(self, q, z2, norm):
        return np.array(
            [
                (norm / beta + q) / rho if root is None else np.sqrt(norm * (1.0 + z2)) / root
                for beta, rho, root in self.GRID
            ]
        )

    def read(self, x):
        """u and drift as whole vectors; the parts follow scales that have grown."""
        rows, _ = as_rows(x[None, :], len(x))
        room, how = entries(4 * len(x), float), Pieces(len(x) - 1, True, 1.0, False)
        count = int(scale_row(self.features, ONE_SCORE, self.features.x, how, rows, 0, room))
        u, drift = np.zeros((2, len(x)))
        u[room.j[:count].astype(int)] = room.u[:count]
        for listed in range(int(room.many[0])):
            j, factor = int(room.j[room.moved[listed]]), room.growth[listed]
            drift[j] = room.drift[listed]
            if factor == 1.0:
                continue
            old = self.strengths(self.q[j], self.z2[j], self.norm)
            self.q[j] *= factor**2
            self.z2[j] *= factor**2
            self.x[:, j] *= (factor * old / self.strengths(self.q[j], self.z2[j], self.norm))[:, None]
            self.theta[j] *= factor
            self.slopes[j] *= factor
            if j in self.places:
                s = self.places.index(j)
                for m in range(self.classes):
                    variance = np.linalg.inv(self.precisions[m])[s, s]
                    most = np.sqrt(self.priors[s] / variance)
                    growth = max(1.0, min(1.0 / factor, most) if factor > 0.0 else most)
                    units = np.ones(len(self.places))
                    units[s] = 1.0 / growth
                    self.precisions[m] = self.precisions[m] * np.outer(units, units)
                    self.full[s, m] *= factor * growth**2
        norm = float(self.features.counts[1])
        self.norm = norm if norm > 0.0 else 1.0
        return u, drift

    def read_again(self, x):
        """u of a row of a later pass; the weights of its features are pulled towards 0."""
        record = self.features.record
        dense, seen = record[:, DENSE_PLACE] > 0.0, self.features.x[:, int(ONE_SCORE.count)].copy()
        seen[dense] = self.features.counts[ROWS]
        pulled = ((x != 0.0) | dense) & (seen > 0.0)
        pulled[-1] = False
        first, now = (self.strengths(q, z2, self.norm) for q, z2 in ((0.0 * self.q, 0.0 * self.q), (self.q, self.z2)))
        self.x *= np.where(pulled, 1.0 - first / (now * np.maximum(seen, 1.0)), 1.0)[:, :, None]
        m = record[:, SCALE]
        return np.where(m > 0.0, (x - record[:, CENTRE]) / np.where(m > 0.0, m, 1.0), 0.0)

    def settle(self):
        self.x, self.full = (np.mean(found, axis=0) for found in zip(*self.later, strict=True))

    def learn(self, x, y, h, again=False):
        loss = self.loss
        u, drift = (self.read_again(x), 0.0 * x) if again else self.read(x)
        bets = (4.0 + self.wealth) * self.theta / (1.0 + self.slopes) / self.norm
        whole = np.zeros((len(x), self.classes))
        whole[self.places] = self.full
        weights = np.concatenate([self.x, bets[None], whole[None]])
        self.offsets += np.einsum("j,rjm->rm", drift, weights)
        scores = np.einsum("j,rjm->rm", u, weights) + self.offsets
        f1, f2 = self.experts.weights @ scores, self.v @ scores
        candidates = np.array([f1, f2, self.boost * f1, self.boost * f2])
        f = self.clip(self.last.weights @ candidates)
        if not again:
            self.experts.observe([h * min(30.0, loss.value(self.clip(p), y)) for p in scores])
            self.last.observe([h * min(30.0, loss.value(self.clip(p), y)) for p in candidates])

        g = filled(loss.__class__.slope, loss, f, y)
        if not again:
            self.weight += h
            self.means += h / self.weight * (np.abs(g) - self.means)
        if isinstance(loss, Softmax):
            q = np.exp(f - f.max()) / np.exp(f - f.max()).sum()
            bends, bend = 2.0 * q * (1.0 - q), min(q.max(), 2.0 * (q * (1.0 - q)).max())
        else:
            bends, bend = self.means, 0.5 * self.means.sum()

        if not again:
            self.stack(scores, f2, y, h, bends)
        self.step_full(u, scores[-1], y, h, bends)
        strengths = self.strengths(self.q, self.z2, self.norm)
        for r in range(len(self.GRID)):
            a = h * filled(loss.__class__.prox, loss, scores[r], y, h * float(np.sum(u * u / strengths[r])))
            self.x[r] -= np.outer(u / strengths[r], a)
        self.q += h * bend * u * u
        self.z2 += h * h * (g @ g) * u * u
        if again:
            self.later.append((self.x.copy(), self.full.copy()))
            return f
        stake = np.outer(u, np.clip(h * filled(loss.__class__.slope, loss, scores[-2], y), -1.0, 1.0))
        self.theta -= stake
        self.slopes += np.abs(stake)
        self.wealth = np.maximum(0.0, self.wealth - stake * bets * self.norm)
        return f

    def clip(self, p):
        return np.maximum(p, p.max() - self.reach)

    def stack(self, z, f, y, h, bends):
        inverse = np.linalg.inv(self.precision)
        a = h * filled(self.loss.__class__.prox, self.loss, f, y, h * np.trace(z.T @ inverse @ z))
        self.v = self.v - inverse @ z @ a
        if bends.sum() > 0.0:
            away = z - (z @ bends / bends.sum())[:, None]
            self.precision = self.precision + 0.5 * h * (away * bends) @ away.T

    def step_full(self, u, p, y, h, bends):
        for j in np.flatnonzero(u):
            if j not in self.places:
                self.places.append(j)
                self.priors.append(100.0 / self.norm)
                self.full = np.concatenate([self.full, np.zeros((1, self.classes))])
                for m in range(self.classes):
                    old = self.precisions[m]
                    self.precisions[m] = np.diag([*np.zeros(len(old)), 1.0 / self.priors[-1]])
                    self.precisions[m][: len(old), : len(old)] = old
        s = u[self.places]
        inverses = [np.linalg.inv(precision) for precision in self.precisions]
        g = filled(self.loss.__class__.slope, self.loss, p, y)
        lengths = np.array([s @ inverse @ s for inverse in inverses])
        c = lengths @ (g * g) / (g @ g) if g.any() else 0.0
        a = h * filled(self.loss.__class__.prox, self.loss, p, y, h * c)
        for m in range(self.classes):
            self.full[:, m] -= a[m] * inverses[m] @ s
            self.precisions[m] = self.precisions[m] + h * bends[m] / 8.0 * np.outer(s, s)
