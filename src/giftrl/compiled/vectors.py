"""LLVM vectors for Numba: the compiled form of :mod:`giftrl.compiled.lanes`, imported by the first compiled call."""

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, lower_builtin, overload, register_model, type_callable
from numba.np.arrayobj import populate_array

from giftrl.compiled import lanes


class Vector(types.Type):
    """``count`` numbers of type ``real``."""

    def __init__(self, real: Any, count: int) -> None:
        self.real, self.count = real, count
        super().__init__(name=f"Vector({real}, {count})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """A vector is passed by value, in registers."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, ir.VectorType(manager[kind.real].get_value_type(), kind.count))


def count_of(side: Any) -> Any:
    """The number of lanes, from the class of ``side``."""
    return side.instance_class.lanes(None)


def spread(builder: Any, number: Any, kind: Any) -> Any:
    """A vector with the same number in every lane."""
    empty = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(ir.IntType(32), 0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, empty, order)


def place(context: Any, builder: Any, array: Any, value: Any, indices: Any, kinds: Any, vector: Any) -> Any:
    """A pointer to a vector in an array; indices must not be negative."""
    struct = context.make_array(array)(context, builder, value)
    at = [context.cast(builder, index, kind, types.uintp) for index, kind in zip(indices, kinds, strict=True)]
    pointer = cgutils.get_item_pointer(context, builder, array, struct, at, wraparound=False)
    return builder.bitcast(pointer, context.get_value_type(vector).as_pointer())


@intrinsic
def load_vector(typing: Any, like: Any, x: Any, j: Any, at: Any) -> Any:
    """``lanes.load``; the memory is aligned as for a single number."""
    vector = Vector(x.dtype, count_of(like))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = place(context, builder, x, args[1], args[2:], (j, at), vector)
        loaded = builder.load(pointer)
        loaded.align = x.dtype.bitwidth // 8
        return loaded

    return vector(like, x, j, at), code


@intrinsic
def store_vector(typing: Any, x: Any, j: Any, at: Any, v: Any) -> Any:
    """``lanes.store``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = place(context, builder, x, args[0], args[1:3], (j, at), v)
        builder.store(args[3], pointer).align = x.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(x, j, at, v), code


@intrinsic
def zero_vector(typing: Any, like: Any) -> Any:
    """``lanes.zeros``."""
    vector = Vector(types.float64, count_of(like))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), None)

    return vector(like), code


def cast(v: Any, real: Any) -> Any:
    """The type and the code of a conversion to floats of another width."""
    vector = Vector(real, v.count)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(vector)
        if v.real == real:
            return args[0]
        return builder.fpext(args[0], kind) if v.real == types.float32 else builder.fptrunc(args[0], kind)

    return vector, code


@intrinsic
def widen_vector(typing: Any, v: Any) -> Any:
    """``lanes.wide``."""
    vector, code = cast(v, types.float64)
    return vector(v), code


@intrinsic
def narrow_vector(typing: Any, x: Any, v: Any) -> Any:
    """``lanes.narrow``."""
    vector, code = cast(v, x.dtype)
    return vector(x, v), lambda context, builder, signature, args: code(context, builder, signature, args[1:])


@intrinsic
def clip_vector(typing: Any, v: Any, most: Any) -> Any:
    """``lanes.clip``; ``most`` must have the type of the lanes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        high = spread(builder, args[1], args[0].type)
        low = builder.fneg(high)
        below = builder.select(builder.fcmp_ordered("<", args[0], high), args[0], high)
        return builder.select(builder.fcmp_ordered(">", below, low), below, low)

    return (v(v, most), code) if most == v.real else None


@intrinsic
def prefetch_line(typing: Any, x: Any, j: Any, at: Any) -> Any:
    """``lanes.prefetch``, for a later write and into every cache level."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = place(context, builder, x, args[0], args[1:], (j, at), types.int8)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, word(1), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(x, j, at), code


def scratch_type(context: Any) -> Any:
    """The type of ``lanes.scratch``."""
    return lambda _side: types.Array(types.float64, 2, "C")


def scratch_array(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """``lanes.scratch``. It is no intrinsic: where references are not counted, no function may return a new array."""
    rows, count = lanes.SCRATCH_ROWS, count_of(signature.args[0])
    word, size = context.get_value_type(types.intp), 8 * rows * count
    memory = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), rows * count))
    memory.align = 64
    cgutils.memset(builder, memory, word(size), 0)
    made = context.make_array(signature.return_type)(context, builder)
    data = builder.bitcast(memory, made.data.type)
    populate_array(made, data, [word(rows), word(count)], [word(8 * count), word(8)], word(8), None)
    return made._getvalue()


@intrinsic
def lane_of(typing: Any, v: Any, r: Any) -> Any:
    """``lanes.lane``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], context.cast(builder, args[1], r, types.int64))

    return v.real(v, r), code


@intrinsic
def put_in_lane(typing: Any, v: Any, r: Any, number: Any) -> Any:
    """``lanes.put``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = context.cast(builder, args[1], r, types.int64)
        return builder.insert_element(args[0], context.cast(builder, args[2], number, v.real), at)

    return v(v, r, number), code


def arithmetic(name: str) -> Any:
    """What a compiled loop calls for an operator on two vectors, or on a vector and a number of its type."""

    @intrinsic
    def apply(typing: Any, a: Any, b: Any) -> Any:
        vector = a if isinstance(a, Vector) else b

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = context.get_value_type(vector)
            both = [value if value.type == kind else spread(builder, value, kind) for value in args]
            return getattr(builder, name)(*both)

        return vector(a, b), code

    return lambda a, b: apply(a, b)


def fits(a: Any, b: Any) -> bool:
    """Whether both sides of an operator have the same type of numbers, and one of them is a vector."""
    if isinstance(a, Vector):
        return b in (a, a.real)
    return isinstance(b, Vector) and a == b.real


#: What a compiled loop calls. Numba wants a function for each, and an intrinsic is none.
LANES: dict[Any, Any] = {
    lanes.load: lambda side, x, j, at: load_vector(side, x, j, at),
    lanes.store: lambda x, j, at, v: store_vector(x, j, at, v),
    lanes.zeros: lambda side: zero_vector(side),
    lanes.wide: lambda v: widen_vector(v),
    lanes.narrow: lambda x, v: narrow_vector(x, v),
    lanes.clip: lambda v, most: clip_vector(v, most),
    lanes.prefetch: lambda x, j, at: prefetch_line(x, j, at),
    lanes.lane: lambda v, r: lane_of(v, r),
    lanes.put: lambda v, r, number: put_in_lane(v, r, number),
}
OPERATORS = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv"}


def install(options: Any) -> None:
    """Register the overloads with Numba, with the same ``options`` as every formula."""
    for function, compiled in LANES.items():
        overload(function, strict=False, jit_options=options)(choosing(compiled))
    for symbol, name in OPERATORS.items():  # for other types Numba has the operator itself
        overload(symbol, strict=False, jit_options=options)(choosing(arithmetic(name), fits))
    type_callable(lanes.scratch)(scratch_type)
    lower_builtin(lanes.scratch, types.Any)(scratch_array)


def choosing(function: Any, where: Any = None) -> Any:
    """An overload: the function, for the types for which it is meant."""
    return lambda *args: function if where is None or where(*args) else None
