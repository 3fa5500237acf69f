"""Members by the names that users write."""

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
