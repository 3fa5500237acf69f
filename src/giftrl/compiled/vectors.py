"""LLVM vectors for Numba, the compiled form of lanes: loads, stores and arithmetic. Imported only to compile a loop."""

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, lower_builtin, register_model, type_callable
from numba.np.arrayobj import populate_array

from giftrl.compiled import lanes


class Vector(types.Type):
    """``count`` numbers of type ``real``.

    In registers the number of lanes is rounded up to a power of two, with arbitrary values in the rest, because LLVM
    splits vectors of other lengths.
    """

    def __init__(self, real: Any, count: int) -> None:
        self.real, self.count = real, count
        super().__init__(name=f"Vector({real}, {count})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """A vector is passed by value, in registers."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        lanes = 1 << (kind.count - 1).bit_length()
        super().__init__(manager, kind, ir.VectorType(manager[kind.real].get_value_type(), lanes))


def numbers(real: Any, count: int) -> Any:
    """The type of several numbers of type ``real``: a plain number for one lane, a vector for more."""
    return real if count == 1 else Vector(real, count)


def count_of(side: Any) -> Any:
    """The number of lanes, from the class of ``side``."""
    return side.instance_class.lanes(None)


def spread(builder: Any, number: Any, kind: Any) -> Any:
    """A vector with the same number in every lane."""
    empty = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(ir.IntType(32), 0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, empty, order)


def pieces(count: int) -> list[tuple[int, int]]:
    """Powers of two that sum to ``count``, largest first, as (first lane, number of lanes)."""
    powers = [1 << k for k in reversed(range(count.bit_length())) if count >> k & 1]
    return [(sum(powers[:k]), power) for k, power in enumerate(powers)]


def order_of(lanes: Any) -> Any:
    """The order of a shuffle."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)


def place(context: Any, builder: Any, array: Any, value: Any, indices: Any, kinds: Any) -> Any:
    """A pointer to a number in an array; indices must not be negative."""
    struct = context.make_array(array)(context, builder, value)
    at = [context.cast(builder, index, kind, types.uintp) for index, kind in zip(indices, kinds, strict=True)]
    return cgutils.get_item_pointer(context, builder, array, struct, at, wraparound=False)


def slice_of(builder: Any, v: Any, at: int, count: int) -> Any:
    """Lanes of a vector."""
    if v.type.count == count:
        return v
    return builder.shuffle_vector(v, ir.Constant(v.type, ir.Undefined), order_of(list(range(at, at + count))))


def piece_at(builder: Any, pointer: Any, at: int, count: int) -> Any:
    """A pointer to a piece of a vector."""
    kind = ir.VectorType(pointer.type.pointee, count)
    return builder.bitcast(builder.gep(pointer, [ir.Constant(ir.IntType(64), at)]), kind.as_pointer())


def from_memory(x: Any, vector: Any, indices: Any) -> Any:
    """The code that loads a vector; the memory is aligned as for a single number."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = args[2:] if indices else [context.get_constant(types.uintp, 0)]
        pointer, kind = (
            place(context, builder, x, args[1], at, indices or [types.uintp]),
            context.get_value_type(vector),
        )
        if not isinstance(vector, Vector):
            return builder.load(pointer)
        found = ir.Constant(kind, ir.Undefined)
        for first, count in pieces(vector.count):
            piece = builder.load(piece_at(builder, pointer, first, count))
            piece.align = x.dtype.bitwidth // 8
            if count == kind.count:
                return piece
            order = order_of([min(k, count) for k in range(kind.count)])  # lane ``count`` is unused
            piece = builder.shuffle_vector(piece, ir.Constant(piece.type, ir.Undefined), order)
            own = range(first, first + count)
            order = order_of([kind.count + k - first if k in own else k for k in range(kind.count)])
            found = builder.shuffle_vector(found, piece, order)
        return found

    return code


@intrinsic
def load_vector(typing: Any, like: Any, x: Any, j: Any, at: Any) -> Any:
    """``lanes.load``."""
    vector = numbers(x.dtype, count_of(like))
    return vector(like, x, j, at), from_memory(x, vector, (j, at))


@intrinsic
def read_vector(typing: Any, like: Any, x: Any) -> Any:
    """``lanes.read``."""
    vector = numbers(x.dtype, count_of(like))
    return vector(like, x), from_memory(x, vector, ())


@intrinsic
def read_diagonal(typing: Any, like: Any, x: Any) -> Any:
    """``lanes.diagonal``."""
    vector = numbers(x.dtype, count_of(like))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = ir.Constant(context.get_value_type(vector), ir.Undefined)
        for k in range(vector.count):
            at = [context.get_constant(types.uintp, k)] * 2
            number = builder.load(place(context, builder, x, args[1], at, [types.uintp] * 2))
            found = builder.insert_element(found, number, ir.Constant(ir.IntType(32), k))
        return found

    return vector(like, x), code


def to_memory(x: Any, vector: Any, indices: Any) -> Any:
    """The code that stores a vector."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = args[1:-1] if indices else [context.get_constant(types.uintp, 0)]
        pointer = place(context, builder, x, args[0], at, indices or [types.uintp])
        if not isinstance(vector, Vector):
            builder.store(args[-1], pointer)
            return context.get_dummy_value()
        for first, count in pieces(vector.count):
            piece = slice_of(builder, args[-1], first, count)
            builder.store(piece, piece_at(builder, pointer, first, count)).align = x.dtype.bitwidth // 8
        return context.get_dummy_value()

    return code


@intrinsic
def store_vector(typing: Any, x: Any, j: Any, at: Any, v: Any) -> Any:
    """``lanes.store``."""
    return types.void(x, j, at, v), to_memory(x, v, (j, at))


@intrinsic
def write_vector(typing: Any, x: Any, v: Any) -> Any:
    """``lanes.write``."""
    return types.void(x, v), to_memory(x, v, ())


@intrinsic
def zero_vector(typing: Any, like: Any) -> Any:
    """``lanes.zeros``."""
    vector = numbers(types.float64, count_of(like))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), None)

    return vector(like), code


def converted(at: int, number: Any, real: Any) -> Any:
    """The code that converts a plain number among the arguments."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.cast(builder, args[at], number, real)

    return code


def same(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The code of an operation that does nothing to a plain number."""
    return args[0]


def cast(v: Any, real: Any) -> Any:
    """The type and the code of a conversion to floats of another width."""
    if not isinstance(v, Vector):
        return real, converted(0, v, real)
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
def prefetch_line(typing: Any, x: Any, j: Any, at: Any) -> Any:
    """``lanes.prefetch``, for a later write and into every cache level."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = place(context, builder, x, args[0], args[1:], (j, at))
        pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
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
    """``lanes.scratch``. Not an intrinsic, because without reference counts no function may return a new array."""
    rows, count = lanes.SCRATCH_ROWS, count_of(signature.args[0])
    word, size = context.get_value_type(types.intp), 8 * rows * count
    memory = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), rows * count))
    memory.align = 64
    cgutils.memset(builder, memory, word(size), 0)
    made = context.make_array(signature.return_type)(context, builder)
    data = builder.bitcast(memory, made.data.type)
    populate_array(made, data, [word(rows), word(count)], [word(8 * count), word(8)], word(8), None)
    return made._getvalue()


