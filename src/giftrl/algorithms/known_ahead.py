"""A shared check: algorithms that minimise psi_{t+1} must know it in time."""

from giftrl.errors import Incompatible
from giftrl.player import Player
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.schedules.contract import known_ahead as lam_known_ahead

__all__ = ["require_known_ahead"]


def require_known_ahead(player: Player) -> None:
    """Raise unless psi_{t+1} is known when round t is played."""
    for part, known in (
        (player.regularizer, psi_known_ahead(player.regularizer)),
        (player.schedule, lam_known_ahead(player.schedule)),
    ):
        if not known:
            raise Incompatible(
                f"{type(player).__name__} minimises psi_{{t+1}}, which is not known in time with {part!r}; use "
                "SquaredNorm, ElasticNet, Entropy or PNorm with a Constant, SquareRoot or TemporalVariability schedule"
            )
