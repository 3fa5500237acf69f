"""Limits of a service, and the tokens of those who may use it."""

import hmac
import os
from pathlib import Path
from typing import NamedTuple

from giftrl.errors import InvalidInput, Refused, require
from giftrl.ops import validated
from giftrl.system import physical_memory

#: What a token allows.
LEARN, READ = "learn", "read"
#: The fewest characters of a token.
MIN_TOKEN_LENGTH = 16


@validated
class Limits(NamedTuple):
    """The limits of a service. A request beyond one is refused, with an answer that names the limit.

    Args:
        body: bytes of a request.
        rows: rows of a request.
        queue: requests that wait for one model; further ones are answered with 429.
        seconds: for a request to arrive, and then to be answered.
        remember: seconds for which a prediction waits for its label.
        remembered: predictions of one model that wait for their labels.
        keys: seconds for which the answer of an idempotency key is kept.
        log: bytes of the log of examples after which a model file is written.
        memory: bytes of open models; beyond it, the least recently used ones are closed.
        models: models in the folder.
        bits: of hashed names.
        sync: whether an answer waits until the examples are on disk.

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


class Tokens(NamedTuple):
    """The token for learning, which also allows reading, and the one for reading; without tokens all is allowed.

    >>> tokens = Tokens("0123456789abcdef", "fedcba9876543210")
    >>> tokens.allow("Bearer fedcba9876543210", READ), tokens.allow("Bearer fedcba9876543210", LEARN)
    (True, False)
    """

    learn: str | None = None
    read: str | None = None

    @property
    def needed(self) -> bool:
        """True if requests need a token."""
        return self.learn is not None or self.read is not None

    def allow(self, header: str, need: str) -> bool:
        """Return True if an Authorization header allows what a request needs; any wrong token takes the same time."""
        if not self.needed:
            return True
        kind, _, given = header.partition(" ")
        learns, reads = _equal(given, self.learn), _equal(given, self.read)  # both are always compared
        return kind.lower() == "bearer" and (learns or (reads and need == READ))

    def require(self, header: str, need: str) -> None:
        """Refuse a request that is not allowed; one that needs no token has an empty ``need``."""
        if need and not self.allow(header, need):
            status = 403 if self.allow(header, READ) else 401
            raise Refused(status, f"this needs the token for {need}ing", "send it as Authorization: Bearer TOKEN")


def _equal(given: str, token: str | None) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), (token or "").encode()) and token is not None


def read_tokens(path: str | os.PathLike[str]) -> Tokens:
    """Read tokens from a file with lines such as ``learn TOKEN`` and ``read TOKEN``.

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
    tokens: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        place = f"{path}:{number}"
        known = len(words) == 2 and words[0] in (LEARN, READ) and words[0] not in tokens
        require(known, "token-file", place, "is not learn or read, and a token, each once", form)
        kind, token = words
        rule = f"must have tokens of at least {MIN_TOKEN_LENGTH} printable ASCII characters"
        sound = len(token) >= MIN_TOKEN_LENGTH and token.isascii() and token.isprintable()
        require(sound, "token-file", place, rule, "try: openssl rand -hex 32")
        tokens[kind] = token
    require(LEARN in tokens, "token-file", str(path), "has no token for learning", form)
    different = tokens[LEARN] != tokens.get(READ)
    require(different, "token-file", str(path), "has one token for both", "use two different ones")
    return Tokens(tokens[LEARN], tokens.get(READ))
