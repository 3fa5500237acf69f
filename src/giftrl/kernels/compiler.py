"""From plain functions to compiled loops: Numba, lazily, with a cache that can be trusted.

The operations and formulas of :mod:`giftrl.ops.registry` are given to Numba as overloads that pick the member's own
method by its type; the loops are then compiled as they stand. Numba is imported by the first compiled call and not
before.

Numba keeps compiled loops on disk, but its key sees only the file that the loop is written in: after an edit of a
loss it would serve the old one. So a digest of every source that went in is a constant of the loop, which is part of
the key. It covers the rooms of the package that formulas come from and, for a loss of the user's own, the user's file.
"""

import contextlib
import functools
import hashlib
import inspect
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from giftrl.ops.registry import FORMULAS, OPERATIONS, TWINS, Operation

__all__ = ["FAST", "FORMULA_ROOMS", "digest", "ready"]

#: The parts of the package whose sources go into a compiled loop over rows.
FORMULA_ROOMS = ("ops", "losses", "regularizers", "updates", "schedules", "kernels")

#: What the compiler may assume of sums over features: that they can be reordered, and multiplications fused into them.
#: Not that there are no NaN or infinities: looking for these must keep working.
FAST = frozenset({"reassoc", "contract", "nsz"})

#: Where that goes for, and where it does not: numbers near the ends of float64 need the order in which they are
#: written, and a quotient that a loop multiplies by is not to become a division in the loop.
LOOPS = ("giftrl.kernels.", "giftrl.mixtures.")
ORDERED = ("giftrl.mixtures.features", "giftrl.mixtures.labels")

_lock = threading.RLock()
_installed: list[int] = [0, 0]  # how many operations and formulas Numba has been told of


def ready(
    loop: Callable[..., Any],
    members: tuple[Any, ...] = (),
    compiled: bool = True,
    rooms: tuple[str, ...] = FORMULA_ROOMS,
    counted: bool = True,
) -> Callable[..., Any]:
    """A loop, compiled or as it is.

    Args:
        loop: a function marked with :func:`giftrl.ops.registry.formula`.
        members: the objects whose classes it will run methods of.
        compiled: False for the loop as plain Python.
        rooms: the parts of the package whose sources it is made of.
        counted: False for a loop that makes no arrays. Numba then does not count who uses which array; in a loop that
            takes many views, counting them can be half of the work.
    """
    if not compiled:
        return _plain(loop)
    with _lock:
        _install()
        return _kernel(loop, *digest(members, rooms), counted)


