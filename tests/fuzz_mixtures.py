"""A campaign of hostile streams: whatever is finite must be learnt from, and nothing may become NaN.

    python -m tests.fuzz_mixtures [count] [--seed SEED] [--seconds SECONDS] [--plain] [--losses NAME ...]

Every stream is learnt in one batch and again in two, the second time from a restored copy, with the same bits; the
certificate must hold. Losses, types and presets take turns; one stream of ten has no constant. Prints each stream
that fails, by its seed, and how many were run; ``--plain`` runs the same code as plain Python, for all losses.
"""

import argparse
import math
import sys
import time
import warnings
from typing import Any

import numpy as np

from giftrl import losses
from tests.mixtures import COMPILED, Array, Stream, assert_sound, hostile, loss_at, mixture, slope_at


def assert_certified(learner: Any, stream: Stream, predictions: Array) -> None:
    """The bound at u = 0 is not below the regret; sums are known to rounding of their terms."""
    certificate, loss = learner.certificate, learner.loss
    terms, regret = [0.0], [0.0]
    h = np.ones(len(stream.y)) if stream.weights is None else stream.weights
    for p, y, k in zip(predictions, stream.y.tolist(), h.tolist(), strict=True):
        if k > 0.0:
            paid, zero = loss_at(loss, p, y), loss_at(loss, 0.0 * p, y)
            with np.errstate(over="ignore"):
                along = float(np.sum(slope_at(loss, p, y) * p))
            terms += [k * abs(paid), k * abs(zero), k * abs(along)]
            regret += [k * paid, -k * zero]
    size = sum(terms)
    if math.isfinite(size):
        assert certificate.bound_sum >= math.fsum(regret) - 1e-9 * size, "the certificate is below the regret"


def check(loss: Any, seed: int, **options: Any) -> None:
    """One stream; raises where something does not hold."""
    stream, _ = hostile(loss, seed)
    if np.random.default_rng([seed, 1]).random() < 0.1:
        options["constant"] = None
    n, d = stream.x.shape
    whole, first, second = (mixture(loss, d, **options) for _ in range(3))
    predictions = whole.learn(*stream)
    assert_sound(whole, stream, predictions)
    assert_certified(whole, stream, predictions)
    cut = int(np.random.default_rng([seed, 2]).integers(0, n + 1))
    weights = (None, None) if stream.weights is None else (stream.weights[:cut], stream.weights[cut:])
    before = first.learn(stream.x[:cut], stream.y[:cut], weights[0])
    second.restore(first.state())
    after = second.learn(stream.x[cut:], stream.y[cut:], weights[1])
    assert np.array_equal(np.concatenate([before, after]), predictions), "two batches differ from one"
    for key, array in whole.state().items():
        if key not in ("features.dense", "features.stamps"):
            assert np.array_equal(array, second.state()[key]), f"two batches differ from one in {key}"


def campaign(count: int, seed: int, seconds: float, compiled: bool, names: list[str], show: int = 20) -> int:
    """How many streams failed."""
    started, failed, done = time.monotonic(), 0, 0
    kinds = [(name, dtype, "default") for name in names for dtype in ("float32", "float64")]
    kinds += [(name, "float32", "light") for name in (names if not compiled else names[:1])]  # each has to be compiled
    for k in range(seed, seed + count):
        if time.monotonic() - started > seconds:
            break
        name, dtype, preset = kinds[k % len(kinds)]
        loss = losses.EVERY[name]()
        done += 1
        try:
            check(loss, k, dtype=dtype, preset=preset, compiled=compiled)
        except Exception as problem:
            failed += 1
            if failed <= show:
                words = (str(problem).splitlines() or [""])[0][:120]
                print(
                    f"{name} {dtype} {preset} seed {k}: {type(problem).__name__}: {words}; {hostile(loss, k)[1]}",
                    flush=True,
                )
    print(f"{done} streams, {failed} failed, {time.monotonic() - started:.0f} s")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description="Hostile streams for mixtures.")
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--losses", nargs="+", default=None, choices=list(losses.EVERY))
    given = parser.parse_args()
    names = given.losses or (list(losses.EVERY) if given.plain else COMPILED)
    warnings.simplefilter("error")
    sys.exit(campaign(given.count, given.seed, given.seconds, not given.plain, names) > 0)


if __name__ == "__main__":
    main()
