"""Streams with a trend; ``python -m benchmarks.quality.trends`` predicts their future.

A linear model of features that go on growing can predict labels beyond all that it has seen. Each stream is learnt in
its order from its first half, and the second half is predicted at once.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.table import Grid, parse, publish, replaced, wide_console

Array = NDArray[np.float64]
#: How many rows a stream has.
ROWS = 2_000


def line(t: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """y = 3 t and noise."""
    return t[:, None], 3.0 * t + rng.normal(size=len(t))


def noisy(t: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """The same with noise a hundred times as large."""
    return t[:, None], 3.0 * t + 100.0 * rng.normal(size=len(t))


def falling(t: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A falling trend and another feature."""
    other = rng.normal(size=len(t))
    return np.column_stack([t, other]), -2.0 * t + 50.0 * other + 5.0 * rng.normal(size=len(t))


def years(t: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A trend in a number that is large already, such as a date."""
    return 1e6 + t[:, None], 3.0 * t + rng.normal(size=len(t))


def seasons(t: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A slow trend under a season."""
    waves = np.column_stack([np.sin(t / 20.0), np.cos(t / 20.0)])
    return np.column_stack([t, waves]), 0.1 * t + 10.0 * waves[:, 0] + rng.normal(size=len(t))


def walk(t: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A feature that is a random walk, and another one."""
    x = np.column_stack([np.cumsum(rng.normal(size=len(t))), rng.normal(size=len(t))])
    return x, x @ np.array([2.0, 1.0]) + 0.1 * rng.normal(size=len(t))


TRENDS: dict[str, Callable[[Array, np.random.Generator], tuple[Array, Array]]] = {
    f"trend_{each.__name__}": each for each in (line, noisy, falling, years, seasons, walk)
}


class Trend(NamedTuple):
    """A stream with a trend, as :class:`benchmarks.quality.data.Source` describes one."""

    name: str
    kind: str = "regression"
    sequential: bool = True

    def unavailable(self) -> None:
        """It is always available."""

    def orders(self, seeds: int = 1) -> list[str]:
        """Its own order, and no other."""
        return ["own"]

    def read(self) -> tuple[Any, Array, None]:
        """Features, labels and no number of classes."""
        x, y = TRENDS[self.name](np.arange(float(ROWS)), np.random.default_rng(0))
        return sparse.csr_matrix(x), y, None


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    from sklearn.linear_model import LinearRegression, SGDRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from giftrl.linear import FTRLRegressor

    options = parse(argv, "benchmarks.quality.trends", __doc__, out=replaced("trends"))
    models = {
        "giftrl, in order": FTRLRegressor(shuffle=False),
        "giftrl": FTRLRegressor(),
        "giftrl, absolute loss": FTRLRegressor("absolute", shuffle=False),
        "least squares": LinearRegression(),
        "scikit-learn's SGD": make_pipeline(StandardScaler(), SGDRegressor(random_state=0)),
    }
    rows, half = [], ROWS // 2
    for name in TRENDS:
        x, y, _ = Trend(name).read()
        scores = [
            model.fit(x[:half].toarray(), y[:half]).score(x[half:].toarray(), y[half:]) for model in models.values()
        ]
        rows.append([name, *(f"{score:.3f}" for score in scores)])
    table = Grid("R2 of the second half of a stream, predicted from the first", ["stream", *models], rows)
    made = "Made by `python -m benchmarks.quality.trends --out docs/no-tuning.md`."
    publish(wide_console(), [table], options.out, "trends", origin=made)


if __name__ == "__main__":
    main()
