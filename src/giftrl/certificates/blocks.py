"""Rows in blocks, and a random part of them that fits in memory."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates.units import Array


class Block(NamedTuple):
    """Consecutive sparse rows: the entries of row i are ``data[indptr[i]:indptr[i + 1]]``.

    >>> block = Block(np.array([2.5]), np.array([1]), np.array([0, 1]), np.array([-1.0]), np.ones(1))
    >>> block.matrix(3).toarray(), block.only(np.array([False])).matrix(3).shape
    (array([[0. , 2.5, 0. ]]), (0, 3))
    """

    data: Array
    indices: NDArray[Any]
    indptr: NDArray[Any]
    labels: NDArray[Any]  # floats, or classes from 0 on as integers
    weights: Array

    def matrix(self, features: int) -> Any:
        """The rows as a matrix of SciPy."""
        import scipy.sparse as sp

        return sp.csr_array((self.data, self.indices, self.indptr), shape=(len(self.labels), features))

    def only(self, chosen: NDArray[np.bool_]) -> "Block":
        """The rows where ``chosen`` is true."""
        lengths = np.diff(self.indptr)
        entries = np.repeat(chosen, lengths)
        ends = np.concatenate([[0], np.cumsum(lengths[chosen])])
        return Block(self.data[entries], self.indices[entries], ends, self.labels[chosen], self.weights[chosen])

    @staticmethod
    def joined(blocks: "list[Block]") -> "Block":
        """The rows of all blocks."""
        starts = np.cumsum([0, *(len(each.data) for each in blocks)])
        bounds = [each.indptr[1:] + start for each, start in zip(blocks, starts, strict=False)]
        data, indices, _, labels, weights = (np.concatenate(each) for each in zip(*blocks, strict=True))
        return Block(data, indices, np.concatenate([[0], *bounds]), labels, weights)


class Sample:
    """All rows while they fit, and a random part of them beyond that.

    Each row has a random key between 0 and 1, and the rows whose keys are below ``share`` are kept. When their entries
    are too many, the share is halved and the rows with larger keys are dropped: so rows do not depend on their order.

    Args:
        most: how many entries may be kept.
        seed: of the keys.

    Attributes:
        share: 1 as long as every row has been kept.

    >>> sample = Sample(most=60)
    >>> for _ in range(10):
    ...     sample.add(Block(np.ones(10), np.zeros(10, int), np.arange(11), np.ones(10), np.ones(10)))
    >>> sample.share, len(sample.rows().labels)
    (0.5, 44)
    """

    def __init__(self, most: int, seed: int = 0) -> None:
        self.most, self.share, self.entries = most, 1.0, 0
        self._random = np.random.default_rng(seed)
        self._blocks: list[tuple[Block, Array]] = []

    def add(self, block: Block) -> None:
        """Rows that come after all others."""
        self._keep(block, self._random.random(len(block.labels)))
        while self.entries > self.most:
            self.share *= 0.5
            before, self._blocks, self.entries = self._blocks, [], 0
            for each, keys in before:
                self._keep(each, keys)

    def _keep(self, block: Block, keys: Array) -> None:
        chosen = keys < self.share
        if not chosen.all():
            block, keys = block.only(chosen), keys[chosen]
        if len(keys):
            self._blocks.append((block, keys))
            self.entries += len(block.data)

    def rows(self) -> Block:
        """The rows that are kept, in their order. There must be some."""
        blocks, keys = [block for block, _ in self._blocks], np.concatenate([each for _, each in self._blocks])
        if len(blocks) > 1:  # the blocks themselves are not needed any more
            self._blocks = [(Block.joined(blocks), keys)]
        return self._blocks[0][0]
