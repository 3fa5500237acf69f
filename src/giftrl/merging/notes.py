"""What workers note of their rows, to be remembered once these are in order."""

from typing import Any


class Notes:
    """Stands in for the witnesses of a worker: what is to be remembered of its rows is noted, for the team's own."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def add(self, *call: Any) -> None:
        """Note rows."""
        self.calls.append(call)

    def grow(self, dimension: int) -> None:
        """More features change nothing in what was noted."""
