"""From plain Python to compiled loops.

=================================== ==================================================================================
:mod:`giftrl.compiled.registry`     operations and formulas: the functions that compiled loops may call
:mod:`giftrl.compiled.compiler`     :func:`~giftrl.compiled.compiler.ready` loads a loop, or compiles it when first used
:mod:`giftrl.compiled.object_files` object files: in the user's folder, and in the library that a wheel brings
:mod:`giftrl.compiled.codegen`      from Python to an object file, with Numba
:mod:`giftrl.compiled.rows`         dense and sparse rows of features, as loops read them
:mod:`giftrl.compiled.lanes`        several models in one wide register; :mod:`giftrl.compiled.vectors` for LLVM
=================================== ==================================================================================

Numba is imported only to compile a loop.
"""
