"""How much the service takes on: sizes, counts and times."""

from typing import NamedTuple

from giftrl.errors import require
from giftrl.ops import validated
from giftrl.system import physical_memory


@validated
class Limits(NamedTuple):
    """The limits of a service; what goes beyond one is refused, with an answer that names the limit.

    Args:
        body: bytes of a request.
        rows: rows of a request.
        queue: requests that wait for one model; the next ones are asked to come again later (429).
        seconds: for a request to arrive, and then to be answered.
        remember: seconds for which a prediction waits for its label.
        remembered: predictions of one model that wait for their labels.
        keys: seconds for which the answer of an idempotency key is kept.
        log: bytes of the log of examples after which a model file is written.
        memory: bytes of models that are kept open; beyond it, the least recently used are closed.
        models: models in the folder.
        bits: of hashed names, at most.
        sync: whether an answer waits until the disk has the examples.

    >>> Limits(rows=10).rows
    10
    """

    body: int = 8 << 20
    rows: int = 20_000
    queue: int = 256
    seconds: float = 60.0
    remember: float = 7 * 86_400.0
    remembered: int = 1_000_000
    keys: float = 86_400.0
    log: int = 128 << 20
    memory: int = physical_memory() // 4
    models: int = 10_000
    bits: int = 24
    sync: bool = True

    def validate(self) -> None:
        for name, value in self._asdict().items():
            require(value > 0 or name == "sync", name, value, "must be positive", "leave it out for the default")