#: The implementations of lanes functions; Numba requires functions, not intrinsics.
MEMORY: dict[Any, Any] = {
    lanes.load: lambda side, x, j, at: load_vector(side, x, j, at),
    lanes.store: lambda x, j, at, v: store_vector(x, j, at, v),
    lanes.read: lambda side, x: read_vector(side, x),
    lanes.diagonal: lambda side, x: read_diagonal(side, x),
    lanes.write: lambda x, v: write_vector(x, v),
    lanes.zeros: lambda side: zero_vector(side),
    lanes.wide: lambda v: widen_vector(v),
    lanes.narrow: lambda x, v: narrow_vector(x, v),
    lanes.prefetch: lambda x, j, at: prefetch_line(x, j, at),
}


def install_scratch() -> None:
    """Register ``lanes.scratch`` with Numba."""
    type_callable(lanes.scratch)(scratch_type)
    lower_builtin(lanes.scratch, types.Any)(scratch_array)


# Arithmetic of LLVM vectors for Numba: the compiled form of the operators and functions of lanes.
# Each takes vectors, or numbers of their lanes' type.


#: The exponent bias of float64, and the bits of 1/sqrt(2).
BIAS, BITS_OF_ROOT = 1023, 0x3FE6A09E667F3BCD


def alike(kinds: Any) -> Any:
    """The argument types of an elementwise operation; the result has the first vector type. None if a number has
    another type than the lanes, because compiled and plain Python would differ. Numbers alone become float64 unless all
    are float32.
    """
    vector = next((kind for kind in kinds if isinstance(kind, Vector)), None)
    if vector is None:
        return (types.float32 if set(kinds) == {types.float32} else types.float64,) * len(kinds)
    return kinds if all(kind in (vector, vector.real) for kind in kinds) else None


