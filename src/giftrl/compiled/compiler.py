"""From a loop in plain Python to a compiled one: :func:`ready`.

A loop that was compiled before, here or for a wheel, is loaded; Numba is imported only to compile. The key of a loop is
a digest of its code and dependencies, and the kinds of its arguments.
"""

import contextlib
import ctypes
import functools
import hashlib
import inspect
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from giftrl.compiled import object_files
from giftrl.compiled.object_files import Place, target
from giftrl.compiled.registry import TWINS

# Arguments: their kinds, as text, and their values, as bytes.
# A cached loop has one entry, ``int32 entry(int64 *slots, int64 *result)``. The slots are the leaves of
# the nested tuples of arguments, eight bytes each. An array is the address of its NumPy object, in which the entry
# finds the data, the shape and the strides: their offsets are part of NumPy's ABI, and reading them this way takes a
# tenth of the time in Python.

#: Offsets of the fields of an array object: data, number of dimensions, shape, strides.
FIELDS = object.__basicsize__


class Unknown(Exception):
    """A kind of argument or result that only Numba can pass."""


def spell(value: Any) -> str:
    """The kind of a value, which determines the compiled code, as text that is stable across processes. Classes include
    their module, so that a user's ``Logistic`` differs from ours.

    >>> spell((1, 2.0, np.zeros((2, 3), np.float32)))
    '(int,float,<f4 2Cwa)'
    """
    if isinstance(value, np.ndarray):
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return f"{_number(value.dtype)} {value.ndim}{layout}{'rw'[flags.writeable]}{'ua'[flags.aligned]}"
    if isinstance(value, tuple):
        cls = type(value)
        fields = getattr(cls, "_fields", ("",) * len(value))
        name = "" if cls is tuple else f"{cls.__module__}.{cls.__qualname__}"
        if cls is not tuple and not hasattr(cls, "_fields"):
            raise Unknown(f"{name} is a tuple without names")
        # Field names matter, since loops access fields by name.
        parts = (f"{field}{':' if field else ''}{spell(part)}" for field, part in zip(fields, value, strict=True))
        return f"{name}({','.join(parts)})"
    if type(value) in (bool, int, float):
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise Unknown("whole numbers beyond 64 bits")
        return type(value).__name__
    if isinstance(value, np.generic):
        return _number(value.dtype)
    raise Unknown(f"{type(value).__module__}.{type(value).__qualname__}")


def _number(dtype: Any) -> str:
    """The name of a type of numbers that loops can take."""
    if (dtype.kind in "biu" or dtype in (np.float32, np.float64)) and dtype.isnative:
        return str(dtype.str)
    raise Unknown(f"numbers of type {dtype}")


#: The array flags in its kind: C-contiguous, Fortran-contiguous, aligned, writeable.
LAYOUT = 0x1 | 0x2 | 0x100 | 0x400


def kind_of(value: Any) -> Any:
    """A key of the Numba type of a value. Numba's own function would be slow."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num & LAYOUT
    if isinstance(value, tuple):
        return type(value), *[kind_of(part) for part in value]
    return value.kind if type(value) is PackedArgument else type(value)


class PackedArgument:
    """An argument that is packed once for repeated calls; the contents of its arrays may change."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.kind = _kinds.setdefault(kind_of(value), object())

    @cached_property
    def packed(self) -> bytes:
        """The slots of the argument."""
        return packer((self.value,))((self.value,))


_kinds: dict[Any, object] = {}  # one object for each kind, which is faster to look up than a tuple


