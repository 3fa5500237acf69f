"""Limits and access tokens of a service."""

import hmac
import os
from pathlib import Path
from typing import NamedTuple

from giftrl.errors import InvalidInput, Refused, require
from giftrl.ops import validated
from giftrl.system import physical_memory

#: Permissions of a token.
LEARN, READ = "learn", "read"
#: The minimum length of a token.
MIN_TOKEN_LENGTH = 16


@validated
class Limits(NamedTuple):
    """The limits of a service. A request beyond one is refused, with an answer that names the limit."""

    body: int = 8 << 20  # bytes of a request
    rows: int = 20_000  # of a request
    queue: int = 256  # requests that wait for one model; further ones are answered with 429
    seconds: float = 60.0  # for a request to arrive, and then to be answered
    remember: float = 7 * 86_400.0  # seconds for which a prediction waits for its label
    remembered: int = 1_000_000  # predictions of one model that wait for their labels
    keys: float = 86_400.0  # seconds for which the answer of an idempotency key is kept
    log: int = 128 << 20  # bytes of the log of examples after which a model file is written
    memory: int = physical_memory() // 4  # bytes of open models; beyond it, the least recently used ones are closed
    models: int = 10_000  # in the folder
    bits: int = 24  # of hashed names
    sync: bool = True  # False to answer before the examples are on disk

    def validate(self) -> None:
        for name, value in self._asdict().items():
            require(value > 0 or name == "sync", name, value, "must be positive", "leave it out for the default")


class Tokens(NamedTuple):
    """The tokens for learning (includes reading) and for reading; without tokens, everything is allowed."""

    learn: str | None = None
    read: str | None = None

    @property
    def needed(self) -> bool:
        """True if requests need a token."""
        return self.learn is not None or self.read is not None

    def allow(self, header: str, need: str) -> bool:
        """Return True if an Authorization header has the needed permission; constant-time comparison."""
        kind, _, given = header.partition(" ")
        learns, reads = (  # always compare both
            hmac.compare_digest(given.encode("utf-8", "replace"), (token or "").encode()) and token is not None
            for token in self
        )
        return kind.lower() == "bearer" and (learns or (reads and need == READ))

    def require(self, header: str, need: str) -> None:
        """Refuse an unauthorised request; ``need`` is empty if no token is needed."""
        if need and not self.allow(header, need):
            status = 403 if self.allow(header, READ) else 401
            raise Refused(status, f"this needs the token for {need}ing", "send it as Authorization: Bearer TOKEN")


def read_tokens(path: str | os.PathLike[str]) -> Tokens:
    """Read tokens from a file with lines such as ``learn TOKEN`` and ``read TOKEN``."""
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