def lane_by_lane(kinds: Any, compute: Any) -> Any:
    """The signature and the code of an operation on vectors, and on numbers of their type in place of any of them."""
    taken = alike(kinds)
    if taken is None:
        return None
    result = next((kind for kind in taken if isinstance(kind, Vector)), taken[0])

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(result)
        return compute(builder, *(each if each.type == kind else spread(builder, each, kind) for each in args))

    return result(*taken), code


def of_two(compute: Any) -> Any:
    """The compiled form of an operation on two vectors, or on a vector and a number of its type."""

    @intrinsic
    def apply(typing: Any, a: Any, b: Any) -> Any:
        return lane_by_lane((a, b), compute)

    return lambda a, b: apply(a, b)


def of_one(compute: Any) -> Any:
    """The compiled form of an operation on one vector or number."""

    @intrinsic
    def apply(typing: Any, v: Any) -> Any:
        return lane_by_lane((v,), compute)

    return lambda v: apply(v)


@intrinsic
def choose_lanes(typing: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """``lanes.where_less``."""
    return lane_by_lane((a, b, x, y), lambda builder, a, b, x, y: builder.select(builder.fcmp_ordered("<", a, b), x, y))


def without_sign(builder: Any, v: Any) -> Any:
    """The code of ``lanes.absolute``."""
    several = isinstance(v.type, ir.VectorType)
    name = f"v{v.type.count}{v.type.element.intrinsic_name}" if several else v.type.intrinsic_name
    kind = ir.FunctionType(v.type, [v.type])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fabs.{name}"), [v])


def whole_numbers(builder: Any, v: Any) -> tuple[Any, Any]:
    """The bits of float64 numbers as whole numbers, and a function that makes a constant of their type."""
    word = ir.IntType(64)
    if not isinstance(v.type, ir.VectorType):
        return builder.bitcast(v, word), word
    kind = ir.VectorType(word, v.type.count)
    return builder.bitcast(v, kind), lambda number: ir.Constant(kind, [number] * kind.count)


def two_to_the(builder: Any, v: Any) -> Any:
    """The code of ``lanes.power_of_two``."""
    bits, constant = whole_numbers(builder, v)
    return builder.bitcast(builder.shl(builder.add(bits, constant(BIAS)), constant(52)), v.type)


def biased_exponent(builder: Any, v: Any) -> tuple[Any, Any, Any]:
    """k + 1023 as a whole number, for ``lanes.exponent`` and ``lanes.mantissa``, after the bits and constants."""
    bits, constant = whole_numbers(builder, v)
    above = builder.sub(bits, constant(BITS_OF_ROOT - (BIAS << 52)))
    return bits, constant, builder.lshr(above, constant(52))


def exponent_of(builder: Any, v: Any) -> Any:
    """The code of ``lanes.exponent``: a whole number in the low bits of 2^52 is added to it."""
    _, constant, k = biased_exponent(builder, v)
    number = builder.bitcast(builder.or_(k, constant(0x4330000000000000)), v.type)
    shift = 2.0**52 + BIAS
    several = isinstance(v.type, ir.VectorType)
    return builder.fsub(number, ir.Constant(v.type, [shift] * v.type.count if several else shift))


def mantissa_of(builder: Any, v: Any) -> Any:
    """The code of ``lanes.mantissa``."""
    bits, constant, k = biased_exponent(builder, v)
    return builder.bitcast(builder.sub(bits, builder.shl(builder.sub(k, constant(BIAS)), constant(52))), v.type)


def reduction(join: Any) -> Any:
    """The compiled form of a reduction over lanes, by folding halves. If the number of lanes is not a power of two,
    smaller pieces join when the largest is folded to their size.
    """

    @intrinsic
    def apply(typing: Any, v: Any) -> Any:
        if not isinstance(v, Vector):
            return v(v), same

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            (_, count), *others = pieces(v.count)
            whole, left = slice_of(builder, args[0], 0, count), {size: at for at, size in others}
            while whole.type.count > 1:
                half = whole.type.count // 2
                whole = join(builder, slice_of(builder, whole, 0, half), slice_of(builder, whole, half, half))
                if half in left:
                    whole = join(builder, whole, slice_of(builder, args[0], left[half], half))
            return builder.extract_element(whole, ir.Constant(ir.IntType(32), 0))

        return v.real(v), code

    return lambda v: apply(v)


@intrinsic
def put_lane(typing: Any, v: Any, k: Any, number: Any) -> Any:
    """``lanes.put``."""
    if not isinstance(v, Vector):
        return v(v, k, number), converted(2, number, v)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = context.cast(builder, args[2], number, v.real)
        return builder.insert_element(args[0], given, context.cast(builder, args[1], k, types.int32))

    return v(v, k, number), code


@intrinsic
def get_lane(typing: Any, v: Any, k: Any) -> Any:
    """``lanes.get``."""
    if not isinstance(v, Vector):
        return v(v, k), same

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], context.cast(builder, args[1], k, types.int32))

    return v.real(v, k), code


