"""Arithmetic of LLVM vectors for Numba: the compiled form of the operators and functions of lanes.

Each takes vectors, and in place of any of them a number of the type of their lanes.
"""

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from giftrl.compiled import lanes
from giftrl.compiled.vectors import Vector, spread


def alike(kinds: Any) -> Any:
    """The type of the result of an operation lane by lane: the vector among the arguments, or a number if all are.

    None where one has another type of numbers: a compiler and plain Python would disagree about the result.
    """
    vector = next((kind for kind in kinds if isinstance(kind, Vector)), kinds[0])
    allowed = (vector, getattr(vector, "real", vector))
    return vector if all(kind in allowed for kind in kinds) else None


def lane_by_lane(kinds: Any, compute: Any) -> Any:
    """The signature and the code of an operation on vectors, and on numbers of their type in place of any of them."""
    vector = alike(kinds)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(vector)
        return compute(builder, *(each if each.type == kind else spread(builder, each, kind) for each in args))

    return None if vector is None else (vector(*kinds), code)


def of_two(compute: Any) -> Any:
    """What a compiled loop calls for an operation on two vectors, or on a vector and a number of its type."""

    @intrinsic
    def apply(typing: Any, a: Any, b: Any) -> Any:
        return lane_by_lane((a, b), compute)

    return lambda a, b: apply(a, b)


def of_one(compute: Any) -> Any:
    """What a compiled loop calls for an operation on one vector or number."""

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


def exponent_as_number(builder: Any, v: Any) -> Any:
    """The code of ``lanes.power_of_two``."""
    whole: Any = ir.IntType(64)
    bias, width = whole(1023), whole(52)
    if isinstance(v.type, ir.VectorType):
        whole = ir.VectorType(whole, v.type.count)
        bias, width = ir.Constant(whole, [1023] * whole.count), ir.Constant(whole, [52] * whole.count)
    return builder.bitcast(builder.shl(builder.add(builder.bitcast(v, whole), bias), width), v.type)


def slice_of(builder: Any, v: Any, at: int, count: int) -> Any:
    """Lanes of a vector."""
    order = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(at, at + count)))
    return builder.shuffle_vector(v, ir.Constant(v.type, ir.Undefined), order)


def reduction(join: Any) -> Any:
    """What a compiled loop calls to join all lanes to one number, halves with halves.

    The parts have powers of two of lanes, so that they are whole registers: 12 lanes are folded as 8, 4 and 4.
    """

    @intrinsic
    def apply(typing: Any, v: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            at = 1 << (v.count.bit_length() - 1)
            whole, left = slice_of(builder, args[0], 0, at), v.count - at
            while whole.type.count > 1:
                half = whole.type.count // 2
                whole = join(builder, slice_of(builder, whole, 0, half), slice_of(builder, whole, half, half))
                if left & half:
                    whole = join(builder, whole, slice_of(builder, args[0], at, half))
                    at += half
            return builder.extract_element(whole, ir.Constant(ir.IntType(32), 0))

        return v.real(v), code

    return lambda v: apply(v)


@intrinsic
def put_lane(typing: Any, v: Any, k: Any, number: Any) -> Any:
    """``lanes.put``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.insert_element(args[0], args[2], context.cast(builder, args[1], k, types.int32))

    return (v(v, k, number), code) if number == v.real else None


@intrinsic
def get_lane(typing: Any, v: Any, k: Any) -> Any:
    """``lanes.get``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], context.cast(builder, args[1], k, types.int32))

    return v.real(v, k), code


def is_vector(*kinds: Any) -> bool:
    """Whether an operator has vectors and numbers of their type: for other types Numba has the operator itself."""
    return isinstance(alike(kinds), Vector)


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
    lanes.power_of_two: of_one(exponent_as_number),
}
OPERATORS: dict[Any, Any] = {
    operator.add: of_two(lambda builder, a, b: builder.fadd(a, b)),
    operator.sub: of_two(lambda builder, a, b: builder.fsub(a, b)),
    operator.mul: of_two(lambda builder, a, b: builder.fmul(a, b)),
    operator.truediv: of_two(lambda builder, a, b: builder.fdiv(a, b)),
    operator.neg: of_one(lambda builder, v: builder.fneg(v)),
}
