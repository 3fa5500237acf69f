"""Registries: functions that dispatch on a component, scalar helpers, and components by name."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from giftrl.errors import InvalidInput, UnknownName

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


#: Generic functions, named like the method they dispatch to, with a wrapped fallback.
OPERATIONS: list[Any] = []
#: Functions that compiled loops call; True if sums may be reordered.
FORMULAS: list[tuple[Callable[..., Any], bool]] = []
TWINS: dict[Callable[..., Any], Callable[..., Any]] = {}


def operation(fallback: F) -> F:
    """Turn a fallback into a generic function of its first argument.

    >>> class Double(tuple):
    ...     def grow(self, x): return 2 * x
    >>> @operation
    ... def grow(member, x): return x
    >>> grow(Double(), 3), grow((), 3)
    (6, 3)
    """
    name = fallback.__name__

    @functools.wraps(fallback)
    def dispatch(member: Any, *args: Any) -> Any:
        return getattr(type(member), name, fallback)(member, *args)

    OPERATIONS.append(dispatch)
    return dispatch  # type: ignore[return-value]


@overload
def formula(function: F) -> F: ...
@overload
def formula(*, fast: bool) -> Callable[[F], F]: ...
def formula(function: Any = None, *, fast: bool = False) -> Any:
    """Mark a function that compiled loops call.

    Args:
        fast: True if sums may be reordered and multiplications fused, as in sums over features. Use False if numbers
        can come near the limits of float64.

    >>> @formula(fast=True)
    ... def dot(a, b): return sum(a[k] * b[k] for k in range(len(a)))
    >>> dot([1, 2], [3, 4])
    11
    """
    if function is None:
        return functools.partial(formula, fast=fast)
    FORMULAS.append((function, fast))
    return function


def compiled_as(twin: Callable[..., Any]) -> Callable[[F], F]:
    """Mark a scalar helper to be replaced in compiled code by a function that is equal up to rounding."""

    def mark(function: F) -> F:
        TWINS[function] = twin
        return formula(function)

    return mark


def brings(member: object, name: str) -> bool:
    """True if a member has its own method for an operation.

    >>> brings(1.5, "is_integer"), brings(1.5, "prox")
    (True, False)
    """
    return hasattr(type(member), name)


def validated(cls: type[T]) -> type[T]:
    """Call ``self.validate()`` whenever a member of this NamedTuple class is made, even by ``_replace``.

    >>> from typing import NamedTuple
    >>> @validated
    ... class Share(NamedTuple):
    ...     part: float
    ...     def validate(self):
    ...         if not 0 <= self.part <= 1:
    ...             raise ValueError("part must be between 0 and 1")
    >>> Share(0.5)._replace(part=2.0)
    Traceback (most recent call last):
    ValueError: part must be between 0 and 1
    """
    original = cls.__new__  # not allowed in the body of a NamedTuple

    def new(cls: type[T], *args: Any, **kwargs: Any) -> T:
        self = original(cls, *args, **kwargs)
        self.validate()  # type: ignore[attr-defined]
        return self

    functools.update_wrapper(new, original)
    cls.__new__ = new  # type: ignore[method-assign,assignment]
    cls._make = classmethod(lambda cls, values: cls(*values))  # type: ignore[attr-defined]
    return cls


class Names(dict[str, type[Any]]):
    """The components of one kind, by the names that users write.

    >>> numbers = Names("number", whole=int, real=float)
    >>> numbers.make("whole"), list(numbers)
    (0, ['whole', 'real'])
    """

    def __init__(self, kind: str, /, **members: type[Any]) -> None:
        super().__init__(members)
        self.kind = kind

    def make(self, name: str, /, **parameters: object) -> Any:
        """A member by its name; an unknown name is an error that suggests the nearest."""
        if name not in self:
            raise UnknownName(self.kind, name, self)
        return self[name](**parameters)

    def member(self, given: Any, *methods: str) -> Any:
        """The member of this name; or the object that was given, if it brings one of the methods."""
        member = self.make(given) if isinstance(given, str) else given
        if not any(brings(member, method) for method in methods):  # a class itself brings none
            remedy = f"give one by name, such as {next(iter(self))!r}, or an object"
            raise InvalidInput(self.kind, given, f"must be a {self.kind}", remedy)
        return member
