"""What a model has done lately, for the page and for metrics."""

import time
from collections import deque
from typing import Any

import orjson

from giftrl.errors import Refused
from giftrl.service.bodies import Answer, describe_rejected
from giftrl.service.provisional_model import ProvisionalModel

#: Points of a learning curve; when there are more, every other one is left out.
POINTS = 400
#: Rows that could not be used, and latencies, that are kept.
KEPT, LATENCIES = 20, 1_000


class Watch:
    """Counts and recent events of one model, written by its writer and read by anyone.

    >>> watch = Watch()
    >>> watch.learnt([Answer([1.0], [], 1)])
    >>> watch.rows
    1
    """

    def __init__(self) -> None:
        self.rows = self.commits = 0
        self.syncs = self.learning = 0.0  # seconds
        self.curve: list[tuple[int, float]] = []  # examples, and the average loss of all so far
        self.rejected: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.latencies: dict[str, deque[float]] = {}

    def learnt(self, answers: list[Answer]) -> None:
        """Note what was learnt."""
        for answer in answers:
            self.rows += len(answer.predictions) - len(answer.rejected)
            self.reject(describe_rejected(answer.rejected))

    def refused(self, refusal: Refused) -> None:
        """Note a request that was refused for its rows."""
        self.reject(refusal.more.get("rows", []))

    def reject(self, rows: list[dict[str, Any]]) -> None:
        """Note rows that could not be used."""
        self.rejected.extend({"time": time.time(), **row} for row in rows)

    def committed(self, live: ProvisionalModel, learning: float, sync: float) -> None:
        """Note a commit, and how long it took to learn and to sync."""
        self.commits += 1
        self.learning += learning
        self.syncs += sync
        if live.core is None:
            return
        model = live.core.model
        if not self.curve or model.examples > self.curve[-1][0]:
            self.curve.append((model.examples, model.average_loss))
            if len(self.curve) > POINTS:
                self.curve = self.curve[1::2]

    def curve_state(self) -> str:
        """The learning curve, as it is kept on the disk."""
        return orjson.dumps(self.curve).decode()

    def go_on(self, state: str | None, examples: int) -> None:
        """Go on with a learning curve that was kept, as far as it is of the examples that the model has."""
        points = orjson.loads(state or "[]")
        self.curve = [(int(count), float(loss)) for count, loss in points if count <= examples]

    def took(self, what: str, seconds: float) -> None:
        """Note how long a request took."""
        self.latencies.setdefault(what, deque(maxlen=LATENCIES)).append(seconds)
