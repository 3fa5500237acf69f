"""From plain Python to compiled loops.

================================== ===================================================================================
:mod:`giftrl.compiled.registry`     operations and formulas: the functions that compiled loops may call
:mod:`giftrl.compiled.compiler`     :func:`~giftrl.compiled.compiler.ready` loads a loop, or compiles it when first used
:mod:`giftrl.compiled.digest`       a digest of everything that a compiled loop depends on
:mod:`giftrl.compiled.arguments`    names of arguments in a key, and the entry that passes them to a loop
:mod:`giftrl.compiled.object_files` object files: in the user's folder, and in the library that a wheel brings
:mod:`giftrl.compiled.codegen`      from Python to an object file, with Numba
:mod:`giftrl.compiled.rows`         dense and sparse rows of features, as loops read them
:mod:`giftrl.compiled.lanes`        several models in one wide register, for LLVM by
                                    :mod:`giftrl.compiled.vectors` and :mod:`giftrl.compiled.vector_math`
================================== ===================================================================================

Numba is imported only to compile a loop.
"""
