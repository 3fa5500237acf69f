"""Object files of compiled loops: target processor, the user's cache, and the library of a wheel."""

import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import itertools
import json
import os
import platform
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from giftrl import files, system
from giftrl.errors import GiftrlError

#: The target level: most processors since 2013. Compiling for this level instead of the exact processor gives the same
#: bits on all machines, at the same speed.
CPU_LEVEL = "x86-64-v3"
FEATURES = "+cx16,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"

#: NumPy's names for the features of this level; recent versions also name the level itself.
LEVEL_FEATURES = ("AVX2", "FMA3", "F16C")


@functools.cache
def target() -> tuple[str, str]:
    """The name and the features of the processor to compile for."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        core: Any = np._core if hasattr(np, "_core") else np.core
        known = core._multiarray_umath.__cpu_features__
        if known.get("X86_V3") or all(known.get(feature) for feature in LEVEL_FEATURES):
            return CPU_LEVEL, FEATURES
    if platform.machine().lower() in ("aarch64", "arm64"):
        return "generic", "+fp-armv8,+neon"  # features of every such processor
    from llvmlite import binding

    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


@functools.cache
def machine() -> Any:
    """LLVM's target machine, for position-independent code."""
    from llvmlite import binding

    start()
    name, features = target()
    kind = binding.Target.from_triple(binding.get_process_triple())
    return kind.create_target_machine(cpu=name, features=features, opt=3, reloc="pic", codemodel="default")


def start() -> None:
    """Initialise LLVM for the target processor."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


# The cache: object files in a user's folder, which LLVM links into a process. # # Files are written atomically. The
# first line has all dependencies of the loop and a checksum. Invalid files are compiled again.

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]

#: The environment variable for the cache folder.
FOLDER = "GIFTRL_CACHE_DIR"

#: C functions that a loop may call without Python or Numba.
C_FUNCTIONS = (
    *("memset", "memcpy", "memmove", "malloc", "free", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow"),
    *("sqrt", "cbrt", "hypot", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh"),
    *("acosh", "atanh", "erf", "erfc", "tgamma", "lgamma", "floor", "ceil", "trunc", "rint", "round", "fmod", "ldexp"),
    *("frexp", "fma", "fmin", "fmax", "expf", "logf", "powf", "sqrtf", "floorf", "ceilf", "truncf", "fmodf"),
)


#: The lock file of compiling processes.
LOCK = "lock"


class Code(NamedTuple):
    """A compiled loop: object file and packing of the result."""

    content: bytes
    result: str


class Place(NamedTuple):
    """The address of an entry, and the packing of each number of its result; in brackets for a tuple."""

    address: int
    result: str


def folder() -> Path:
    """The folder of compiled loops: GIFTRL_CACHE_DIR, a folder in NUMBA_CACHE_DIR, or one in the user's cache."""
    if os.environ.get(FOLDER):
        return Path(os.environ[FOLDER])
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"], "giftrl")
    return system.cache_folder() / "loops"


def read(symbol: str, key: str) -> Code | None:
    """The cached loop of this key, or None."""
    try:
        path = path_of(symbol)
        # Do not follow links, which could point to another file of the user.
        with os.fdopen(system.open_to_read(path), "rb") as file:
            if not _ours(os.fstat(file.fileno())):
                warn_once(
                    f"{path} belongs to another user, or others can write to it, so the compiled loop in it is not "
                    f"used; delete it, or set {FOLDER} to a folder of your own"
                )
                return None
            head, _, content = file.read().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        warn_once(f"{path} cannot be read ({problem.strerror}), so the loop is compiled again; set {FOLDER} elsewhere")
        return None
    try:
        said = json.loads(head)
        if said["key"] == key and said["sha256"] == hashlib.sha256(content).hexdigest():
            return Code(content, said["result"])
    except (ValueError, KeyError, TypeError):
        pass
    warn_of_damage(symbol)
    return None


@functools.cache
def _compiler() -> str:
    """The versions of Numba and llvmlite; Numba's from metadata, since its import is slow."""
    import llvmlite

    numba = importlib.util.find_spec("numba")
    version = b"" if numba is None or numba.origin is None else Path(numba.origin).with_name("_version.py").read_bytes()
    return f"{llvmlite.__version__}-{hashlib.sha256(version).hexdigest()[:8]}"


