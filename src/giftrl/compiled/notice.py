"""What a person who waits for the compiler is told."""

import sys
from collections.abc import Callable
from typing import Any

from giftrl.compiled.digest import with_parts

#: How long a loop takes to compile, in seconds, where it is longer than usual.
LONG = {"learn_mixture": 25, "learn_classes": 25}
USUAL = 4

#: Where the classes are that a person knows.
TOLD = ("giftrl.losses", "giftrl.regularizers", "giftrl.compiled.rows")

#: Whether to say that something is compiled: True, False, or None for where standard error is a terminal.
speaking: list[bool | None] = [None]


def say(text: str) -> None:
    """Print a line on standard error, if somebody is there to read it."""
    wanted = sys.stderr.isatty() if speaking[0] is None else speaking[0]
    if wanted:
        print(f"giftrl: {text}", file=sys.stderr, flush=True)


def describe(loop: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """What is compiled, for which members, and how long it takes.

    >>> from giftrl.losses import Logistic
    >>> describe(say, (Logistic(), 1.0))
    'compiling say for Logistic (about 4 s, once)'
    """
    # The parts that a person chose, and the form of the rows; not the buffers and states of the loop.
    told = [
        cls
        for cls in map(type, with_parts(args))
        if cls.__module__.startswith(TOLD) or not cls.__module__.startswith("giftrl.")
    ]
    kinds = f" for {', '.join(cls.__name__ for cls in told)}" if told else ""
    return f"compiling {loop.__name__}{kinds} (about {LONG.get(loop.__name__, USUAL)} s, once)"
