"""The logistic loss."""

import math
from typing import Any, NamedTuple

from giftrl.compiled.lanes import absolute, least, maximum, minimum, read, where_less, write
from giftrl.ops import formula
from giftrl.ops.elementary import rough_log
from giftrl.ops.loss import slope, value
from giftrl.ops.scalar import exp, exp_minus, exp_small, log, log1p_unit, sigmoid, softplus

# The proximal step with the margin m = y p. With u the margin after it, the slope is -y b at b = sigmoid(-u), and
# F(u) = u - m - c sigmoid(-u) is 0. These formulas serve one number and several side by side.

#: After a smaller Newton step, the cubic step is exact up to rounding.
SMALL_STEP = 1e-4
#: After a smaller Newton step, the cubic step is close: the error of the slope is at most 0.0011, and by at most 1% of
#: itself, at any
#: margin from -40 to 40 and any length from 1e-12 to 1e12.
CLOSE_STEP = 0.5


@formula
def newton(b: Any, u: Any, m: Any, c: Any) -> tuple[Any, Any, Any]:
    """At u, where b = sigmoid(-u): v = b (1 - b), Newton's step n = -F/F1, and a step d to the root of F, to O(n^4).

    The derivatives are F1 = 1 + c v, F2 = -c v (1 - 2 b) and F3 = c v (1 - 6 v). With A = F2/(2 F1) and B = F3/(6 F1)
    the inverse function gives d = n - A n^2 + (2 A^2 - B) n^3. As c v/F1 < 1, that is of use for n below 1.
    """
    v = b * (1.0 - b)
    per_slope = 1.0 / (1.0 + c * v)
    n = (c * b - (u - m)) * per_slope
    share = c * v * per_slope
    second, third = -0.5 * share * (1.0 - 2.0 * b), share * (1.0 - 6.0 * v) * (1.0 / 6.0)
    return v, n, n * (1.0 + n * (n * (2.0 * second * second - third) - second))


@formula
def first_margin(b: Any, n: Any, d: Any, m: Any, c: Any) -> tuple[Any, Any, Any]:
    """A first u and a bracket of the root, from b, n and d at m.

    The root is in [m, m + c sigmoid(-m)]. Beyond log c it is less than 1 from m, below -log c less than 1 from
    m + c.
    """
    log_c = rough_log(1.0 + c)
    low = maximum(m, minimum(m + c - 1.0, -log_c - 0.001))
    high = minimum(m + c * b, maximum(m + 1.0, log_c + 0.001))
    # The root has (u - m)(1 + exp(u)) = c. If the series at m does not reach it, a guess of u - m does; its numbers
    # were fitted to m from -12 to 12 and c up to 1e6. There 98% of guesses are as close as CLOSE_STEP.
    guess = rough_log(0.07 + c / (0.15 + 0.85 * maximum(log_c - m, 0.0)))
    u = where_less(n, CLOSE_STEP, m + d, guess)
    return maximum(low, minimum(u, high)), low, high


@formula
def slope_at_root(b: Any, v: Any, d: Any) -> Any:
    """sigmoid(-u) at the root, from its series at a u that is d away."""
    return b - v * d * (1.0 - d * (0.5 * (1.0 - 2.0 * b) - d * (1.0 - 6.0 * v) * (1.0 / 6.0)))


@formula
def iterate(u: Any, low: Any, high: Any, m: Any, c: Any, enough: float) -> tuple[Any, Any, Any, Any, Any]:
    """Step from u inside the bracket until all Newton steps are below ``enough``: the last u, and b, v, n and d there.

    A Newton iteration on the slope b itself cycles for large c (m = -5, c = 1e4), so this one is on u. It bisects if a
    step leaves the bracket, or is not half of the last one.
    """
    last = high - low
    b = sigmoid(-u)
    v, n, d = newton(b, u, m, c)
    for _ in range(100):
        if least(-absolute(n)) > -enough:
            break
        low, high = where_less(n, 0.0, low, u), where_less(n, 0.0, u, high)
        new, middle = u + where_less(absolute(n), CLOSE_STEP, d, n), 0.5 * (low + high)
        safe = where_less(low, new, where_less(new, high, new, middle), middle)
        safe = where_less(0.5 * last, absolute(new - u), middle, safe)
        new = where_less(SMALL_STEP, absolute(n), safe, new)
        last = absolute(new - u)
        u = new
        b = sigmoid(-u)
        v, n, d = newton(b, u, m, c)
    return u, b, v, n, d


