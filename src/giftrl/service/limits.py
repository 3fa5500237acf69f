"""How much the service takes on: sizes, counts and times."""

import hmac
import os
from pathlib import Path
from typing import NamedTuple

from giftrl.errors import InvalidInput, Refused, require
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


# Who may do what: tokens in a file, one for learning and one for reading.

LEARN, READ = "learn", "read"
#: The fewest characters of a token.
SHORTEST = 16


class Tokens(NamedTuple):
    """The token for learning, which also reads, and the one for reading; none where anybody may.

    >>> tokens = Tokens("0123456789abcdef", "fedcba9876543210")
    >>> tokens.allow("Bearer fedcba9876543210", READ), tokens.allow("Bearer fedcba9876543210", LEARN)
    (True, False)
    """

    learn: str | None = None
    read: str | None = None

    @property
    def needed(self) -> bool:
        """Whether a request needs a token."""
        return self.learn is not None or self.read is not None

    def allow(self, header: str, need: str) -> bool:
        """Whether the Authorization header of a request allows what it needs; takes as long for any wrong token."""
        if not self.needed:
            return True
        kind, _, given = header.partition(" ")
        # Both are compared, whichever is right.
        learns = _equal(given, self.learn)
        reads = _equal(given, self.read)
        return kind.lower() == "bearer" and (learns or (reads and need == READ))

    def require(self, header: str, need: str) -> None:
        """Refuse a request that is not allowed."""
        if not self.allow(header, need):
            status = 403 if self.allow(header, READ) else 401
            raise Refused(status, f"this needs the token for {need}ing", "send it as Authorization: Bearer TOKEN")


def _equal(given: str, token: str | None) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), (token or "").encode()) and token is not None


def read_tokens(path: str | os.PathLike[str]) -> Tokens:
    """The tokens in a file with lines such as ``learn TOKEN`` and ``read TOKEN``.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     _ = file.write("learn 0123456789abcdef\\n")
    ...     file.flush()
    ...     read_tokens(file.name).read is None
    True
    """
    form = "write lines such as: learn TOKEN"
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput("token-file", str(path), f"cannot be read ({type(problem).__name__})", form) from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        good = len(words) == 2 and words[0] in (LEARN, READ) and words[0] not in found
        require(good, "token-file", f"{path}:{number}", "is not learn or read, and a token, each once", form)
        rule = f"must have tokens of at least {SHORTEST} printable ASCII characters"
        sound = len(words[1]) >= SHORTEST and words[1].isascii() and words[1].isprintable()
        require(sound, "token-file", f"{path}:{number}", rule, "try: openssl rand -hex 32")
        found[words[0]] = words[1]
    require(LEARN in found, "token-file", str(path), "has no token for learning", form)
    require(
        found[LEARN] != found.get(READ), "token-file", str(path), "has one token for both", "use two different ones"
    )
    return Tokens(found[LEARN], found.get(READ))
