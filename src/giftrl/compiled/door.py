"""The one door to compiled code: :func:`ready` turns a loop in plain Python into a compiled one.

Operations and formulas (:mod:`giftrl.compiled.registry`) are given to Numba as overloads, so that the loop calls the
very functions that plain Python calls. Compiled loops are kept on disk and shared by all processes; a digest of
everything that went into a loop (:mod:`giftrl.compiled.digest`) is part of its key, so that none is ever stale.
"""

import contextlib
import functools
import os
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from giftrl.compiled.digest import digest
from giftrl.compiled.registry import FORMULAS, OPERATIONS, TWINS

#: Environment variables that switch compilation off when they are set to anything but 0.
SWITCHED_OFF = ("GIFTRL_PLAIN", "NUMBA_DISABLE_JIT")

#: What the compiler may assume of fast formulas: that sums can be reordered and multiplications fused into them. Not
#: that there are no NaN or infinities: looking for these must keep working.
FAST = frozenset({"reassoc", "contract", "nsz"})

_installed: list[int] = [0, 0]  # how many operations and formulas Numba has been told of
_lock = threading.RLock()


def ready(loop: Callable[..., Any], compiled: bool = True, counted: bool = True) -> Callable[..., Any]:
    """A loop, compiled when it is first called with arguments of a new type, or as it is.

    Args:
        loop: a function marked with :func:`giftrl.compiled.registry.formula`.
        compiled: False for the loop as plain Python.
        counted: False for a loop that makes no arrays. Numba then keeps no reference counts, which can be half of the
            work in a loop that takes many views of arrays.

    >>> from giftrl.compiled.registry import formula
    >>> @formula
    ... def total(x):
    ...     return sum(x)
    >>> float(ready(total, compiled=False)(np.array([1.0, 2.0])))
    3.0
    """
    if compiled and not any(os.environ.get(name, "0") not in ("", "0") for name in SWITCHED_OFF):
        return _compiled_loop(loop, counted)
    return _plain_loop(loop)


@functools.cache
def _plain_loop(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop as plain Python. Overflow shows in its results, as it does in those of the compiled loop."""

    def call(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return loop(*args)

    return call


@functools.cache
def _compiled_loop(loop: Callable[..., Any], counted: bool) -> Callable[..., Any]:
    """A loop that compiles itself for each new combination of argument types."""
    kernels: dict[Any, Callable[..., Any]] = {}

    def call(*args: Any) -> Any:
        kind = _kind(args)
        kernel = kernels.get(kind)
        if kernel is None:
            with _lock:
                kernel = kernels[kind] = _compile(loop, args, counted)
        return kernel(args)

    return call


def _kind(value: Any) -> Any:
    """What the type that Numba gives a value depends on. Asking Numba itself takes longer than a small batch."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        return value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
    if isinstance(value, tuple):
        return type(value), *(_kind(part) for part in value)
    return type(value)


def _compile(loop: Callable[..., Any], args: tuple[Any, ...], counted: bool) -> Any:
    """The loop for arguments of these types, from the disk where it is there."""
    fingerprint, cacheable = digest(loop, args)
    _install()
    if cacheable:
        try:
            kernel = _dispatcher(loop, fingerprint, counted, cache=True)
            # Two processes that compile different signatures at once could otherwise both take the next free number
            # for their file, and the index could end up naming one signature's code for the other.
            with _file_lock(Path(kernel._cache.cache_path), kernel.py_func.__qualname__):
                kernel.compile((kernel.typeof_pyval(args),))
            return kernel
        except RuntimeError as problem:  # no place to write: Numba says so when the function is made
            warnings.warn(
                f"compiled loops cannot be kept on disk ({problem}), so every process compiles its own; set "
                "NUMBA_CACHE_DIR to a folder that can be written to",
                stacklevel=4,
            )
        except (EOFError, ImportError, pickle.UnpicklingError) as problem:
            warnings.warn(
                f"the compiled loops in {kernel._cache.cache_path} cannot be read ({problem!r}), so this process "
                "compiles its own; delete the files there",
                stacklevel=4,
            )
    return _dispatcher(loop, fingerprint, counted, cache=False)


@functools.cache
def _dispatcher(loop: Callable[..., Any], fingerprint: str, counted: bool, cache: bool) -> Any:
    import numba

    def kernel(args):  # type: ignore[no-untyped-def]
        # The fingerprint is a constant of the function, and so a part of its key in the cache.
        assert len(fingerprint) > 0
        return loop(*args)

    # Numba keeps one index for each name, and a process must be able to import every class that an index speaks of: so
    # loops over losses of different users, or of different versions of the package, have different names.
    kernel.__qualname__ = f"{loop.__name__}-{fingerprint[:16]}"
    uncounted: dict[str, Any] = {} if counted else {"_nrt": False}
    return numba.njit(cache=cache, nogil=True, error_model="numpy", **uncounted)(kernel)


@contextlib.contextmanager
def _file_lock(folder: Path, name: str) -> Iterator[None]:
    """A lock between processes where the system has one and the folder can be written to; otherwise nothing."""
    try:
        import fcntl

        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / f"{name}.lock").open("w")  # like the index, one for each name
    except (ImportError, OSError):
        yield
        return
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield  # closing the file releases the lock


def _install() -> None:
    """Tell Numba of the operations and formulas that it does not know yet."""
    from numba.extending import overload

    from giftrl.compiled import vectors

    # Set for every formula, since a function inherits from its caller what it leaves open.
    exact: Any = {"error_model": "numpy", "forceinline": True, "fastmath": {"contract"}}
    fast: Any = exact | {"fastmath": set(FAST)}
    if _installed == [0, 0]:
        vectors.install(exact)
    for operation in OPERATIONS[_installed[0] :]:
        overload(operation, strict=False, jit_options=exact)(_method(operation))
    for formula, sums_reordered in FORMULAS[_installed[1] :]:
        compiled = TWINS.get(formula, formula)
        options = fast if sums_reordered else exact
        overload(formula, strict=False, jit_options=options)(vectors.choosing(compiled))
    _installed[:] = [len(OPERATIONS), len(FORMULAS)]


def _method(operation: Any) -> Callable[..., Any]:
    """What Numba compiles for an operation on a member: the method of its class, or the fallback."""

    def choose(member: Any, *args: Any) -> Any:
        cls = getattr(member, "instance_class", None)
        return None if cls is None else getattr(cls, operation.__name__, operation.__wrapped__)

    return choose