def has_vector(*kinds: Any) -> bool:
    """True for vectors and numbers of their type: for other types Numba has the operator itself."""
    return any(isinstance(kind, Vector) for kind in kinds) and alike(kinds) is not None


#: The implementations of operators and functions of lanes.
FUNCTIONS: dict[Any, Any] = {
    lanes.clip: lanes.clip,
    lanes.maximum: lanes.maximum,
    lanes.minimum: lanes.minimum,
    lanes.absolute: of_one(without_sign),
    lanes.where_less: lambda a, b, x, y: choose_lanes(a, b, x, y),
    lanes.total: reduction(lambda builder, a, b: builder.fadd(a, b)),
    lanes.least: reduction(lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b)),
    lanes.put: lambda v, k, number: put_lane(v, k, number),
    lanes.get: lambda v, k: get_lane(v, k),
    lanes.exponent: of_one(exponent_of),
    lanes.mantissa: of_one(mantissa_of),
    lanes.power_of_two: of_one(two_to_the),
}
OPERATORS: dict[Any, Any] = {
    operator.add: of_two(lambda builder, a, b: builder.fadd(a, b)),
    operator.sub: of_two(lambda builder, a, b: builder.fsub(a, b)),
    operator.mul: of_two(lambda builder, a, b: builder.fmul(a, b)),
    operator.truediv: of_two(lambda builder, a, b: builder.fdiv(a, b)),
    operator.neg: of_one(lambda builder, v: builder.fneg(v)),
}