def unpacked(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments in the form for plain loops."""
    return tuple(each.value if isinstance(each, PackedArgument) else each for each in args)


def packer(args: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], bytes]:
    """A function that packs arguments of this kind into slots.

    Generated code: one statement unpacks all tuples, and another one packs the leaves.

    >>> pack = packer((1, (2.5, True)))
    >>> struct.unpack("qdq", pack((7, (0.5, False))))
    (7, 0.5, 0)
    """
    names = iter(range(10**6))
    leaves: list[tuple[str, str]] = []
    pattern = _pattern(args, names, leaves)
    slots = ", ".join(leaf for leaf, _ in leaves)
    source = f"def pack(args):\n    {pattern} = args\n    return into({slots})\n"
    scope: dict[str, Any] = {"into": struct.Struct("=" + "".join(form for _, form in leaves)).pack}
    exec(source, scope)
    made: Callable[[tuple[Any, ...]], bytes] = scope["pack"]
    return made


def _pattern(value: Any, names: Iterator[int], leaves: list[tuple[str, str]]) -> str:
    """The target of an unpacking assignment; leaves and their packing are appended to a list."""
    if isinstance(value, tuple):
        parts = [_pattern(part, names, leaves) for part in value]
        return f"({', '.join(parts)}{',' if parts else ''})"
    name = f"v{next(names)}"
    if isinstance(value, PackedArgument):
        leaves.append((f"{name}.packed", f"{len(value.packed)}s"))
        return name
    if isinstance(value, np.ndarray):
        leaves.append((f"id({name})", "q"))
    elif isinstance(value, np.bool_):
        leaves.append((f"int({name})", "q"))
    else:
        kind = "i" if isinstance(value, int) else np.asarray(value).dtype.kind
        leaves.append((name, "d" if kind == "f" else "Q" if kind == "u" else "q"))
    return name


def addresses_are_known() -> bool:
    """True if an object's id is its address, and array fields are at the expected offsets."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    array = np.zeros((2, 3), np.float32)
    data, _, shape, strides = (ctypes.c_int64 * 4).from_address(id(array) + FIELDS)
    found = [(ctypes.c_int64 * 2).from_address(at)[:] for at in (shape, strides)] if data == array.ctypes.data else []
    return found == [[2, 3], [12, 4]]


_NATIVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)


class Entry:
    """A call of the entry at a place with arguments of one kind; other threads run meanwhile."""

    def __init__(self, place: Place, args: tuple[Any, ...], name: str) -> None:
        self._native, self._pack, self._name = _NATIVE(place.address), packer(args), name
        self._tuple, self._forms = place.result.startswith("("), place.result.strip("()")
        self._unpack = struct.Struct("=" + self._forms.replace("?", "q")).unpack
        self._words = ctypes.c_int64 * len(self._forms)

    def __call__(self, args: tuple[Any, ...]) -> Any:
        return self._run(self._pack(args), args)

    def bind(self, args: tuple[Any, ...]) -> Callable[[], Any]:
        """The entry with fixed arguments; their arrays stay in place."""
        return partial(self._run, self._pack(args), args)

    def _run(self, packed: bytes, args: tuple[Any, ...]) -> Any:
        back = self._words() if self._forms else None
        status = self._native(packed, back)  # ``args`` keeps the arrays alive until it ends
        if status:
            raise RuntimeError(
                f"the compiled loop {self._name} ended with status {status}, as it does if it would raise an error or "
                "has no memory for an array; set GIFTRL_PLAIN=1 to see the error"
            )
        if back is None:
            return None
        values = self._unpack(back)
        if "?" in self._forms:
            pairs = zip(values, self._forms, strict=True)
            values = tuple(bool(value) if form == "?" else value for value, form in pairs)
        return values if self._tuple else values[0]


# The digest of everything a compiled loop depends on.
# Numba's own cache checks only the file of the loop, so after an edit of a loss it would use stale code. The digest
# follows calls instead: from the loop and the classes of its components it visits every reachable function, and
# includes their files and the values of global constants.


#: Packages that Numba supports itself. Python's standard library is skipped too, so that the digest does not depend on
#: the version of Python.
STABLE_PACKAGES = frozenset({"numpy", "numba", *sys.stdlib_module_names})
#: The start of this process: files edited later may differ from the imported code.
PROCESS_START_NS = time.time_ns()
#: The resolution of file times in nanoseconds.
FILE_TIME_RESOLUTION_NS = 50_000_000


def digest(loop: Callable[..., Any], members: tuple[Any, ...] = ()) -> tuple[str, bool]:
    """A digest of a loop and everything it depends on, and True if the compiled loop may be cached on disk. It may not
    if another process could import other code under the same name: classes from a console, functions without a file, or
    files written after this process began.

    >>> from giftrl.ops.scalar import sigmoid
    >>> digest(sigmoid) == digest(sigmoid), len(digest(sigmoid)[0]), digest(sigmoid)[1]
    (True, 64, True)
    """
    return _digest(loop, tuple(type(member) for member in with_parts(members)))


@functools.lru_cache(maxsize=1024)
def _digest(loop: Callable[..., Any], classes: tuple[type[Any], ...]) -> tuple[str, bool]:
    walk = _Walk()
    walk.function(loop)
    for cls in classes:
        walk.member(cls)
    # The compiled form of lanes is in a module that no loop refers to.
    files = walk.files | {str(path) for path in Path(__file__).parent.glob("*.py")}
    # The last two path parts identify a file, independent of the installation folder.
    parts = [f"{Path(file).parts[-2:]} {_content(file)}" for file in files]
    text = "\n".join([*sorted(parts), *sorted(walk.constants)])
    lasting = all(_can_be_imported(cls) for cls in walk.classes) and all(_settled(file) for file in walk.files)
    return hashlib.sha256(text.encode()).hexdigest(), lasting


