"""What the algorithms share that minimise psi_{t+1}: it must be known when round t is played."""

from typing import Any

from giftrl.errors import Incompatible
from giftrl.player import Player, State
from giftrl.regularizers import Potential
from giftrl.regularizers.contract import advance
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.schedules.contract import known_ahead as lam_known_ahead
from giftrl.schedules.contract import lam

__all__ = ["KnownAhead"]


class KnownAhead(Player):
    """A player that minimises psi_{t+1}, and refuses regularizers and schedules that do not know it in time."""

    def __init__(self, dimension: int, regularizer: Any, domain: Any, update: Any, schedule: Any) -> None:
        super().__init__(dimension, regularizer, domain, update, schedule)
        unknown = [] if psi_known_ahead(self.regularizer) else [self.regularizer]
        unknown += [] if lam_known_ahead(self.schedule) else [self.schedule]
        if unknown:
            raise Incompatible(
                f"{type(self).__name__} minimises psi_{{t+1}}, which is not known in time with {unknown[0]!r}; use "
                "SquaredNorm, ElasticNet, Entropy or PNorm with a Constant, SquareRoot or TemporalVariability schedule"
            )

    @property
    def lookahead(self) -> bool:
        """Whether z is chosen with psi_{t+1}: always."""
        return True

    def _next(self, state: State) -> tuple[float, Potential]:
        """lambda_{t+1} and psi_{t+1}."""
        next_lam = lam(self.schedule, state.t + 1, state.total)
        return next_lam, advance(self.regularizer, state.psi, next_lam, None)
