"""Everything that a compiled loop depends on, in one number.

Numba's own cache looks only at the file in which a loop is written: after an edit of a loss it would serve the old
code. The digest here follows the calls instead. Starting from the loop and from the classes of the members that it
gets, it visits every function that can be reached, and takes in the file of each one and the value of each global
constant.
"""

import contextlib
import functools
import hashlib
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from giftrl.compiled.registry import TWINS

#: Packages whose functions Numba knows by itself. Python's own modules are not looked at either, so that the digest is
#: the same in every version of Python.
STABLE_PACKAGES = frozenset({"numpy", "numba", *sys.stdlib_module_names})
#: When this process began, as far as files are concerned that may have been edited since they were imported.
PROCESS_START_NS = time.time_ns()
#: By how much the time of a file can be behind the clock, in nanoseconds: systems mark files by a coarser one.
FILE_TIME_RESOLUTION_NS = 50_000_000


def digest(loop: Callable[..., Any], members: tuple[Any, ...] = ()) -> tuple[str, bool]:
    """A digest of all that a loop over these members is made of, and whether the compiled loop may be kept on disk.

    It may not if another process could import something else under the same name: a class typed into a console, a
    function without a file, or a file that was written after this process began, and so perhaps after it was imported.

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
    # What the compiled form of lanes is lies beside this file, and no loop names it.
    files = walk.files | {str(path) for path in Path(__file__).parent.glob("*.py")}
    # The last two parts of the name are enough to tell files apart, and do not change when the package is moved.
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
        # A name is a global, a free variable, or an attribute of a module that is a global.
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
    """Members and the members inside them, such as the base of an elastic net."""
    for member in members:
        if isinstance(member, tuple):
            if type(member) is not tuple:
                yield member
            yield from with_parts(tuple(member))


def _spelled(value: Any) -> str:
    """A constant as text that does not depend on how NumPy prints its numbers."""
    if isinstance(value, tuple):
        return f"{type(value).__qualname__}({', '.join(map(_spelled, value))})"
    return f"{value.dtype.str} {value.item()!r}" if isinstance(value, np.generic) else repr(value)


def _settled(file: str) -> bool:
    """True if a file exists, and is as it was when this process began."""
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
    try:
        found = Path(file).stat()
    except OSError:  # no such file, as for a function typed into a console
        return repr(file)
    return _content_of(file, found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=1024)
def _content_of(file: str, mtime: int, size: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