class _Walk:
    """The functions, classes and constants that can be reached from a function."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.constants: set[str] = set()
        self.classes: set[type[Any]] = set()
        self._seen: set[Any] = set()

    def function(self, function: Any) -> None:
        function = TWINS.get(function, inspect.unwrap(function))
        code = getattr(function, "__code__", None)
        if code is None or function in self._seen or _package(function) in STABLE_PACKAGES:
            return
        self._seen.add(function)
        self.files.add(code.co_filename)
        names = set(_names(code))
        # A name is a global, a free variable, or an attribute of a global module.
        reached = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # a variable that has no value yet
                reached[name] = cell.cell_contents
        modules = [value for value in reached.values() if isinstance(value, ModuleType)]
        for module in modules:
            if module.__name__.split(".")[0] not in STABLE_PACKAGES:
                reached |= {f"{module.__name__}.{name}": vars(module)[name] for name in names & vars(module).keys()}
        for name, value in reached.items():
            self._value(name, value)

    def member(self, cls: type[Any]) -> None:
        """A class whose methods a loop may run, and the classes it inherits from."""
        if cls in self.classes or _package(cls) in STABLE_PACKAGES:
            return
        self.classes.add(cls)
        for part in cls.__mro__:
            for method in vars(part).values():
                if isinstance(method, FunctionType) and method.__name__ != "__new__":  # which NamedTuple generates
                    self.function(method)

    def _value(self, name: str, value: Any) -> None:
        if isinstance(value, type):
            if issubclass(value, tuple):
                self.member(value)
        elif isinstance(value, FunctionType):
            self.function(value)
        elif isinstance(value, np.ndarray):
            self.constants.add(f"{name} {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}")
        elif isinstance(value, (bool, int, float, str, bytes, np.generic, tuple)):
            self.constants.add(f"{name} {_spelled(value)}")
            for part in with_parts((value,)):
                self.member(type(part))


def _names(code: CodeType) -> Iterator[str]:
    """The names in a function and in the functions written inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def with_parts(members: tuple[Any, ...]) -> Iterator[Any]:
    """Components and nested components, such as the base of an elastic net."""
    for member in members:
        if isinstance(member, tuple):
            if type(member) is not tuple:
                yield member
            yield from with_parts(tuple(member))


def _spelled(value: Any) -> str:
    """A constant as text, independent of NumPy's print format."""
    if isinstance(value, tuple):
        return f"{type(value).__qualname__}({', '.join(map(_spelled, value))})"
    return f"{value.dtype.str} {value.item()!r}" if isinstance(value, np.generic) else repr(value)


def _settled(file: str) -> bool:
    """True if a file exists and has not changed since this process began."""
    try:
        return Path(file).stat().st_mtime_ns < PROCESS_START_NS - FILE_TIME_RESOLUTION_NS
    except OSError:
        return False


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", None) or "").split(".")[0]


def _can_be_imported(cls: type[Any]) -> bool:
    """True if another process finds this class under its name."""
    if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
        return False
    return getattr(sys.modules.get(cls.__module__), cls.__qualname__.split(".")[0], None) is not None


def _content(file: str) -> str:
    """The digest of a file, or its name if it does not exist (functions from a console)."""
    try:
        status = Path(file).stat()
    except OSError:
        return repr(file)
    return _content_of(file, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1024)
