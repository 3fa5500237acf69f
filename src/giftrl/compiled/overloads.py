"""Operations and formulas as Numba's overloads, so that a compiled loop calls the functions that plain Python calls."""

from collections.abc import Callable
from typing import Any

from numba.extending import overload

from giftrl.compiled import vector_math, vectors
from giftrl.compiled.registry import FORMULAS, OPERATIONS, TWINS

#: What the compiler may assume of fast formulas: that sums can be reordered and multiplications fused into them. Not
#: that there are no NaN or infinities: looking for these must keep working.
FAST = frozenset({"reassoc", "contract", "nsz"})

_installed: list[int] = [0, 0]  # how many operations and formulas Numba has been told of


def install() -> None:
    """Tell Numba of the operations and formulas that it does not know yet."""
    # Set for every formula, since a function inherits from its caller what it leaves open.
    exact: Any = {"error_model": "numpy", "forceinline": True, "fastmath": {"contract"}}
    fast: Any = exact | {"fastmath": set(FAST)}
    if _installed == [0, 0]:
        vectors.install_scratch()
        for function, compiled in (vectors.MEMORY | vector_math.FUNCTIONS).items():
            overload(function, strict=False, jit_options=exact)(_choosing(compiled))
        for symbol, compiled in vector_math.OPERATORS.items():
            overload(symbol, strict=False, jit_options=exact)(_choosing(compiled, vector_math.has_vector))
    for operation in OPERATIONS[_installed[0] :]:
        overload(operation, strict=False, jit_options=exact)(_method(operation))
    for formula, sums_reordered in FORMULAS[_installed[1] :]:
        compiled = TWINS.get(formula, formula)
        options = fast if sums_reordered else exact
        overload(formula, strict=False, jit_options=options)(_choosing(compiled))
    _installed[:] = [len(OPERATIONS), len(FORMULAS)]


def _choosing(function: Any, where: Any = None) -> Callable[..., Any]:
    """An overload: the function, for the types for which it is meant."""
    return lambda *args: function if where is None or where(*args) else None


def _method(operation: Any) -> Callable[..., Any]:
    """What Numba compiles for an operation on a member: the method of its class, or the fallback."""

    def choose(member: Any, *args: Any) -> Any:
        cls = getattr(member, "instance_class", None)
        return None if cls is None else getattr(cls, operation.__name__, operation.__wrapped__)

    return choose
