"""Requests of the usual form, to predict and to learn, straight from the protocol.

A router that tries its routes, and objects for requests and answers, take time of their own. Requests that need nothing
of them go this way: those to an open model, without options. All others go to the router, where the
same functions answer them.
"""

import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any

from giftrl.service.bodies import Entry
from giftrl.service.folder import Folder
from giftrl.service.requests import Headers, body_of, key_in, rows_of_body
from giftrl.service.writer import Writer

PATH = re.compile(r"/models/([^/]+)/(predict|learn)")


@functools.lru_cache(256)
def model_in(path: str) -> tuple[str, str] | None:
    """The name of the model, and what is asked of it, in a usual path; None in any other."""
    found = PATH.fullmatch(path)
    return None if found is None else (found[1], found[2])


#: What answers a request to an open model: its name, its writer, its rows and its idempotency key.
Answering = Callable[[str, Writer, Entry, str | None], Awaitable[bytes]]


class Direct:
    """The short way for the usual requests.

    Args:
        folder: of the models.
        answering: by the last word of the path, what answers.
    """

    def __init__(self, folder: Folder, answering: dict[str, Answering]) -> None:
        self.folder, self.answering = folder, answering

    async def answer(self, scope: Any, headers: Headers, receive: Any) -> bytes | None:
        """The answer to a request, in JSON; None where it is not of the usual form, and nothing of it has been read."""
        if scope["method"] != "POST" or scope["query_string"]:
            return None
        found = model_in(scope["path"])
        writer = None if found is None else self.folder.opened(found[0])
        if found is None or writer is None:
            return None
        name, what = found
        scope.setdefault("state", {})["endpoint"] = what
        data = await body_of(headers, receive, self.folder.limits)
        entry = rows_of_body(data, headers, self.folder.limits)
        return await self.answering[what](name, writer, entry, key_in(headers))