@contextlib.contextmanager
def alone(symbol: str, waits: Callable[[], None]) -> Iterator[None]:
    """Let one process at a time compile a loop; others call ``waits`` and wait, if files can be locked."""
    with contextlib.ExitStack() as stack:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                folder().mkdir(mode=0o700, parents=True, exist_ok=True)
                file = stack.enter_context((folder() / LOCK).open("ab"))  # a byte of it is locked for each loop
                place = 1, int(symbol[-7:], 16)
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *place)
                except (BlockingIOError, PermissionError):
                    waits()
                    fcntl.lockf(file, fcntl.LOCK_EX, *place)
        yield


def warn_of_damage(symbol: str) -> None:
    """Warn about a damaged file."""
    warn_once(f"{path_of(symbol)} is damaged, so the loop is compiled again and the file is replaced")


def keep(symbol: str, key: str, code: Code) -> None:
    """Cache a compiled loop for other processes."""
    digest = hashlib.sha256(code.content).hexdigest()
    said = {"key": key, "symbol": symbol, "sha256": digest, "result": code.result}
    try:
        path = path_of(symbol)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()  # do not replace the target of a link
        files.write(path, [json.dumps(said).encode(), b"\n", code.content])
        path.chmod(0o644)
    except (OSError, GiftrlError) as problem:
        warn_once(
            f"compiled loops cannot be kept on disk ({problem}), so every process compiles its own; set {FOLDER} to a "
            "folder that can be written to"
        )


def find(symbol: str, key: str) -> Place | None:
    """The linked loop of this key from the cache, or None."""
    code = read(symbol, key)
    if code is None:
        return None
    try:
        return link(code, symbol)
    except RuntimeError:
        warn_of_damage(symbol)
        return None


def link(code: Code, symbol: str) -> Place:
    """Link a compiled loop into this process; raise RuntimeError for code that cannot be linked."""
    from llvmlite import binding

    builder = binding.JITLibraryBuilder().add_object_img(code.content)
    for name, address in _outside().items():
        builder.import_symbol(name, address)
    linked = builder.export_symbol(symbol).link(_linker(), f"library {next(_numbers)}")
    LINKED.append((symbol, linked))  # keeps the code in memory
    return Place(int(linked[symbol]), code.result)


#: The loops linked into this process, by symbol.
LINKED: list[tuple[str, Any]] = []
_numbers = itertools.count()


@functools.cache
def _linker() -> Any:
    from llvmlite import binding

    start()
    return binding.create_lljit_compiler(suppress_errors=True)


@functools.cache
def _outside() -> dict[str, int]:
    """The addresses of the functions of C."""
    names = {"win32": ("ucrtbase", "vcruntime140"), "linux": ("libm.so.6", None)}
    places = []
    for name in names.get(sys.platform, (None,)):
        with contextlib.suppress(OSError):
            places.append(ctypes.CDLL(name))
    found = {}
    for name in C_FUNCTIONS:
        function = next((getattr(place, name) for place in places if hasattr(place, name)), None)
        if function is not None:
            found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


def path_of(symbol: str) -> Path:
    """The file of a loop, by what compiled it."""
    return folder() / f"{symbol}-{_compiler()}.loop"


def _ours(status: os.stat_result) -> bool:
    """True if a file belongs to this user or the administrator; other machine code is not trusted."""
    owners = trusted_users()
    return not owners or (status.st_uid in owners and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def trusted_users() -> tuple[int, ...]:
    """The user ids of this user and the administrator; empty if files have no owner."""
    return (0, os.getuid()) if hasattr(os, "getuid") else ()


@functools.cache
def warn_once(message: str) -> None:
    """Warn, once in a process."""
    warnings.warn(message, stacklevel=2)


# The package's own library: the usual loops, compiled when the package was built.
# It is part of platform wheels (see ``hatch_build.py``), but not of source trees. ``index.json`` has the packing of
# results and all dependencies of each entry.

SHIPPED_FOLDER = Path(__file__).parent / "library"
LIBRARY, INDEX = "loops.so", "index.json"


def find_shipped(symbol: str, key: str) -> Place | None:
    """The loop of this key from the package's library, or None."""
    index, library = _opened()
    entry = index.get(symbol)
    if entry is None or entry["key"] != key:
        return None
    return Place(ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0, entry["result"])


@functools.cache
def _opened() -> tuple[dict[str, Any], Any]:
    """The index and the library; an empty index if there is none, or if this system cannot load it."""
    try:
        index = json.loads((SHIPPED_FOLDER / INDEX).read_text(encoding="utf-8"))
        return index, ctypes.CDLL(str(SHIPPED_FOLDER / LIBRARY))
    except (OSError, ValueError):
        return {}, None
