"""The streams and signals of a command: closed, full, of a narrow encoding, interrupted."""

import json
import math
import os
import signal
import sys
from typing import IO, Any

from giftrl.errors import InvalidInput
from giftrl.files import ASKED, HELD


def take_streams() -> None:
    """Make the standard streams safe to use.

    A descriptor that was closed is opened on the null device: otherwise the next file that is opened would get it, and
    messages would end up in that file. What an encoding cannot say is escaped.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (for as long as the process lives)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def take_signals() -> None:
    """Have SIGTERM and Ctrl-C end the command at any moment in the same way, so that unfinished files are removed.

    Left to themselves, a KeyboardInterrupt while options are parsed would be an error of click, with the exit status 1.
    """

    def stop(number: int, frame: Any) -> None:
        ASKED.append(128 + number)
        # The exception may leave an object of a library half made, and the object's __del__ may fail on what is
        # missing: the interpreter would print that as a traceback.
        sys.unraisablehook = lambda _: None
        if not HELD:
            raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as for a command in the background of a script
            signal.signal(number, stop)


def standard_output() -> IO[bytes]:
    """Standard output, for what a command was called for."""
    if sys.stdout is None:
        raise InvalidInput("output", "-", "standard output is closed", "leave it open, or give a file")
    sys.stdout.flush()
    return sys.stdout.buffer


def shares_terminal(output: str | None) -> bool:
    """Whether an output, None for standard output, is on the terminal: a progress bar would be in its way."""
    return output is None and sys.stdout is not None and sys.stdout.isatty()


def settle_output() -> None:
    """Write what standard output still holds, and raise an error if that fails, for instance on a full disk."""
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_output() -> None:
    """Give up what standard output still holds: the interpreter would try once more when it ends, and complain."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_text(value: Any) -> str:
    """A value as JSON, with null for numbers that are not finite, which JSON has not.

    >>> json_text({"a": float("inf")})
    '{\\n  "a": null\\n}'
    """
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
