"""Arguments of compiled loops: their kinds, as text, and their values, as bytes.

A loop that is kept in a file has one entry, ``int32 entry(int64 *slots, int64 *result)``. The slots are the leaves of
the nested tuples of arguments, eight bytes each. An array is the address of its NumPy object, in which the entry finds
the data, the shape and the strides: their places are part of NumPy's binary interface, on which every extension that
was built for NumPy relies, and reading them there takes a tenth of the time of asking for them in Python.
"""

import ctypes
import struct
import sys
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

#: Where the fields of an array object begin: data, number of dimensions, shape, strides, eight bytes each.
FIELDS = object.__basicsize__


class Unknown(Exception):
    """A kind of argument or result that only Numba can pass."""


def spell(value: Any) -> str:
    """The kind of a value, on which the compiled form of a loop depends, as text that is equal in every process.

    Classes are named with their module: a user's own ``Logistic`` is not ours.

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
        # The names of the fields count, since a loop asks for fields by name.
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


#: The flags of an array that its kind depends on: contiguous in C's order and in Fortran's, aligned, writeable.
LAYOUT = 0x1 | 0x2 | 0x100 | 0x400


def kind_of(value: Any) -> Any:
    """A key of the type that Numba gives a value. Asking Numba itself takes longer than a small batch."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num & LAYOUT
    if isinstance(value, tuple):
        return type(value), *[kind_of(part) for part in value]
    return value.kind if type(value) is PackedArgument else type(value)


class PackedArgument:
    """An argument that stays the same from call to call, taken apart once; what is in its arrays may change.

    >>> held = PackedArgument((1, 2.5))
    >>> struct.unpack("qd", held.packed), packer((held,))((held,)) == held.packed
    ((1, 2.5), True)
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self.kind = _kinds.setdefault(kind_of(value), object())

    @cached_property
    def packed(self) -> bytes:
        """The slots of the argument."""
        return packer((self.value,))((self.value,))


_kinds: dict[Any, object] = {}  # one object for each kind that was held: it is found faster than a tuple


def unpacked(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments as a loop takes them."""
    return tuple(each.value if isinstance(each, PackedArgument) else each for each in args)


def packer(args: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], bytes]:
    """A function that packs arguments of this kind into slots.

    It is written for the kind: one statement takes all tuples apart, and another one packs the leaves.

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
    """The target of an assignment that takes a value apart; its leaves, and how each is packed, go to a list."""
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
    """True if an object's address is its id, and the fields of an array lie in the expected places."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    array = np.zeros((2, 3), np.float32)
    data, _, shape, strides = (ctypes.c_int64 * 4).from_address(id(array) + FIELDS)
    found = [(ctypes.c_int64 * 2).from_address(at)[:] for at in (shape, strides)] if data == array.ctypes.data else []
    return found == [[2, 3], [12, 4]]


# The way into compiled code: an entry that is called with the slots of :mod:`giftrl.compiled.arguments`.

_NATIVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)


class Place(NamedTuple):
    """The address of an entry, and the packing of each number of its result; in brackets for a tuple."""

    address: int
    result: str


class Entry:
    """Calls an entry with arguments of one kind. Other threads go on meanwhile.

    Args:
        place: of the entry.
        args: arguments of its kind.
        name: of the loop, for messages.
    """

    def __init__(self, place: Place, args: tuple[Any, ...], name: str) -> None:
        self._native, self._pack, self._name = _NATIVE(place.address), packer(args), name
        self._tuple, self._forms = place.result.startswith("("), place.result.strip("()")
        self._unpack = struct.Struct("=" + self._forms.replace("?", "q")).unpack
        self._words = ctypes.c_int64 * len(self._forms)

    def __call__(self, args: tuple[Any, ...]) -> Any:
        return self._run(self._pack(args), args) if self._forms == "" else self._ask(args)

    def bind(self, args: tuple[Any, ...]) -> Callable[[], Any]:
        """The entry with these arguments, whose arrays stay."""
        return partial(self._run, self._pack(args), args) if self._forms == "" else partial(self._ask, args)

    def _run(self, packed: bytes, args: tuple[Any, ...]) -> None:
        status = self._native(packed, None)  # the arguments are given so that their arrays stay until it ends
        if status:
            self._fail(status)

    def _ask(self, args: tuple[Any, ...]) -> Any:
        back = self._words()
        status = self._native(self._pack(args), back)
        if status:
            self._fail(status)
        values = self._unpack(back)
        if "?" in self._forms:
            pairs = zip(values, self._forms, strict=True)
            values = tuple(bool(value) if form == "?" else value for value, form in pairs)
        return values if self._tuple else values[0]

    def _fail(self, status: int) -> None:
        raise RuntimeError(
            f"the compiled loop {self._name} ended with status {status}, as it does if it would raise an error or "
            "has no memory for an array; set GIFTRL_PLAIN=1 to see the error"
        )
