"""From plain Python to compiled loops: what can be compiled, and the one way to have it compiled.

================================ =======================================================================
:mod:`giftrl.compiled.registry`  operations and formulas: the functions that compiled loops may call
:mod:`giftrl.compiled.door`      :func:`~giftrl.compiled.door.ready`, which loads a loop, or compiles it when first used
:mod:`giftrl.compiled.digest`    everything that a compiled loop depends on, in one number
:mod:`giftrl.compiled.kinds`     how arguments are named in a key and passed to an entry
:mod:`giftrl.compiled.entry`     the way into compiled code
:mod:`giftrl.compiled.library`   the usual loops, which a wheel brings
:mod:`giftrl.compiled.objects`   object files in the user's folder, read, kept and linked
:mod:`giftrl.compiled.emit`      from Python to an object file, with Numba; with :mod:`giftrl.compiled.overloads` and
                                 :mod:`giftrl.compiled.counts`, for the processor of :mod:`giftrl.compiled.target`
:mod:`giftrl.compiled.notice`    what a person who waits for the compiler is told
:mod:`giftrl.compiled.rows`      rows of features, dense or sparse, as loops read them
:mod:`giftrl.compiled.once`      whether a row names a feature twice
:mod:`giftrl.compiled.lanes`     several models in one wide register; for LLVM :mod:`giftrl.compiled.vectors` and
                                 :mod:`giftrl.compiled.vector_math`
================================ =======================================================================

Numba is imported where a loop must be compiled and nowhere else.
"""
