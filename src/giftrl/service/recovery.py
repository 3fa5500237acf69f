"""The model that a folder holds: its file, and the log of what was learnt since."""

from pathlib import Path
from typing import NamedTuple

import orjson

from giftrl.errors import ModelFileError, Refused
from giftrl.service.bodies import Entry
from giftrl.service.live import Live
from giftrl.service.store import Store
from giftrl.service.wanted import Wanted
from giftrl.training.model import LinearModel

#: The model file in the folder of a model.
SNAPSHOT = "model.giftrl"
#: Entries of the log that are learnt at once.
TOGETHER = 64


class Recovered(NamedTuple):
    """A model, the number of the last entry that it has learnt, and of the last one that its file has."""

    live: Live
    last: int
    saved: int


def recover(folder: Path, store: Store) -> Recovered:
    """The model as it was after the last entry of its log.

    Learning the log entry by entry does again, bit for bit, what was done when the entries came.
    """
    wanted = Wanted(orjson.loads(store.fact("settings") or "{}"))
    path, saved = folder / SNAPSHOT, 0
    model = None
    if path.exists():
        model, more = LinearModel.load(path)
        if not isinstance(more.get("log"), int):
            raise ModelFileError(path, "does not say where its log begins", "restore the folder from a copy")
        saved = more["log"]
    live, last = Live(wanted, model), saved
    waiting: list[Entry] = []
    for number, entry in store.entries(saved):
        waiting.append(entry)
        last = number
        if len(waiting) == TOGETHER:
            _learn(live, waiting)
            waiting = []
    _learn(live, waiting)
    return Recovered(live, last, saved)


def _learn(live: Live, entries: list[Entry]) -> None:
    while entries:
        some = entries[: live.together(entries)]
        try:
            live.learn(some)
        except Refused:
            # A label that made a young model be learnt anew came alone, and so it must now.
            if len(some) == 1:
                raise
            for entry in some:
                live.learn([entry])
        entries = entries[len(some) :]