def _content_of(file: str, mtime: int, size: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


# Loops, ready to be called.

#: Environment variables that disable compilation unless 0.
SWITCHED_OFF = ("GIFTRL_PLAIN", "NUMBA_DISABLE_JIT")

#: The version of the calling convention of entries.
FORMAT = 1

_lock = threading.RLock()


def ready(loop: Callable[..., Any], compiled: bool = True, counted: bool = True) -> "Loop":
    """A loop that is compiled on the first call with new argument types, or a plain Python loop.

    Args:
        loop: a function marked with :func:`giftrl.compiled.registry.formula`.
        compiled: False for the loop as plain Python.
        counted: False for a loop that makes no arrays. Reference counting is then disabled, which can halve the time of
        a loop with many array views.

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
    """A loop as plain Python, without warnings on overflow."""

    def __init__(self, loop: Callable[..., Any]) -> None:
        self.loop = loop

    def __call__(self, *args: Any) -> Any:
        with np.errstate(all="ignore"):
            return self.loop(*unpacked(args))

    def bind(self, *args: Any) -> Callable[[], Any]:
        """The loop with fixed arguments; the contents of their arrays may change."""
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
        """The loop with fixed arguments; the contents of their arrays may change."""
        return self._kernel(args).bind(args)

    def _kernel(self, args: tuple[Any, ...]) -> "Entry | NumbaLoop":
        """The loop for arguments of these kinds: cached, or compiled now."""
        kind = kind_of(args)
        with _lock:
            if kind not in self._kernels:
                try:
                    self._kernels[kind] = Entry(self._place(unpacked(args)), args, self.loop.__name__)
                except Unknown:
                    self._kernels[kind] = _numba_loop(self.loop, self.counted)
            return self._kernels[kind]

    def _place(self, args: tuple[Any, ...]) -> Place:
        """The entry for these arguments, shared by equivalent kinds."""
        if not addresses_are_known():
            raise Unknown("arrays in this Python")
        loop, (fingerprint, lasting) = self.loop, digest(self.loop, args)
        name = f"{loop.__module__}.{loop.__qualname__}"
        parts = (FORMAT, FIELDS, name, fingerprint, self.counted, sys.platform, *target(), spell(args))
        key = " ".join(str(part) for part in parts)
        symbol = f"{loop.__name__}_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        known = symbol if lasting else kind_of(args)  # classes from a console are distinguished by identity
        if known not in self._found:
            self._found[known] = self._loaded(args, symbol, key) if lasting else self._compiled(args, symbol)[1]
        return self._found[known]

    def _loaded(self, args: tuple[Any, ...], symbol: str, key: str) -> Place:
        """The entry from the package's library or the user's cache; or compiled now and cached."""
        place = object_files.find_shipped(symbol, key) or object_files.find(symbol, key)
        if place is not None:
            return place
        waits = f"another process is compiling {self.loop.__name__}; waiting for it"
        with object_files.alone(symbol, partial(say, waits)):
            place = object_files.find(symbol, key)  # check the cache again: another process may have compiled it
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
        except RuntimeError as problem:  # it needs Numba's runtime
            raise Unknown(str(problem)) from None


class NumbaLoop:
    """A loop called through Numba, for arguments that do not fit slots; compiled for this process only."""

    def __init__(self, loop: Callable[..., Any], counted: bool) -> None:
        import numba

        from giftrl.compiled.codegen import install

        install()
        uncounted: dict[str, Any] = {} if counted else {"_nrt": False}
        self._call = numba.njit(nogil=True, error_model="numpy", **uncounted)(lambda args: loop(*args))

    def __call__(self, args: tuple[Any, ...]) -> Any:
        return self._call(unpacked(args))

    def bind(self, args: tuple[Any, ...]) -> Callable[[], Any]:
        return partial(self._call, unpacked(args))


Loop = PlainLoop | CompiledLoop
_plain_loop, _compiled_loop, _numba_loop = cache(PlainLoop), cache(CompiledLoop), cache(NumbaLoop)


# Progress messages of the compiler.

#: The seconds that a loop takes to compile.
COMPILE_SECONDS, USUAL_COMPILE_SECONDS = {"learn_mixture": 25, "learn_classes": 25}, 4
#: Modules of classes to show in messages: parts of the learner, and rows.
MODULES_OF_KINDS = ("giftrl.losses", "giftrl.regularizers", "giftrl.compiled.rows")
#: Report what is compiled: True, False, or None to report if standard error is a terminal.
speaking: list[bool | None] = [None]


def say(text: str) -> None:
    """Print a line on standard error, if it is a terminal."""
    wanted = sys.stderr.isatty() if speaking[0] is None else speaking[0]
    if wanted:
        print(f"giftrl: {text}", file=sys.stderr, flush=True)


def describe(loop: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """A message about the loop being compiled, its components, and the expected time.

    >>> from giftrl.losses import Logistic
    >>> describe(say, (Logistic(), 1.0))
    'compiling say for Logistic (about 4 s, once)'
    """
    classes = [type(part) for part in with_parts(args)]
    told = [
        c.__name__
        for c in classes
        if c.__module__.startswith(MODULES_OF_KINDS) or not c.__module__.startswith("giftrl.")
    ]
    seconds = COMPILE_SECONDS.get(loop.__name__, USUAL_COMPILE_SECONDS)
    return f"compiling {loop.__name__}{' for ' if told else ''}{', '.join(told)} (about {seconds} s, once)"
