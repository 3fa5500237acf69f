"""The way into compiled code: an entry that is called with the slots of :mod:`giftrl.compiled.kinds`."""

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from giftrl.compiled.kinds import packer

_NATIVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)


class Place(NamedTuple):
    """Where an entry begins in memory, and how each number of its result is packed; in brackets for a tuple."""

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
            f"the compiled loop {self._name} ended with status {status}, as it does where it would raise an error or "
            "has no memory for an array; set GIFTRL_PLAIN=1 to see the error"
        )
