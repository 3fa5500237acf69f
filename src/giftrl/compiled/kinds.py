"""What a compiled loop depends on of its arguments: their kind, as text, and their values, as bytes.

A loop that is kept in a file has one entry, ``int32 entry(int64 *slots, int64 *result)``. The slots are the leaves of
the nested tuples of arguments, eight bytes each. An array is the address of its NumPy object, in which the entry finds
the data, the shape and the strides: their places are part of NumPy's binary interface, on which every extension that
was built for NumPy relies, and reading them there takes a tenth of the time of asking for them in Python.
"""

import ctypes
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

#: Where the fields of an array object begin: data, number of dimensions, shape, strides, eight bytes each.
FIELDS = object.__basicsize__


class Unknown(Exception):
    """A kind of argument or result that only Numba can pass."""


def spell(value: Any) -> str:
    """What the compiled form of a loop depends on of a value, in words that mean the same in every process.

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
        return type(value).__name__
    if isinstance(value, np.generic):
        return _number(value.dtype)
    raise Unknown(f"{type(value).__module__}.{type(value).__qualname__}")


def _number(dtype: Any) -> str:
    """The name of a type of numbers that loops can take."""
    if (dtype.kind in "biu" or dtype in (np.float32, np.float64)) and dtype.isnative:
        return str(dtype.str)
    raise Unknown(f"numbers of type {dtype}")


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
    if isinstance(value, np.ndarray):
        leaves.append((f"id({name})", "q"))
    elif isinstance(value, np.bool_):
        leaves.append((f"int({name})", "q"))
    else:
        kind = np.asarray(value).dtype.kind
        leaves.append((name, "d" if kind == "f" else "Q" if kind == "u" else "q"))
    return name


def addresses_are_known() -> bool:
    """Whether an object's address is its id, and the fields of an array lie where they are expected."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    array = np.zeros((2, 3), np.float32)
    data, _, shape, strides = (ctypes.c_int64 * 4).from_address(id(array) + FIELDS)
    found = [(ctypes.c_int64 * 2).from_address(at)[:] for at in (shape, strides)] if data == array.ctypes.data else []
    return found == [[2, 3], [12, 4]]


def caller(address: int, args: tuple[Any, ...], result: str, name: str) -> Callable[[tuple[Any, ...]], Any]:
    """A function that calls an entry with arguments of this kind. Other threads go on meanwhile.

    Args:
        address: of the entry.
        args: arguments of its kind.
        result: how each number of the result is packed; in brackets where the result is a tuple.
        name: of the loop, for messages.
    """
    native = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)(address)
    pack = packer(args)
    forms = result.strip("()")
    unpack = struct.Struct("=" + forms.replace("?", "q")).unpack

    def fail(status: int) -> None:
        raise RuntimeError(
            f"the compiled loop {name} ended with status {status}, as it does where it would raise an error or has no "
            "memory for an array; set GIFTRL_PLAIN=1 to see the error"
        )

    def run(args: tuple[Any, ...]) -> None:
        status = native(pack(args), None)
        if status:
            fail(status)

    def ask(args: tuple[Any, ...]) -> Any:
        back = ctypes.create_string_buffer(8 * len(forms))
        status = native(pack(args), ctypes.addressof(back))
        if status:
            fail(status)
        pairs = zip(unpack(back.raw), forms, strict=True)
        values = tuple(bool(value) if form == "?" else value for value, form in pairs)
        return values if result[0] == "(" else values[0]

    return ask if result else run
