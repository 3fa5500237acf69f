"""The one door to compiled code: :func:`ready` turns a loop in plain Python into a compiled one.

A loop that was compiled before, on this machine or another one, is loaded; Numba is imported only when one must be
compiled. A digest of everything that went into a loop (:mod:`giftrl.compiled.digest`) is part of its key.
"""

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from giftrl.compiled import object_files
from giftrl.compiled.arguments import FIELDS, Entry, Place, Unknown, addresses_are_known, kind_of, spell, unpacked
from giftrl.compiled.digest import digest, with_parts
from giftrl.compiled.object_files import target

#: Environment variables that switch compilation off when they are set to anything but 0.
SWITCHED_OFF = ("GIFTRL_PLAIN", "NUMBA_DISABLE_JIT")

#: Counts the ways in which an entry takes its arguments and returns its result.
FORMAT = 1

_lock = threading.RLock()


def ready(loop: Callable[..., Any], compiled: bool = True, counted: bool = True) -> "Loop":
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


class PlainLoop:
    """A loop as plain Python. Overflow shows in its results, as it does in those of the compiled loop."""

    def __init__(self, loop: Callable[..., Any]) -> None:
        self.loop = loop

    def __call__(self, *args: Any) -> Any:
        with np.errstate(all="ignore"):
            return self.loop(*unpacked(args))

    def bind(self, *args: Any) -> Callable[[], Any]:
        """The loop with arguments that are the same in every call, though what is in their arrays may change."""
        return partial(self, *args)


class CompiledLoop:
    """A loop that is loaded or compiled for each new combination of argument types."""

    def __init__(self, loop: Callable[..., Any], counted: bool) -> None:
        self.loop, self.counted = loop, counted
        self._kernels: dict[Any, Entry | NumbaLoop] = {}
        self._found: dict[Any, Place] = {}

    def __call__(self, *args: Any) -> Any:
        kernel = self._kernels.get(kind_of(args))
        return (self._kernel(args) if kernel is None else kernel)(args)

    def bind(self, *args: Any) -> Callable[[], Any]:
        """The loop with arguments that are the same in every call, though what is in their arrays may change.

        >>> from giftrl.compiled.registry import formula
        >>> @formula
        ... def double(x):
        ...     x[0] *= 2.0
        >>> x = np.array([1.0])
        >>> twice = ready(double).bind(x)
        >>> twice(), twice(), x.tolist()
        (None, None, [4.0])
        """
        return self._kernel(args).bind(args)

    def _kernel(self, args: tuple[Any, ...]) -> "Entry | NumbaLoop":
        """The loop for arguments of these kinds: kept from before, or compiled now."""
        kind = kind_of(args)
        with _lock:
            if kind not in self._kernels:
                try:
                    self._kernels[kind] = Entry(self._place(unpacked(args)), args, self.loop.__name__)
                except Unknown:
                    self._kernels[kind] = NumbaLoop(self.loop, self.counted)
            return self._kernels[kind]

    def _place(self, args: tuple[Any, ...]) -> Place:
        """The entry for these arguments. Kinds that differ only in what does not matter share one."""
        if not addresses_are_known():
            raise Unknown("arrays in this Python")
        loop, (fingerprint, lasting) = self.loop, digest(self.loop, args)
        name = f"{loop.__module__}.{loop.__qualname__}"
        parts = (FORMAT, FIELDS, name, fingerprint, self.counted, sys.platform, *target(), spell(args))
        key = " ".join(str(part) for part in parts)
        symbol = f"{loop.__name__}_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        known = symbol if lasting else kind_of(args)  # classes of a console are told apart by what they are
        if known not in self._found:
            self._found[known] = self._loaded(args, symbol, key) if lasting else self._compiled(args, symbol)[1]
        return self._found[known]

    def _loaded(self, args: tuple[Any, ...], symbol: str, key: str) -> Place:
        """The entry from the package's library or a file of the user's folder; or compiled now, and kept there."""
        place = object_files.find_shipped(symbol, key) or object_files.find(symbol, key)
        if place is None:
            with object_files.alone(
                symbol, partial(say, f"another process is compiling {self.loop.__name__}; waiting for it")
            ):
                place = object_files.find(symbol, key)  # another process may have compiled it meanwhile
                if place is None:
                    code, place = self._compiled(args, symbol)
                    object_files.keep(symbol, key, code)
        return place

    def _compiled(self, args: tuple[Any, ...], symbol: str) -> tuple[object_files.Code, Place]:
        """The object file of the loop, and the address of its entry."""
        say(describe(self.loop, args))
        from giftrl.compiled.codegen import emit

        code = object_files.Code(*emit(self.loop, args, self.counted, symbol))
        try:
            return code, object_files.link(code, symbol)
        except RuntimeError as problem:  # it calls what only Numba has
            raise Unknown(str(problem)) from None


class NumbaLoop:
    """The loop as Numba calls it, for arguments that cannot be put into slots; it is compiled for this process only."""

    def __init__(self, loop: Callable[..., Any], counted: bool) -> None:
        self._call = _with_numba(loop, counted)

    def __call__(self, args: tuple[Any, ...]) -> Any:
        return self._call(unpacked(args))

    def bind(self, args: tuple[Any, ...]) -> Callable[[], Any]:
        return partial(self._call, unpacked(args))


@cache
def _with_numba(loop: Callable[..., Any], counted: bool) -> Any:
    import numba

    from giftrl.compiled.codegen import install

    install()
    uncounted: dict[str, Any] = {} if counted else {"_nrt": False}
    return numba.njit(nogil=True, error_model="numpy", **uncounted)(lambda args: loop(*args))


Loop = PlainLoop | CompiledLoop
_plain_loop, _compiled_loop = cache(PlainLoop), cache(CompiledLoop)


# What a person who waits for the compiler is told.

#: How long a loop takes to compile, in seconds, where it is longer than usual.
COMPILE_SECONDS = {"learn_mixture": 25, "learn_classes": 25}
USUAL_COMPILE_SECONDS = 4

#: Where the classes are that a person knows.
MODULES_OF_KINDS = ("giftrl.losses", "giftrl.regularizers", "giftrl.compiled.rows")

#: Report what is compiled: True, False, or None to report if standard error is a terminal.
speaking: list[bool | None] = [None]


def say(text: str) -> None:
    """Print a line on standard error, if somebody is there to read it."""
    wanted = sys.stderr.isatty() if speaking[0] is None else speaking[0]
    if wanted:
        print(f"giftrl: {text}", file=sys.stderr, flush=True)


def describe(loop: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """A line about the loop that is compiled, its members, and the time it takes.

    >>> from giftrl.losses import Logistic
    >>> describe(say, (Logistic(), 1.0))
    'compiling say for Logistic (about 4 s, once)'
    """
    # The parts that a person chose, and the form of the rows; not the buffers and states of the loop.
    told = [
        cls
        for cls in map(type, with_parts(args))
        if cls.__module__.startswith(MODULES_OF_KINDS) or not cls.__module__.startswith("giftrl.")
    ]
    kinds = f" for {', '.join(cls.__name__ for cls in told)}" if told else ""
    return (
        f"compiling {loop.__name__}{kinds} (about {COMPILE_SECONDS.get(loop.__name__, USUAL_COMPILE_SECONDS)} s, once)"
    )
