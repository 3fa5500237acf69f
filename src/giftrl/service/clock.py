"""The time of day that limits are measured by; it never goes back, and does not jump while the service runs."""

import time
from collections.abc import Callable


class Clock:
    """Seconds since 1970 by the system's clock at the start, and by its steady clock from then on.

    A system's clock that is set while the service runs is not noticed until the service starts again. One that was set
    back before a start is not believed: time goes on from the latest moment that was written down.

    Args:
        latest: the latest moment that an earlier run wrote down.
        wall, steady: the two clocks of the system.

    >>> clock = Clock(latest=1000.0, wall=lambda: 7.0, steady=lambda: 5.0)
    >>> clock.now()
    1000.0
    """

    def __init__(
        self, latest: float = 0.0, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._steady = steady
        self._start = max(latest, wall()) - steady()

    def now(self) -> float:
        """The present moment."""
        return self._start + self._steady()

    def reached(self, moment: float) -> None:
        """Take note of a moment that was written down, which is not later than now."""
        self._start += max(0.0, moment - self.now())
