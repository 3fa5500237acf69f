"""The softmax loss."""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.losses.logistic import Logistic
from giftrl.ops import loss as scalar
from giftrl.ops.scalar import clamp, exp, log_add_exp, mean_product, sigmoid, softplus, wright_omega
from giftrl.ops.vector_loss import mass_moved, slope

LOGISTIC = Logistic()
MAX_STEP = 1e300  # the maximum step length, so that its double does not overflow


@formula
def odds(p: Any, y: int) -> tuple[float, float, float]:
    """The largest p_k over k != y, log of the sum of exp(p_k - largest), and the margin of y: p_y minus these two.

    The sum of the first two is the score of "not y". They are returned apart, because for large scores their sum
    would lose the second to rounding.
    """
    label, largest, total = np.uint64(y), -math.inf, 0.0
    for k in range(np.uint64(len(p))):
        if k != label and p[k] > largest:
            largest = float(p[k])
    for k in range(np.uint64(len(p))):
        if k != label:
            total += math.exp(float(p[k]) - largest)
    spread = math.log(total) if total > 0.0 else 0.0
    return largest, spread, float(p[label]) - largest - spread


@formula
def spread_out(p: Any, y: int, largest: float, spread: float, s: float, out: Any) -> None:
    """The slope: -s for y, and s for the others in the proportions of exp(p_k)."""
    label = np.uint64(y)
    for k in range(np.uint64(len(p))):
        if k != label:
            out[k] = s * math.exp(float(p[k]) - largest - spread)
    out[label] = -s


@formula
def balance(a: Any, y: int) -> None:
    """Set a_y to minus the sum of the others, and scale them down if that sum is above 1: phi* is infinite there.

    The sum exceeds 1 by rounding only. With scores beyond 1e15, prox and flow guarantee only that slopes are in the
    domain.
    """
    label, total = np.uint64(y), 0.0
    for k in range(np.uint64(len(a))):
        if k != label:
            total += a[k]
    if total > 1.0:
        for k in range(np.uint64(len(a))):
            a[k] /= total
    a[label] = -min(1.0, total)


@formula
def focus(a: Any, y: int) -> float:
    """The sum of squares of the shares that a gives to the other classes: 1/n if n classes share equally."""
    label, squares = np.uint64(y), 0.0
    for k in range(np.uint64(len(a))):
        if k != label:
            squares += (float(a[k]) / float(a[label])) ** 2
    return clamp(squares, 1.0 / len(a), 1.0)


@formula
def go_on(x: float, step: float, low: float, high: float, last: float) -> tuple[float, float, float]:
    """The next x and the smaller bracket; bisects if Newton's step leaves it or does not halve the last one."""
    low, high = (low, x) if step < 0.0 else (x, high)
    good = low < x + step < high and abs(step) <= 0.5 * last
    return (x + step if good else 0.5 * (low + high)), low, high


