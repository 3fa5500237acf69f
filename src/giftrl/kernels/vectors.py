"""Vectors of LLVM for Numba: the compiled form of :mod:`giftrl.kernels.lanes`. Imported by the first compiled call."""

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, overload, register_model

from giftrl.kernels import lanes

__all__ = ["Vector", "install"]


class Vector(types.Type):  # type: ignore[misc]
    """``count`` numbers of type ``real``."""

    def __init__(self, real: Any, count: int) -> None:
        self.real, self.count = real, count
        super().__init__(name=f"Vector({real}, {count})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    """The vector itself: it lives in registers."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, ir.VectorType(manager[kind.real].get_value_type(), kind.count))


def count_of(side: Any) -> Any:
    """How many numbers a class holds side by side."""
    return getattr(getattr(side, "instance_class", None), "COUNT", None)


def spread(builder: Any, number: Any, kind: Any) -> Any:
    """A vector of one number."""
    empty = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(ir.IntType(32), 0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, empty, order)


def place(context: Any, builder: Any, array: Any, value: Any, indices: Any, kinds: Any, vector: Any) -> Any:
    """Where a vector is in an array; indices are not negative."""
    found = context.make_array(array)(context, builder, value)
    at = [context.cast(builder, index, kind, types.uintp) for index, kind in zip(indices, kinds, strict=True)]
    pointer = cgutils.get_item_pointer(context, builder, array, found, at, wraparound=False)
    return builder.bitcast(pointer, context.get_value_type(vector).as_pointer())


@intrinsic  # type: ignore[misc]
def load_vector(typing: Any, like: Any, x: Any, j: Any, at: Any) -> Any:
    """``lanes.load``, from memory that is aligned as single numbers are."""
    vector = Vector(x.dtype, count_of(like))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = place(context, builder, x, args[1], args[2:], (j, at), vector)
        found = builder.load(pointer)
        found.align = x.dtype.bitwidth // 8
        return found

    return vector(like, x, j, at), code


@intrinsic  # type: ignore[misc]
def store_vector(typing: Any, x: Any, j: Any, at: Any, v: Any) -> Any:
    """``lanes.store``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = place(context, builder, x, args[0], args[1:3], (j, at), v)
        builder.store(args[3], pointer).align = x.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(x, j, at, v), code


@intrinsic  # type: ignore[misc]
def zero_vector(typing: Any, like: Any) -> Any:
    """``lanes.nothing``."""
    vector = Vector(types.float64, count_of(like))
    return vector(like), lambda context, builder, signature, args: ir.Constant(context.get_value_type(vector), None)


def cast(v: Any, real: Any) -> Any:
    """How to make the numbers floats of another width."""
    vector = Vector(real, v.count)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(vector)
        if v.real == real:
            return args[0]
        return builder.fpext(args[0], kind) if v.real == types.float32 else builder.fptrunc(args[0], kind)

    return vector, code


@intrinsic  # type: ignore[misc]
def widen_vector(typing: Any, v: Any) -> Any:
    """``lanes.wide``."""
    vector, code = cast(v, types.float64)
    return vector(v), code


@intrinsic  # type: ignore[misc]
def narrow_vector(typing: Any, x: Any, v: Any) -> Any:
    """``lanes.narrow``."""
    vector, code = cast(v, x.dtype)
    return vector(x, v), lambda context, builder, signature, args: code(context, builder, signature, args[1:])


@intrinsic  # type: ignore[misc]
def clip_vector(typing: Any, v: Any, most: Any) -> Any:
    """``lanes.between``; most is of the type of the numbers."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        high = spread(builder, args[1], args[0].type)
        low = builder.fneg(high)
        found = builder.select(builder.fcmp_ordered("<", args[0], high), args[0], high)
        return builder.select(builder.fcmp_ordered(">", found, low), found, low)

    return (v(v, most), code) if most == v.real else None


@intrinsic  # type: ignore[misc]
def prefetch_line(typing: Any, x: Any, j: Any, at: Any) -> Any:
    """``lanes.prefetch``: to be written to, into every cache."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = place(context, builder, x, args[0], args[1:], (j, at), types.int8)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, word(1), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(x, j, at), code


def arithmetic(name: str) -> Any:
    """An intrinsic for an operator between two vectors, or a vector and a number of its type."""

    @intrinsic  # type: ignore[misc]
    def apply(typing: Any, a: Any, b: Any) -> Any:
        vector = a if isinstance(a, Vector) else b

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = context.get_value_type(vector)
            both = [value if value.type == kind else spread(builder, value, kind) for value in args]
            return getattr(builder, name)(*both)

        return vector(a, b), code

    return apply


def fits(a: Any, b: Any) -> bool:
    """Whether an operator is between numbers of one type."""
    if isinstance(a, Vector):
        return b in (a, a.real)
    return isinstance(b, Vector) and a == b.real


def install(options: Any) -> None:
    """Tell Numba; ``options`` as for every formula."""

    def tell(function: Any, choose: Any) -> None:
        overload(function, strict=False, jit_options=options)(choose)

    tell(lanes.load, lambda side, x, j, at: lambda side, x, j, at: load_vector(side, x, j, at))
    tell(lanes.store, lambda x, j, at, v: lambda x, j, at, v: store_vector(x, j, at, v))
    tell(lanes.nothing, lambda side: lambda side: zero_vector(side))
    tell(lanes.wide, lambda v: lambda v: widen_vector(v))
    tell(lanes.narrow, lambda x, v: lambda x, v: narrow_vector(x, v))
    tell(lanes.between, lambda v, most: lambda v, most: clip_vector(v, most))
    tell(lanes.prefetch, lambda x, j, at: lambda x, j, at: prefetch_line(x, j, at))
    for symbol, name in OPERATORS:
        tell(symbol, between_vectors(arithmetic(name)))


def between_vectors(apply: Any) -> Any:
    """What an operator is for these types; nothing for others, which Numba knows itself."""
    return lambda a, b: (lambda a, b: apply(a, b)) if fits(a, b) else None


OPERATORS = ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv"))
