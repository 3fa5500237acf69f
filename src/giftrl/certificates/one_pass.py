"""What one pass over all rows adds up at a model."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from giftrl.certificates import loops
from giftrl.certificates.blocks import Block
from giftrl.certificates.kept import Kept
from giftrl.certificates.problem import Problem, land, loss_sum
from giftrl.certificates.scaled import Scaled
from giftrl.certificates.units import Array, Units
from giftrl.compiled.compiler import ready

#: The parts of a step at which the loss is added up as well.
LENGTHS = (0.7, 0.45, 0.25, 0.12, 0.05, 0.02, 0.005, 0.001)


class Pass(NamedTuple):
    """What one pass over all rows adds up at a model u.

    >>> block = Block(np.ones(3), np.zeros(3, int), np.arange(4), np.array([1.0, 2.0, 4.0]), np.ones(3))
    >>> empty = Kept.of_rows("squared", np.ones((3, 1)), block.labels).without_rows()
    >>> done = Pass.over(empty, [block], np.array([2.0]), bent=empty.units()[0])
    >>> done.loss, done.kept.theta.tolist(), done.hessian.tolist(), done.kept.committed
    (2.5, [1.0], [[3.0]], 3)
    """

    kept: Kept  # every row committed, with its slope at u as its dual
    value: float  # the sum of smoothed losses of u
    loss: float  # the sum of losses of u
    zero: float  # the sum of losses of the model 0
    hessian: Array | None  # second derivatives of the smoothed losses, in the coordinates of some units
    along: tuple[float, ...] = ()  # the sums of smoothed losses of models on the way to u

    @staticmethod
    def over(
        empty: Kept,
        blocks: Iterable[Block],
        u: Array,
        eps: float = 0.0,
        bent: Units | None = None,
        step: Array | None = None,
    ) -> "Pass":
        """Read all rows.

        Args:
            empty: a record without rows, whose sums over features are those of all rows.
            blocks: the rows.
            u: a model.
            eps: how much the loss is smoothed (:class:`giftrl.certificates.problem.Problem`).
            bent: the units in which second derivatives are wanted, or None.
            step: the step that led to u. For each of :data:`LENGTHS`, the loss of the model after that part of the step
                is added up too.
        """
        kept, value, loss, zero, hessian = empty, 0.0, 0.0, 0.0, None
        along = np.zeros(0 if step is None else len(LENGTHS))
        for block in blocks:
            rows, labels, weights = block.matrix(len(u)), block.labels, block.weights
            p = np.asarray(rows @ u)
            origin = np.zeros_like(p)
            a, smoothed, bend = land(kept.loss, labels, weights, p, eps, origin)
            value += smoothed
            loss += loss_sum(kept.loss, labels, weights, p)
            zero += loss_sum(kept.loss, labels, weights, origin)
            if step is not None:
                q = np.asarray(rows @ step)
                shorter = [land(kept.loss, labels, weights, p - (1.0 - part) * q, eps, origin)[1] for part in LENGTHS]
                along += shorter
            if bent is not None:  # every feature has a coordinate, whether these rows have it or not
                scaled = Scaled(rows, bent, np.ones(len(u)))
                part = Problem(kept.loss, scaled, labels, weights, u, math.inf).hessian(p, eps, origin, bend)
                hessian = part if hessian is None else hessian + part
            phi_star = np.empty(len(labels))
            loop = ready(loops.conjugates if a.ndim == 1 else loops.conjugate_scores)
            loop(kept.loss, p, labels, a, phi_star)
            if not np.isfinite(phi_star).all():  # scores beyond float64: the dual 0 is always in the domain
                a = np.zeros_like(a)
            held = replace(
                kept, data=block.data, indices=block.indices, indptr=block.indptr, labels=labels, weights=weights
            )
            kept = held.commit(np.ones(len(labels), bool), a)
        return Pass(kept, value, loss, zero, hessian, tuple(along.tolist()))