@formula
def near_margin(w: float, m: float, c: float) -> tuple[float, float, bool]:
    """The u and b of :func:`new_margin`, and True if they are near w, where one or two exponentials are enough.

    With less = m - w, Newton's step from w is n = (c b + less)/F1. With alpha = (1 - 2 b)/2, beta = (1 - 6 v)/6 and
    gamma = alpha (1 - 12 v)/12 the series of :func:`newton` with one more term is

        d = n + share n^2 tail,
        tail = alpha + n (2 share alpha^2 - beta + n (gamma - 5 share alpha (beta - share alpha^2))).

    The slope at the root is (d - less)/c. c drops out, since 1 - 1/F1 = share = c v/F1:

        b(u) = b/F1 - less v/F1 + n tail (share b/F1 + less v/F1^2).

    The rest of the series is at most (1 - b) n^5 (1/120 + 0.3 share + ...) of b(u). If that is too much, one more
    Newton step ends at the root, to rounding: it starts at most 1e-6 away. Its exponential is a multiple of the first
    one, which takes half the time.
    """
    e, after, less = exp_minus(abs(w)), w >= 0.0, m - w
    t = 1.0 + e
    per_t, per = 1.0 / t, 1.0 / (t * t + c * e)
    b = (e if after else 1.0) * per_t
    v = e * per_t * per_t
    alpha, beta = 0.5 - b, (1.0 / 6.0) - v
    alpha2, pull = alpha * alpha, c * b + less
    share = (c * e) * per
    kept, n = 1.0 - share, pull - pull * share
    fourth = alpha * ((1.0 / 12.0) - v) - (share * (5.0 * alpha)) * (beta - share * alpha2)
    tail = (alpha + n * (share * (2.0 * alpha2) - beta)) + (n * n) * fourth
    d = n + (n * n) * (share * tail)
    if not (share < 0.5 and abs(n) < 0.5 and abs(d) <= 0.34):
        return m, b, False
    if (1.0 - b) * abs(n) * (n * n) * (n * n) <= 4e-11:
        first, second = b - b * share, less * (e * per)
        return w + d, (first - second) + tail * (n * (share * first + kept * second)), True
    e *= exp_small(-d if after else d)
    t = 1.0 + e
    per_t, per = 1.0 / t, 1.0 / (t * t + c * e)
    high = e if after else 1.0
    b, v = high * per_t, e * per_t * per_t
    n = (c * high + (less - d) * t) * (t * per)
    return w + (d + n), b - v * n * (1.0 - n * (0.5 - b)), abs(n) <= 1e-6


@formula
def new_margin(m: float, c: float, near: float) -> tuple[float, float]:
    """The u with u = m + c b, b = sigmoid(-u), and that b; ``near`` is a margin not far from it, such as m.

    >>> u, b = new_margin(-5.0, 1e4, -5.0)
    >>> round(u, 6), round(1e3 * b, 6)
    (6.74568, 1.174568)
    """
    u, b, done = near_margin(near, m, c)
    if done:
        return u, b
    b = sigmoid(-m)
    _, n, d = newton(b, m, m, c)
    u, low, high = first_margin(b, n, d, m, c)
    if not high > low:
        return m, b
    u, b, v, _, d = iterate(u, low, high, m, c, SMALL_STEP)
    return u + d, slope_at_root(b, v, d)


