"""From plain Python to compiled loops: what can be compiled, and the one way to have it compiled.

================================ =======================================================================
:mod:`giftrl.compiled.registry`  operations and formulas: the functions that compiled loops may call
:mod:`giftrl.compiled.door`      :func:`~giftrl.compiled.door.ready`, which compiles a loop when first used
:mod:`giftrl.compiled.digest`    everything that a compiled loop depends on, in one number
:mod:`giftrl.compiled.rows`      rows of features, dense or sparse, as loops read them
:mod:`giftrl.compiled.lanes`     several models in one wide register; :mod:`giftrl.compiled.vectors` for LLVM
================================ =======================================================================

Numba is imported by the first compiled call and not before.
"""
