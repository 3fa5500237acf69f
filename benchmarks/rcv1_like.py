"""Documents like those of RCV1, drawn at random: as many as you like, from a seed.

What is drawn, and why (the comparison is with the 1,000 documents of RCV1 in Vowpal Wabbit's own tests):

- The length of a document is negative binomial with mean 68 and shape 2.2, so its standard deviation is 47. In RCV1
  lengths spread as widely; the end of a row is then as hard to foresee for the processor as in real text.
- Features follow Zipf's law in Mandelbrot's form: the k-th most frequent is drawn with probability proportional to
  (k + 30)^-1.1. RCV1 has no stop words left, and its most frequent feature is in 44% of the documents, the 100th in 11%
  and the 1000th in 2%; here it is 33%, 8% and 1%. Zipf's own law (offset 0) with an exponent near 1 puts its first
  feature into nearly every document.
- A document names a feature once: draws that repeat one are drawn again. Which feature has which rank is random.
- Values are lognormal with sigma 0.6, the spread of RCV1's, then scaled to a row of norm 1.
- Labels are the sign of <s, u> plus normal noise of 0.3 times its standard deviation. u is normal on a tenth of the
  features and zero on the others.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from giftrl.errors import require

MEAN_LENGTH = 68.0
SHAPE = 2.2
EXPONENT = 1.1
OFFSET = 30.0
SIGMA = 0.6
NOISE = 0.3


@numba.njit(cache=True)
def zipf_quantile(u: float, features: int, exponent: float, offset: float) -> int:
    """The rank, from 0, at level u in [0, 1) of Zipf's law over that many features.

    The law with density x^-exponent on [1 + offset, 1 + offset + features), rounded down: one power in place of a
    search.

    >>> [zipf_quantile(u, 1000, 1.0, 0.0) for u in (0.0, 0.5, 0.999)]
    [0, 30, 993]
    """
    low, high = 1.0 + offset, 1.0 + offset + features
    if exponent == 1.0:
        x = low * (high / low) ** u
    else:
        a = 1.0 - exponent
        x = (low**a + u * (high**a - low**a)) ** (1.0 / a)
    return min(max(int(x - offset) - 1, 0), features - 1)


@numba.njit(cache=True)
def _draw(rng: Any, indptr: Any, names: Any, exponent: float, offset: float, indices: Any) -> None:
    features = len(names)
    seen = np.full(features, -1, np.int64)
    for i in range(len(indptr) - 1):
        k = indptr[i]
        while k < indptr[i + 1]:
            j = names[zipf_quantile(rng.random(), features, exponent, offset)]
            if seen[j] != i:
                seen[j] = i
                indices[k] = j
                k += 1
        indices[indptr[i] : indptr[i + 1]].sort()


def draw_features(
    rng: np.random.Generator, lengths: NDArray[Any], features: int, exponent: float = EXPONENT, offset: float = OFFSET
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(indptr, indices) of rows with these lengths: sorted, distinct within a row, by Zipf's law. Exponent 0: uniform.

    >>> indptr, indices = draw_features(np.random.default_rng(0), np.array([2, 3]), 10)
    >>> indptr.tolist(), len(set(indices[2:].tolist()))
    ([0, 2, 5], 3)
    """
    longest = int(np.max(lengths, initial=0))
    require(longest <= features, "lengths", longest, f"must be at most the {features} features", "draw shorter rows")
    indptr = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=indptr[1:])
    indices = np.empty(indptr[-1], np.int32)
    _draw(rng, indptr, rng.permutation(features).astype(np.int32), exponent, offset, indices)
    return indptr, indices


def rcv1_like(
    rows: int = 200_000, features: int = 47_236, seed: int = 0, *, exponent: float = EXPONENT, offset: float = OFFSET
) -> tuple[Any, NDArray[np.float64]]:
    """A CSR matrix of float32 values with int32 indices, and labels -1 and +1.

    No document has more than half of the features. The same seed gives the same documents.

    >>> x, y = rcv1_like(1000, 500, seed=1)
    >>> x.shape, x.dtype.name, x.indices.dtype.name, sorted(set(y.tolist()))
    ((1000, 500), 'float32', 'int32', [-1.0, 1.0])
    """
    rng = np.random.default_rng(seed)
    lengths = rng.negative_binomial(SHAPE, SHAPE / (SHAPE + MEAN_LENGTH), rows).clip(1, max(1, features // 2))
    indptr, indices = draw_features(rng, lengths, features, exponent, offset)
    row = np.repeat(np.arange(rows), lengths)
    values = np.exp(SIGMA * rng.standard_normal(len(indices)))
    values /= np.sqrt(np.bincount(row, values * values, minlength=rows))[row]
    truth = rng.standard_normal(features) * (rng.random(features) < 0.1)
    score = np.bincount(row, values * truth[indices], minlength=rows)
    y = np.where(score + NOISE * score.std() * rng.standard_normal(rows) > 0.0, 1.0, -1.0)
    x = sparse.csr_matrix((values.astype(np.float32), indices, indptr), shape=(rows, features))
    x.has_canonical_format = True
    return x, y
