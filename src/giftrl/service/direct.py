"""Requests of the usual form, to predict and to learn, straight from the protocol.

A router that tries its routes, and objects for requests and answers, take time of their own. Requests that need nothing
of them go this way: those to an open model, without options. All others go to the router, where the same functions
answer them. A prediction for one row is made while its request is received, for which no task of asyncio is needed.
"""

import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any

from giftrl.service.bodies import Body
from giftrl.service.folder import Folder
from giftrl.service.requests import Headers, body_of, key_in, rows_of_body
from giftrl.service.writer import Writer

#: Bytes of a body that may be a single row; larger ones are not looked at in a hurry.
SINGLE = 1 << 14
PATH = re.compile(r"/models/([^/]+)/(predict|learn)")


@functools.lru_cache(256)
def model_in(path: str) -> tuple[str, str] | None:
    """The name of the model, and what is asked of it, in a usual path; None in any other."""
    found = PATH.fullmatch(path)
    return None if found is None else (found[1], found[2])


#: What answers a request to an open model: its name, its writer, its rows and its idempotency key.
Answering = Callable[[str, Writer, Body, str | None], Awaitable[bytes]]
#: What predicts for rows with an open model, or says None where that may take long.
Predicting = Callable[[Writer, Body], bytes | None]


class Direct:
    """The short way for the usual requests.

    Args:
        folder: of the models.
        answering: by the last word of the path, what answers.
        predicting: what answers at once.
    """

    def __init__(self, folder: Folder, answering: dict[str, Answering], predicting: Predicting) -> None:
        self.folder, self.answering, self.predicting = folder, answering, predicting

    async def answer(self, scope: Any, headers: Headers, receive: Any) -> bytes | None:
        """The answer to a request, in JSON; None where it is not of the usual form, and nothing of it has been read."""
        found = self._asked(scope)
        if found is None:
            return None
        name, what, writer = found
        scope.setdefault("state", {})["endpoint"] = what
        data = await body_of(headers, receive, self.folder.limits)
        entry = rows_of_body(data, headers, self.folder.limits)
        return await self.answering[what](name, writer, entry, key_in(headers))

    def at_once(self, scope: Any, headers: Headers, body: bytes) -> bytes | None:
        """The prediction for a row, in JSON; None where it may take long, or where something else is asked for."""
        limits = self.folder.limits
        if len(body) > min(SINGLE, limits.body) or b"content-encoding" in headers:
            return None
        found = self._asked(scope)
        if found is None or found[1] != "predict":
            return None
        return self.predicting(found[2], rows_of_body(body, headers, limits))

    def _asked(self, scope: Any) -> tuple[str, str, Writer] | None:
        """The name of an open model, what is asked of it, and its writer; None where it is not of the usual form."""
        found = model_in(scope["path"]) if scope["method"] == "POST" and not scope["query_string"] else None
        writer = None if found is None else self.folder.opened(found[0])
        return None if found is None or writer is None else (*found, writer)
