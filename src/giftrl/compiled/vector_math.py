"""Arithmetic of LLVM vectors for Numba: the compiled form of the operators and functions of lanes.

Each takes vectors, and in place of any of them a number of the type of their lanes.
"""

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from giftrl.compiled import lanes
from giftrl.compiled.vectors import Vector, converted, pieces, same, slice_of, spread

#: What is added to the exponent of a float64, and the bits of 1/sqrt(2).
BIAS, BITS_OF_ROOT = 1023, 0x3FE6A09E667F3BCD


def alike(kinds: Any) -> Any:
    """The types of the arguments of an operation lane by lane, of which the result has the first that is a vector.

    None if a number beside a vector has another type than its lanes: a compiler and plain Python would disagree
    about the result. Numbers alone become float64 unless they are all float32.
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
    """The compiled form of joining all lanes to one number, halves with halves.

    Where the lanes are no power of two, the smaller pieces join when the largest is folded to their size.
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


#: What a compiled loop calls.
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