@formula
def at_margin(u: float, b: float) -> tuple[float, float, float]:
    """phi*(b), phi(u) and the curvature there, from u and b = sigmoid(-u) without a further exponential.

    With r = min(b, 1 - b), log(1 + exp(-abs(u))) = -log(1 - r); Fenchel and Young hold with equality,
    phi*(b) = -b u - phi(u).
    """
    r = min(b, 1.0 - b)
    rest = log1p_unit(-r)
    return rest - r * abs(u), max(-u, 0.0) - rest, b * (1.0 - b)


class Logistic(NamedTuple):
    """The loss of logistic regression, for labels -1 and +1.

    phi(p; y) = log(1 + exp(-y p)), differentiable.
    phi*(a) = b log b + (1 - b) log(1 - b) with b = -y a in [0, 1].

    >>> round(Logistic().value(0.0, 1.0), 6)
    0.693147
    >>> round(Logistic().prox(-5.0, 1.0, 1e4), 12)
    -0.001174567963
    """

    def value(self, p: float, y: float) -> float:
        return softplus(-y * p)

    def slope(self, p: float, y: float) -> float:
        return -y * sigmoid(-y * p)

    def accepts(self, y: float) -> bool:
        return abs(y) == 1.0

    def labels(self) -> str:
        return "-1 or +1"

    def infimum(self, y: float) -> float:
        return 0.0

    def smoothness(self) -> float:
        return 0.25

    def curvature(self, p: float, y: float) -> float:
        e = exp_minus(abs(p))
        return e / ((1.0 + e) * (1.0 + e))

    def conjugate(self, a: float, y: float) -> float:
        b = -y * a
        if not 0.0 <= b <= 1.0:
            return math.inf
        r = min(b, 1.0 - b)
        return r * log(max(r, 1e-300)) + (1.0 - r) * log1p_unit(-r)  # 0 log 0 = 0

    def prox(self, p: float, y: float, c: float) -> float:
        return -y * new_margin(y * p, c, y * p)[1]

    def land(self, p: float, y: float, c: float, near: float) -> tuple[float, float, float, float]:
        u, b = new_margin(y * p, c, y * near)
        phi_star, phi, bend = at_margin(u, b)
        return -y * b, phi_star, phi, bend

    def meet_all(self, side: Any, p: Any, y: float, phi: Any, g: Any) -> None:
        write(phi, value(self, read(side, p), y))
        write(g, slope(self, read(side, p), y))

    def bend_at(self, p: float, y: float, g: float) -> float:
        return abs(g) * (1.0 - abs(g))

    def approach_all(self, side: Any, p: Any, y: float, c: Any, g: Any, a: Any) -> None:
        # new_margin for all lanes at once, until all are close to their roots, mostly after one exponential.
        m, lengths, b = read(side, p) * y, read(side, c), read(side, g) * -y
        v, n, d = newton(b, m, m, lengths)
        if least(-n) <= -CLOSE_STEP:
            u, low, high = first_margin(b, n, d, m, lengths)
            u, b, v, n, d = iterate(u, low, high, m, lengths, CLOSE_STEP)
        write(a, slope_at_root(b, v, where_less(absolute(n), CLOSE_STEP, d, 0.0)) * -y)

    def flow(self, p: float, y: float, c: float) -> float:
        # m + exp(m) grows at the rate c, so the move d of the margin solves F(d) = d + exp(m) (exp(d) - 1) - c = 0.
        # F is convex and increasing: Newton from an upper bound comes down to the root and never passes it. Both
        # c sigmoid(-m), from exp(d) - 1 >= d, and log(1 + c exp(-m)) are upper bounds.
        m = y * p
        b = sigmoid(-m)
        if c * b < 1e-17:  # the slope changes by less than this share of itself on the way
            return -y * b
        grown = exp(m)
        d = min(c * b, softplus(math.log(c) - m))
        for _ in range(100):
            # exp(m) (exp(d) - 1), without the overflow of exp(d).
            rise = grown * math.expm1(d) if d < 1.0 else exp(m + d) - grown
            step = (d + rise - c) / (1.0 + grown + rise)
            if not step > 1e-16 * d:
                break
            d -= step
        return -y * min(d / c, b)
