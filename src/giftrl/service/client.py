"""Python client of a service, with retries that never learn a row twice."""

import random
import time
import uuid
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import quote

import orjson

try:
    import httpx
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("giftrl.Client needs httpx; pip install 'giftrl[serve]'") from missing

from giftrl.errors import Refused

#: Statuses for which a retry may succeed.
RETRY_STATUSES = (429, 502, 503, 504)
Row = Mapping[str, Any]


class Client:
    """A client of ``giftrl serve``.

    Every request to learn carries an Idempotency-Key, so that the client can repeat it after a broken connection or a
    lost answer, and the service still learns it once. A request that the service refuses raises
    :class:`giftrl.errors.Refused`, with its ``status``, ``problem`` and ``remedy``.

    Args:
        address: of the service.
        token: for learning or reading, if the service needs one.
        retries: the number of retries of a request, with pauses growing from 0.1 to 10 seconds.
        timeout: seconds to wait for an answer.

    >>> import pathlib, tempfile
    >>> from giftrl.service.server import background
    >>> folder = tempfile.TemporaryDirectory()
    >>> with background(pathlib.Path(folder.name)) as address, Client(address) as client:
    ...     client.create("houses", loss="squared", beta=1.0)
    ...     client.learn("houses", [{"label": 3.0, "rooms": 1.0}, {"label": 3.0, "rooms": 1.0}])
    ...     client.show("houses")["examples"]
    True
    [0.0, 2.0]
    2
    >>> folder.cleanup()
    """

    def __init__(
        self, address: str = "http://127.0.0.1:8000", token: str | None = None, *, retries: int = 8,
        timeout: float = 70.0,
    ) -> None:  # fmt: skip
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout)
        self._retries = retries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def models(self) -> list[str]:
        """The names of all models."""
        return [each["name"] for each in self._ask("GET", "/models")["models"]]

    def create(self, model: str, **settings: Any) -> bool:
        """Create a model; return False if there is one of this name and with these settings already."""
        return bool(self._ask("PUT", _path(model), orjson.dumps(settings))["created"])

    def show(self, model: str, certify: float = 0.0) -> dict[str, Any]:
        """Return counts, loss, certificate and base learners; ``certify``: seconds to search for a better bound."""
        found: dict[str, Any] = self._ask("GET", _path(model), None, None, {"certify": str(certify)})
        return found

    def delete(self, model: str) -> None:
        """Delete a model and everything it has learned."""
        self._ask("DELETE", _path(model), None, None, {"confirm": model})

    def learn(self, model: str, rows: Row | Iterable[Row], key: str | None = None) -> list[Any]:
        """Learn from rows with labels, and return the predictions that were made before.

        Args:
            model: its name.
            rows: one or several, each with its label under "label".
            key: the idempotency key; a new one by default.
        """
        return list(self._ask("POST", _path(model, "/learn"), _lines(rows), key or uuid.uuid4().hex)["predictions"])

    def predict(self, model: str, rows: Row | Iterable[Row], output: str = "label") -> list[Any]:
        """Predict for rows; ``output`` is "label", "proba" or "scores"."""
        return list(self._ask("POST", _path(model, "/predict"), _lines(rows), None, {output: "1"})["predictions"])

    def remember(self, model: str, rows: Row | Iterable[Row], output: str = "label") -> list[tuple[str, Any]]:
        """Predict for rows whose labels come later; return the id and the prediction of each."""
        options = {output: "1", "remember": "1"}
        found = self._ask("POST", _path(model, "/predict"), _lines(rows), uuid.uuid4().hex, options)
        return list(zip(found["ids"], found["predictions"], strict=True))

    def label(self, model: str, labels: Mapping[str, Any], key: str | None = None) -> list[Any]:
        """Learn remembered rows, by their ids."""
        body = _lines({"id": name, "label": label} for name, label in labels.items())
        return list(self._ask("POST", _path(model, "/label"), body, key or uuid.uuid4().hex)["predictions"])

    def file(self, model: str) -> bytes:
        """Return the model file."""
        return self._content("GET", _path(model, "/file"))

    def _ask(self, *request: Any) -> Any:
        return orjson.loads(self._content(*request))

    def _content(
        self, method: str, path: str, body: bytes | None = None, key: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> bytes:  # fmt: skip
        """Send a request with retries, and return the content of the answer."""
        headers = {"Content-Type": "application/x-ndjson"} if body is not None else {}
        headers |= {"Idempotency-Key": key} if key is not None else {}
        wait = 0.1
        for left in range(self._retries, -1, -1):
            after = 0.0
            try:
                answer = self._http.request(method, path, content=body, headers=headers, params=options)
                if answer.status_code not in RETRY_STATUSES or left == 0:
                    break
                after = _seconds(answer.headers.get("retry-after", "0"))
            except httpx.TransportError:
                if left == 0:
                    raise
            time.sleep(max(min(after, 10.0), wait * (0.5 + random.random())))
            wait = min(2.0 * wait, 10.0)
        if answer.is_success:
            return answer.content
        try:
            error = orjson.loads(answer.content)["error"]
            raise Refused(error.pop("status"), error.pop("problem"), error.pop("remedy"), **error)
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise Refused(answer.status_code, "the answer is not that of giftrl serve", "check the address") from None


def _lines(rows: Row | Iterable[Row]) -> bytes:
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    return b"".join(orjson.dumps(row, option=options) for row in ([rows] if isinstance(rows, Mapping) else rows))


def _path(model: str, what: str = "") -> str:
    """The path of a model, with the name quoted as one segment."""
    if "/" in model or not model.strip("."):  # quoting does not help for these
        raise Refused(422, f"{model!r:.80} is no name of a model", "use letters, digits, dots, dashes and underscores")
    return f"/models/{quote(model, safe='')}{what}"


def _seconds(after: str) -> float:
    """The seconds of a Retry-After header, which has seconds or a date; 0 if it has neither."""
    try:
        if after.strip().isdecimal():
            return float(after)
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0
