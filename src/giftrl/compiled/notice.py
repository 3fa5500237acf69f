"""What a person who waits for the compiler is told."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

#: How long a loop takes to compile, in seconds, where it is longer than usual.
LONG = {"learn_mixture": 15, "learn_classes": 20}
USUAL = 4

#: Whether to say that something is compiled: True, False, or None for where standard error is a terminal.
speaking: list[bool | None] = [None]


@contextlib.contextmanager
def announce(loop: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[None]:
    """Say that a loop is being compiled, and for what.

    >>> from giftrl.losses import Logistic
    >>> describe(announce, (Logistic(), 1.0))
    'compiling announce for Logistic (about 4 s, once)'
    """
    wanted = sys.stderr.isatty() if speaking[0] is None else speaking[0]
    if wanted:
        print(f"giftrl: {describe(loop, args)}", file=sys.stderr, flush=True)
    yield


def describe(loop: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """What is compiled, for which members, and how long it takes."""
    members = [type(each).__name__ for each in args if isinstance(each, tuple) and type(each) is not tuple]
    kinds = f" for {', '.join(members)}" if members else ""
    return f"compiling {loop.__name__}{kinds} (about {LONG.get(loop.__name__, USUAL)} s, once)"
