"""Members by name, and by number."""

import textwrap
from collections.abc import Iterable
from typing import Any

from giftrl.compiled.registry import brings
from giftrl.errors import InvalidInput, UnknownName


class Names(dict[str, type[Any]]):
    """The members of one kind, by the names that users write.

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
        if isinstance(member, type) or not any(brings(member, method) for method in methods):
            remedy = f"give one by name, such as {next(iter(self))!r}, or an object"
            raise InvalidInput(self.kind, given, f"must be a {self.kind}", remedy)
        return member


def by_code(cls: type[Any], header: str, body: str, members: Iterable[str], scope: dict[str, Any]) -> None:
    """Add a method to a class that does the same with one of several members, by ``self.code`` from 0.

    Compiled loops call it. It is made from text, because each member has a type of its own.

    Args:
        cls: the class.
        header: the name and the arguments, such as ``"lam(self, t, total)"``.
        body: lines with ``{}`` in the place of the member.
        members: expressions of the members, in the order of their codes.
        scope: the global names of the module.

    >>> class Choice(tuple):
    ...     code = 1
    >>> by_code(Choice, "shown(self)", "return repr({})", ["1.0", "2.0"], globals())
    >>> Choice().shown()
    '2.0'
    """
    lines, members = [f"def {header}:"], list(members)
    for code, member in enumerate(members):
        case = "else" if code == len(members) - 1 else f"{'elif' if code else 'if'} self.code == {code}"
        lines += [f"    {case}:", textwrap.indent(body.format(member), " " * 8)]
    made: dict[str, Any] = {}
    exec(compile("\n".join(lines), scope.get("__file__", "<text>"), "exec"), scope, made)
    for name, method in made.items():
        setattr(cls, name, method)
