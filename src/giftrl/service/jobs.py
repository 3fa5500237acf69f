"""What the writer of a model is asked to do, and how it answers."""

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import orjson

from giftrl.errors import Refused
from giftrl.service.bodies import Entry
from giftrl.service.shares import Answer, described

NOTHING = Entry("json", b"")
LEARN, LABEL, REMEMBER, NOTE, SAVE, CLOSE = "learn", "label", "remember", "note", "save", "close"


@dataclass(eq=False)
class Job:
    """A request to the writer of a model.

    Args:
        kind: LEARN rows with labels; LABEL rows that were remembered; REMEMBER rows; NOTE facts; SAVE the model; CLOSE
            it.
        entry: the rows; of LABEL, lines with "id" and "label"; of REMEMBER, rows without labels.
        key: the idempotency key, or none.
        facts: values to be written down with the rows.
        path: where to save the model.
        output: the kind of predictions that REMEMBER answers with.
        answer: the future of the answer, or a :class:`giftrl.service.later.Later`.
    """

    kind: str
    entry: Entry = NOTHING
    key: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    path: Any = None
    output: str = "label"
    answer: Any = field(default_factory=Future)

    @property
    def digest(self) -> bytes:
        """What tells this request from others."""
        head = orjson.dumps([self.kind, self.entry.format, self.entry.skip, self.output])
        return hashlib.sha256(head + self.entry.data).digest()


def answered(answer: Answer, **more: Any) -> bytes:
    """An answer as JSON.

    >>> answered(Answer([1, None], [], 7))
    b'{"predictions":[1,null],"examples":7}'
    """
    said: dict[str, Any] = {"predictions": answer.predictions, "examples": answer.examples, **more}
    if answer.rejected:
        said["rejected"] = described(answer.rejected)
    return orjson.dumps(said)


def with_label(row: bytes, label: Any) -> bytes:
    """A remembered row with its label.

    >>> with_label(b'{"a":1}', "yes")
    b'{"a":1,"label":"yes"}'
    """
    return orjson.dumps(orjson.loads(row) | {"label": label})


def labels_of(entry: Entry) -> list[tuple[str, Any]]:
    """The ids and labels in a body of lines such as ``{"id": "...", "label": 1}``."""
    found = []
    for number, line in enumerate(entry.data.splitlines()):
        if not line.strip():
            continue
        try:
            given = orjson.loads(line)
        except orjson.JSONDecodeError:
            given = None
        form = 'send {"id": "...", "label": 1}'
        if not isinstance(given, dict) or set(given) != {"id", "label"} or not isinstance(given["id"], str):
            raise Refused(422, f"line {number + 1} is not an id and a label", form)
        if given["label"] is None or isinstance(given["label"], (dict, list)):
            raise Refused(422, f"the label in line {number + 1} is neither a number nor a text", form)
        found.append((given["id"], given["label"]))
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        raise Refused(422, "an id is there twice", "send each id once")
    return found


def require_waiting(found: Mapping[str, bytes | None]) -> None:
    """Refuse labels unless every prediction waits for its own; the answer says which do not.

    Args:
        found: the remembered rows by id; None where there is none, and empty where it has its label.

    >>> require_waiting({"x": b"", "y": b"{}"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    giftrl.errors.Refused: the prediction 'x' has its label already, and no label of this request was learnt; ...
    """
    unknown = [name for name, row in found.items() if row is None]
    if unknown:
        remedy = "label a prediction within its time, by the id that it was given"
        raise Refused(404, f"no prediction {unknown[0]!r:.60}{_more(unknown)} is remembered", remedy)
    labelled = [name for name, row in found.items() if not row]
    if labelled:
        shown = f"the prediction {labelled[0]!r:.60}{_more(labelled)} has its label already"
        remedy = "send the other ids alone; to repeat a request, use its Idempotency-Key again"
        raise Refused(409, f"{shown}, and no label of this request was learnt", remedy, labelled=labelled)


def _more(names: list[str]) -> str:
    return f", and {len(names) - 1} more," * (len(names) > 1)


def labelled_rows(entry: Entry, remembered: Callable[[str], bytes | None]) -> dict[str, bytes]:
    """The remembered rows of a body of labels by their ids, each with its label.

    Args:
        entry: the ids and labels.
        remembered: what gives the row of an id, as :meth:`giftrl.service.store.Store.remembered` does.
    """
    given = labels_of(entry)
    found = {name: remembered(name) for name, _ in given}
    require_waiting(found)
    return {name: with_label(found[name] or b"{}", label) for name, label in given}


def rows_of(entry: Entry) -> list[bytes]:
    """The rows of a body in JSON, each as it is to be remembered."""
    if entry.format != "json":
        raise Refused(415, f"rows in {entry.format} cannot be remembered", "send them in JSON")
    rows = []
    for number, line in enumerate(line for line in entry.data.splitlines() if line.strip()):
        try:
            given = orjson.loads(line)
        except orjson.JSONDecodeError as problem:
            raise Refused(422, f"row {number + 1} is not JSON ({problem.msg})", "send one object a line") from None
        if not isinstance(given, dict):
            raise Refused(422, f"row {number + 1} is no JSON object", 'send one object a line, such as {"age": 33}')
        if "label" in given:
            raise Refused(422, f"row {number + 1} has its label already", "send it to learn, or leave out the label")
        rows.append(orjson.dumps(given))
    return rows
