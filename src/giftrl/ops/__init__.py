"""Operations: one formula serves plain Python and compiled loops.

A loss, an update, a schedule or a regularizer is a ``NamedTuple``: parameters as fields, formulas as methods of
scalars. An *operation* is a generic function over such members. Called as ``prox(loss, p, y, c)`` it runs the
member's own ``prox`` if it has one and the operation's fallback otherwise, so a member defines only the methods it has
closed forms for::

    class Hinge(NamedTuple):
        def value(self, p, y): ...
        def slope(self, p, y): ...

Formulas must call operations and marked helpers, never ``self.method(...)``, because the compiler resolves operations
by the type of their first argument.

============================== ==============================================================
:mod:`giftrl.ops.loss`         losses of one prediction: value, slope, conjugate, prox, flow ...
:mod:`giftrl.ops.vector_loss`  losses of K scores
:mod:`giftrl.ops.line`         the one-dimensional problem to which every update reduces
:mod:`giftrl.ops.scalar`       exponentials and logarithms that neither overflow nor raise
============================== ==============================================================
"""

from giftrl.compiled.registry import FORMULAS, OPERATIONS, brings, formula, operation, validated

__all__ = ["FORMULAS", "OPERATIONS", "brings", "formula", "operation", "validated"]
