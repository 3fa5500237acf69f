"""What Numba is told of operations and formulas: which function to compile for each of them."""

from collections.abc import Callable
from typing import Any

from giftrl.compiled.registry import FORMULAS, OPERATIONS, TWINS, Operation

__all__ = ["install"]

#: What the compiler may assume of fast formulas: that sums can be reordered and multiplications fused into them. Not
#: that there are no NaN or infinities: looking for these must keep working.
FAST = frozenset({"reassoc", "contract", "nsz"})

_installed: list[int] = [0, 0]  # how many operations and formulas Numba has been told of


def install() -> None:
    """Tell Numba of the operations and formulas that it does not know yet."""
    from numba.extending import overload

    # Set for every formula, since a function inherits from its caller what it leaves open.
    exact: Any = {"error_model": "numpy", "forceinline": True, "fastmath": {"contract"}}
    fast: Any = exact | {"fastmath": set(FAST)}
    if _installed == [0, 0]:
        from giftrl.compiled import vectors  # which imports Numba

        vectors.install(exact)
    for operation in OPERATIONS[_installed[0] :]:
        overload(operation.dispatch, strict=False, jit_options=exact)(_method(operation))
    for formula in FORMULAS[_installed[1] :]:
        options = fast if formula.fast else exact
        overload(formula.function, strict=False, jit_options=options)(_itself(formula.function))
    _installed[:] = [len(OPERATIONS), len(FORMULAS)]


def _method(operation: Operation) -> Callable[..., Any]:
    """What Numba compiles for an operation on a member: the method of its class, or the fallback."""

    def choose(member: Any, *args: Any) -> Any:
        cls = getattr(member, "instance_class", None)
        return None if cls is None else getattr(cls, operation.name, operation.fallback)

    return choose


def _itself(function: Callable[..., Any]) -> Callable[..., Any]:
    """What Numba compiles for a formula: the formula, or its twin for compiled loops."""

    def choose(*args: Any) -> Any:
        return TWINS.get(function, function)

    return choose