class Softmax(NamedTuple):
    """The loss of multinomial logistic regression, for classes 0 to K - 1.

    phi(p; y) = log(sum of exp(p_k)) - p_y, differentiable; with q the softmax of p, the slope is q - e_y.
    phi*(a) = sum of q_k log q_k for a = q - e_y, q probabilities.
    The Hessian diag(q) - q q^T is not above the diagonal matrix of 2 q_k (1 - q_k), its rows being of sum 0
    (Gershgorin), nor above diag(q).

    For two classes it is the logistic loss of the margin m = p_y - p_k. A step of length c moves both scores, and the
    margin by twice as much: prox and flow are those of the logistic loss at the length 2 c.

    >>> import numpy as np
    >>> round(Softmax().value(np.zeros(3), 0), 6)
    1.098612
    >>> a = np.empty(3)
    >>> Softmax().prox(np.array([0.0, 1.0, -1.0]), 0, 2.0, a)
    >>> a.round(6)
    array([-0.420774,  0.342271,  0.078503])
    """

    def multiclass(self) -> bool:
        return True

    def value(self, p: Any, y: int) -> float:
        return softplus(-odds(p, y)[2])

    def slope(self, p: Any, y: int, out: Any) -> None:
        largest, spread, margin = odds(p, y)
        spread_out(p, y, largest, spread, sigmoid(-margin), out)

    def infimum(self, y: int) -> float:
        return 0.0

    def smoothness(self) -> float:
        return 0.5

    def curvature(self, p: Any, y: int) -> float:
        largest, spread, margin = odds(p, y)
        label, q, s = np.uint64(y), sigmoid(margin), sigmoid(-margin)
        most, bend = q, q * s
        for k in range(np.uint64(len(p))):
            if k != label:
                q = s * math.exp(float(p[k]) - largest - spread)
                most, bend = max(most, q), max(bend, q * (1.0 - q))
        return min(most, 2.0 * bend)

    def curvatures(self, p: Any, y: int, out: Any) -> None:
        slope(self, p, y, out)
        label = np.uint64(y)
        for k in range(np.uint64(len(p))):
            q = 1.0 + out[k] if k == label else out[k]
            out[k] = 2.0 * q * (1.0 - q)

    def conjugate(self, a: Any, y: int) -> float:
        moved = mass_moved(a, y)
        if moved < 0.0:
            return math.inf
        total = (1.0 - moved) * math.log1p(-moved) if moved < 1.0 else 0.0
        label = np.uint64(y)
        for k in range(np.uint64(len(a))):
            if k != label and a[k] > 0.0:
                total += a[k] * math.log(a[k])
        return total

    def prox(self, p: Any, y: int, c: float, out: Any) -> None:
        # Let pi be the softmax of p without y, m = p_y - log(sum of exp(p_k), k != y) the margin, and m + d the margin
        # at the new point; then -a_y = s = sigmoid(-m - d). For the others log(a_k) = log(pi_k) - c a_k + a number that
        # all share; y itself, whose score has risen by c s, says which:
        #     c a_k = omega(x_k),  x_k = log(pi_k) + log(c s) + d - c s,  omega(x) + log(omega(x)) = x.
        # The sum must be c s: F(d) = log(sum of omega(x_k)) - log(c s) = 0. F increases with d, at the rate
        # F' = 1 - s + (s + c s (1 - s)) R, R = (sum of omega/(1 + omega)) / (sum of omega).
        # If all mass goes to one class, d = 2 c s; if it is spread over n, about (1 + 1/n) c s; always between c s and
        # 2 c s. So the logistic loss gives a guess and a bracket of Newton's steps.
        largest, spread, margin = odds(p, y)
        label, s = np.uint64(y), sigmoid(-margin)
        spread_out(p, y, largest, spread, s, out)
        if not c * s > 1e-17:  # the slope changes by less than this share of itself on the way
            return
        c = min(c, MAX_STEP)
        log_c = math.log(c)
        doubled = c * (1.0 + focus(out, y))
        d = -doubled * scalar.prox(LOGISTIC, margin, 1.0, doubled)
        low, high = 0.0, min(2.0 * c * s, max(1.0, math.log1p(c) + 0.7 - margin))
        if not low < d < high:
            d = 0.5 * (low + high)
        last, shift = high - low, 0.0
        for _ in range(200):
            s = sigmoid(-margin - d)
            log_moved = log_c - softplus(margin + d)
            moved = exp(log_moved)
            common = log_moved + (d - moved)
            total, bend = 0.0, 0.0
            for k in range(np.uint64(len(p))):
                if k != label:
                    w = wright_omega(common + (float(p[k]) - largest - spread))
                    out[k] = w
                    total += w
                    bend += w / (1.0 + w)
            step = math.inf  # bisect if all of them vanish
            if total > 0.0:
                lift = s + moved * sigmoid(margin + d)  # how fast x grows with d
                step = (log_moved - math.log(total)) / (sigmoid(margin + d) + lift * bend / total)
                if abs(step) * (1.0 + lift) <= 1e-8 + 1e-15 * d:
                    # Newton squares the error. The last step is taken in x, where it is not rounded to digits of d.
                    shift = lift * step
                    break
            new, low, high = go_on(d, step, low, high, last)
            last = abs(new - d)
            d = new
        for k in range(np.uint64(len(p))):
            if k != label:
                out[k] *= (1.0 + shift / (1.0 + out[k])) / c
        balance(out, y)

    def flow(self, p: Any, y: int, c: float, out: Any) -> None:
        # dp_k/dtau = -c exp(p_k)/Z for k != y, so exp(-p_k) grows at the rate c/Z, the same for all these classes: in
        # units in which the others sum to 1 (pi as in prox), each has come down by log(1 + t pi_k), one t for all, and
        # y has risen by the sum S(t) of that. The time it takes is
        #     c tau = S(t) + exp(m) J(t),   J(t) = integral from 0 to t of exp(S),   exp(S(x)) = product of 1 + x pi_k.
        # With beta_k = t pi_k/(1 + t pi_k), J(t) = t exp(S(t)) times the mean over x in [0, 1] of prod(1 - beta_k x).
        # Solve log(S + exp(m) J) = log(c) for theta = log(t) by Newton in a bracket, from the logistic guess. The
        # bracket: S >= log(1 + t), J >= t + t^2/2; and S <= t, J <= t exp(t).
        largest, spread, margin = odds(p, y)
        label, s = np.uint64(y), sigmoid(-margin)
        spread_out(p, y, largest, spread, s, out)
        if not c * s > 1e-17:
            return
        c = min(c, MAX_STEP)
        log_c = math.log(c)
        alone = focus(out, y)
        doubled = c * (1.0 + alone)
        low = min(0.0, log_c - softplus(margin) - 1.0)
        high = min(c if c > 40.0 else math.log(math.expm1(c)), log_c - margin, 0.5 * (log_c + 0.7 - margin))
        guess = -alone * c * scalar.flow(LOGISTIC, margin, 1.0, doubled)
        theta = (guess if guess > 40.0 else math.log(math.expm1(guess))) - math.log(alone) if guess > 0.0 else low
        if not low < theta < high:
            theta = 0.5 * (low + high)
        last = high - low
        for _ in range(200):
            risen, kappa = 0.0, 0.0
            for k in range(np.uint64(len(p))):
                out[k] = 0.0
                if k != label:
                    z = theta + (float(p[k]) - largest - spread)
                    risen += softplus(z)
                    out[k] = sigmoid(z)
                    kappa += out[k]
            log_risen, log_rate = math.log(risen), theta + margin + risen
            log_total = log_risen
            if log_rate > log_risen - 40.0:
                log_total = log_add_exp(log_risen, log_rate + math.log(mean_product(out)))
            step = (log_c - log_total) / (exp(math.log(kappa) - log_total) + exp(log_rate - log_total))
            if abs(step) <= 1e-9:
                theta += step
                break
            new, low, high = go_on(theta, step, low, high, last)
            last = abs(new - theta)
            theta = new
        for k in range(np.uint64(len(p))):
            if k != label:
                out[k] = softplus(theta + (float(p[k]) - largest - spread)) / c
        balance(out, y)
