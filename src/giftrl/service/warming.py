"""Loops that are compiled before a request needs them.

The first row that a model learns takes some twenty seconds where its loops must be compiled, once on a machine: they
are kept in files. A thread has small models of the same settings learn and predict a few rows ahead of that.
"""

import logging
import queue
import threading
from typing import Any

import numpy as np
import orjson

from giftrl.service.bodies import Body
from giftrl.service.provisional_model import ProvisionalModel, RequestedSettings

log = logging.getLogger("giftrl.service")

#: Labels of which most losses take some.
LABELS = (0.0, 1.0, -1.0, 0.5, 2.0)
#: Coordinates of the small models: 2^BITS.
BITS = 4


class Warming:
    """A thread that compiles what models of some settings need, one after the other.

    >>> Warming().ready
    True
    """

    def __init__(self) -> None:
        self._asked: set[bytes] = set()
        self._queue: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._left = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = False

    @property
    def ready(self) -> bool:
        """Whether nothing is left to be compiled."""
        return self._left == 0

    def ask(self, given: dict[str, Any]) -> None:
        """Have loops compiled for models of these settings, unless that was asked before."""
        key = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
        with self._lock:
            if key in self._asked or self._ended:
                return
            self._asked.add(key)
            self._left += 1
            self._queue.put(given)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="compiles loops", daemon=True)
                self._thread.start()

    def end(self) -> None:
        """Compile nothing more than what is being compiled."""
        self._ended = True
        self._queue.put(None)

    def _run(self) -> None:
        while (given := self._queue.get()) is not None and not self._ended:
            try:
                warm(given)
            except Exception as problem:  # a request will meet it too, and be told
                log.warning("loops for %.200r could not be compiled: %s", given, problem)
            with self._lock:
                self._left -= 1


def warm(given: dict[str, Any]) -> None:
    """Learn and predict a few rows with a small model of some settings.

    >>> warm({"loss": "squared"})
    """
    wanted = RequestedSettings(given if given.get("dictionary") else given | {"bits": BITS})
    lines = [orjson.dumps({"label": label, "a": 1.5, "b": "x"}) + b"\n" for label in _labels(wanted)]
    live = ProvisionalModel(wanted)
    live.learn([Body("json", b"".join(lines), skip=True)])
    for line in 2 * lines[:1]:  # the second time by the short way
        live.learn([Body("json", line, skip=True)])
    row = b'{"a": 1.5}\n'
    for asked in (2 * row, row):
        live.predict(Body("json", asked))


def _labels(wanted: RequestedSettings) -> list[Any]:
    """Two labels that models of these settings take."""
    if wanted.labels is not None:
        return list(wanted.labels[:2])
    if wanted.open:
        return [0, 1]
    accepted = wanted.settings(wanted.target).accepts(np.array(LABELS))
    return [label for label, good in zip(LABELS, accepted, strict=True) if good][:2]