def _plain(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop as plain Python; overflow is looked for in its results, as it is in compiled ones."""

    def call(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return loop(*args)

    return call


def _install() -> None:
    """Tell Numba of the operations and formulas that it does not know yet."""
    from numba.extending import overload

    # Said outright, since a function inherits what it leaves open from its caller: formulas are not reordered.
    scalar: Any = {"error_model": "numpy", "forceinline": True, "fastmath": {"contract"}}
    if _installed == [0, 0]:
        from giftrl.kernels import vectors

        vectors.install(scalar)
    for operation in OPERATIONS[_installed[0] :]:
        overload(operation.dispatch, strict=False, jit_options=scalar)(_method(operation))
    for function in FORMULAS[_installed[1] :]:
        fast = function.__module__.startswith(LOOPS) and function.__module__ not in ORDERED
        options: Any = scalar | {"fastmath": set(FAST)} if fast else scalar
        overload(function, strict=False, jit_options=options)(_itself(function))
    _installed[:] = [len(OPERATIONS), len(FORMULAS)]


def _method(operation: Operation) -> Callable[..., Any]:
    """What Numba compiles for an operation on a member: the method of its class, or the fallback."""

    def choose(member: Any, *args: Any) -> Any:
        cls = getattr(member, "instance_class", None)
        return None if cls is None else getattr(cls, operation.name, operation.fallback)

    return choose


def _itself(function: Callable[..., Any]) -> Callable[..., Any]:
    """What Numba compiles for a formula: the formula, or its twin for compilers."""

    def choose(*args: Any) -> Any:
        return TWINS.get(function, function)

    return choose


@functools.cache
def _kernel(loop: Callable[..., Any], fingerprint: str, cacheable: bool, counted: bool) -> Callable[..., Any]:
    import numba

    def kernel(args):  # type: ignore[no-untyped-def]
        # The fingerprint is a constant of the function, and so a part of its key in the cache.
        assert len(fingerprint) > 0
        return loop(*args)

    # Numba keeps one index for each name, and a process must be able to import every class that an index speaks of: so
    # loops over losses of different users, or of different versions of the package, have different names.
    kernel.__qualname__ = f"{loop.__name__}-{fingerprint[:16]}"
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    if not counted:
        options["_nrt"] = False
    uncached = numba.njit(**options)(kernel)
    if not cacheable:
        return lambda *args: uncached(args)
    try:
        dispatcher = numba.njit(cache=True, **options)(kernel)
    except RuntimeError as problem:  # no place to write: Numba says so when the function is made
        warnings.warn(
            f"compiled loops cannot be kept on disk ({problem}), so every process compiles its own; set "
            "NUMBA_CACHE_DIR to a directory that can be written to",
            stacklevel=4,
        )
        return lambda *args: uncached(args)
    return _one_writer_at_a_time(dispatcher, uncached)


def _one_writer_at_a_time(dispatcher: Any, uncached: Any) -> Callable[..., Any]:
    """Compile under a lock between processes; without the cache where its files are damaged.

    Two processes that compile different signatures at once can otherwise both take the next free number for their
    file, and the index can end up naming one signature's code for the other.
    """
    ready_kinds: set[Any] = set()  # asking Numba for the types of all arguments takes longer than a small batch

    def call(*args: Any) -> Any:
        kind = _kind(args)
        if kind not in ready_kinds:
            signature = (dispatcher.typeof_pyval(args),)
            with _lock, _file_lock(Path(dispatcher._cache.cache_path), dispatcher.py_func.__qualname__):
                try:
                    dispatcher.compile(signature)
                except (EOFError, ImportError, pickle.UnpicklingError) as problem:
                    warnings.warn(
                        f"the compiled loops in {dispatcher._cache.cache_path} cannot be read ({problem!r}), so this "
                        "process compiles its own; delete the files there",
                        stacklevel=3,
                    )
                    return uncached(args)
            ready_kinds.add(kind)
        return dispatcher(args)

    call.dispatcher = dispatcher  # type: ignore[attr-defined]
    return call


def _kind(value: Any) -> Any:
    """What the type that Numba gives a value depends on."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        return value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
    if isinstance(value, tuple):
        return type(value), *(_kind(part) for part in value)
    return type(value)


@contextlib.contextmanager
def _file_lock(directory: Path, name: str) -> Iterator[None]:
    """A lock between processes where there is one and the directory can be written to; otherwise nothing."""
    try:
        import fcntl

        directory.mkdir(parents=True, exist_ok=True)
        handle = (directory / f"{name}.lock").open("w")  # as the index, one for each name
    except (ImportError, OSError):
        yield
        return
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield  # closing the file gives the lock back


def digest(members: tuple[Any, ...], rooms: tuple[str, ...] = FORMULA_ROOMS) -> tuple[str, bool]:
    """A digest of all sources that a loop over these members is made of, and whether the result may be kept on disk.

    A class that another process could not import by its name (one typed into a console, say) is compiled for this
    process.
    """
    return _digest(tuple(type(member) for member in _with_parts(members)), rooms)


@functools.lru_cache(maxsize=1024)
def _digest(classes: tuple[type[Any], ...], rooms: tuple[str, ...]) -> tuple[str, bool]:
    files = set()
    cacheable = True
    for cls in classes:
        if cls.__module__.split(".")[0] == "giftrl":
            continue
        try:
            files.add(str(Path(inspect.getfile(cls)).resolve()))
        except (TypeError, OSError):
            cacheable = False
        cacheable &= cls.__module__ != "__main__" and "<locals>" not in cls.__qualname__
        cacheable &= getattr(sys.modules.get(cls.__module__), cls.__qualname__.split(".")[0], None) is not None
    parts = [_rooms_digest(rooms), *(hashlib.sha256(Path(f).read_bytes()).hexdigest() for f in sorted(files))]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest(), cacheable


def _with_parts(members: tuple[Any, ...]) -> Iterator[Any]:
    """Members and the members inside them, such as the base of an elastic net."""
    for member in members:
        if isinstance(member, tuple):
            yield member
            yield from _with_parts(tuple(member))


@functools.cache
def _rooms_digest(rooms: tuple[str, ...]) -> str:
    root = Path(__file__).parents[1]
    total = hashlib.sha256()
    for path in sorted(path for room in rooms for path in (root / room).rglob("*.py")):
        total.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()
