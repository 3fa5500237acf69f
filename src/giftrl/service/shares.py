"""What each request has of rows that were read together, and what becomes of it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import InvalidInput, Refused
from giftrl.service.bodies import Entry
from giftrl.streams.batch import Batch, Rejected

#: How many rows that cannot be used an answer lists.
LISTED = 20


class Share(NamedTuple):
    """What one entry has of a reading: the rows in order, True for those that can be used, and why others cannot."""

    used: NDArray[np.bool_]
    rejected: list[Rejected]


#: The share of an entry of one row, which can be used.
ONE = Share(np.ones(1, bool), [])


class Answer(NamedTuple):
    """What became of an entry: a prediction for each row, None where there is none, and the rows left out."""

    predictions: list[Any]
    rejected: list[Rejected]
    examples: int  # that the model has learnt, with these


def shares_of(batches: list[Batch], ends: list[int]) -> list[Share]:
    """The part of each entry in the batches of a source, by the lines at which the entries end."""
    rejected = [each for batch in batches for each in batch.rejected]
    if len(ends) == 1 and not rejected:
        return [Share(np.ones(sum(map(len, batches)), bool), [])]
    good = np.concatenate([np.empty(0, np.int64), *(batch.lines for batch in batches)])
    lines = np.concatenate([good, np.array([each.line for each in rejected], np.int64)])
    order = np.argsort(lines, kind="stable")
    used = (np.arange(len(lines)) < len(good))[order]
    cuts = [len(lines)] if len(ends) == 1 else np.searchsorted(lines[order], ends, side="right").tolist()
    shares = []
    for k, (begin, end) in enumerate(zip([0, *cuts], cuts, strict=False)):
        first = 0 if k == 0 else ends[k - 1]
        last = ends[k] if len(ends) > 1 else None
        mine = [each for each in rejected if each.line > first and (last is None or each.line <= last)]
        shares.append(Share(used[begin:end], [each._replace(line=each.line - first) for each in mine]))
    return shares


def require_usable(entry: Entry, share: Share) -> None:
    """Refuse an entry that has rows which cannot be used, unless these are to be left out; or that has no rows."""
    if not len(share.used):
        raise Refused(422, "the body has no row", 'send a row, such as {"label": 1, "age": 33}')
    if share.rejected and not entry.skip:
        count = len(share.rejected)
        words = f"{count} of {len(share.used)} rows cannot be used, so none is learnt or predicted"
        raise Refused(422, words, "mend them, or send them with ?on_error=skip", rows=described(share.rejected))


def described(rejected: Sequence[Rejected]) -> list[dict[str, Any]]:
    """Rows that cannot be used, as answers list them."""
    return [
        {"row": each.line, "column": each.column, "problem": each.problem, "expected": plain(each.expected)}
        for each in rejected[:LISTED]
    ]


def as_refused(problem: BaseException) -> Refused:
    """An error as an answer to a request."""
    if isinstance(problem, Refused):
        return problem
    if isinstance(problem, MemoryError):
        return Refused(413, "the rows do not fit in memory", "send fewer at a time")
    if isinstance(problem, InvalidInput):
        return Refused(422, plain(f"{problem.rule}"), plain(problem.remedy))
    return Refused(422, plain(str(problem)), "change the rows or the settings")


def plain(words: str) -> str:
    """A message of the command line for those who have no command line."""
    for option, ours in (("--on-error skip", "?on_error=skip"), ("--labels", "labels"), ("--loss ", "loss ")):
        words = words.replace(option, ours)
    return words
