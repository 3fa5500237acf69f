"""The one door to compiled code: :func:`ready` turns a loop in plain Python into a compiled one.

A loop that was compiled before, on this machine or another one, is loaded; Numba is imported only where one must be
compiled. A digest of everything that went into a loop (:mod:`giftrl.compiled.digest`) is part of its key, so that none
is ever stale.
"""

import functools
import hashlib
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from giftrl.compiled import library, objects
from giftrl.compiled.digest import digest
from giftrl.compiled.kinds import FIELDS, Unknown, addresses_are_known, caller, spell
from giftrl.compiled.notice import announce
from giftrl.compiled.target import target

#: Environment variables that switch compilation off when they are set to anything but 0.
SWITCHED_OFF = ("GIFTRL_PLAIN", "NUMBA_DISABLE_JIT")

#: Counts the ways in which an entry takes its arguments and returns its result.
FORMAT = 1

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
                kernel = kernels.get(kind)
                if kernel is None:
                    kernel = kernels[kind] = _kernel(loop, args, counted)
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


def _kernel(loop: Callable[..., Any], args: tuple[Any, ...], counted: bool) -> Callable[..., Any]:
    """The loop for arguments of these kinds: kept from before, or compiled now."""
    fingerprint, lasting = digest(loop, args)
    try:
        if not addresses_are_known():
            raise Unknown("arrays in this Python")
        name = f"{loop.__module__}.{loop.__qualname__}"
        parts = (FORMAT, FIELDS, name, fingerprint, counted, *target(), spell(args))
        key = " ".join(str(part) for part in parts)
        symbol = f"{loop.__name__}_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        return _linked(loop, args, counted, symbol, key if lasting else None)
    except Unknown:
        kernel: Callable[..., Any] = _with_numba(loop, counted)
        return kernel


def _linked(
    loop: Callable[..., Any], args: tuple[Any, ...], counted: bool, symbol: str, key: str | None
) -> Callable[..., Any]:
    """The loop from the package's library, from the user's folder, or compiled; without a key, for this process."""
    entry = library.find(symbol, key) if key is not None else None
    if entry is not None:
        return caller(entry.address, args, entry.result, loop.__name__)
    code = objects.read(symbol, key) if key is not None else None
    if code is not None:
        try:
            return caller(objects.link(code, symbol), args, code.result, loop.__name__)
        except RuntimeError:
            objects.damaged(symbol)
    with announce(loop, args):
        from giftrl.compiled.emit import emit

        code = objects.Code(*emit(loop, args, counted, symbol))
    try:
        address = objects.link(code, symbol)
    except RuntimeError as problem:  # it calls what only Numba has
        raise Unknown(str(problem)) from None
    if key is not None:
        objects.keep(symbol, key, code)
    return caller(address, args, code.result, loop.__name__)


@functools.cache
def _with_numba(loop: Callable[..., Any], counted: bool) -> Any:
    """The loop as Numba calls it, for arguments that cannot be put into slots; it is compiled for this process only."""
    import numba

    from giftrl.compiled.overloads import install

    install()
    uncounted: dict[str, Any] = {} if counted else {"_nrt": False}
    return numba.njit(nogil=True, error_model="numpy", **uncounted)(lambda args: loop(*args))
