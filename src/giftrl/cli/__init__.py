"""The command line, ``giftrl``.

:mod:`giftrl.cli.commands` has the list of commands, whose modules are imported when they are called, and turns errors
into messages (:mod:`giftrl.cli.messages`). :mod:`giftrl.cli.options` has options that commands share, and
:mod:`giftrl.cli.terminal` streams, signals, progress bars and tables.
"""

import atexit
import gc
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line. Ctrl-C ends it quietly, even during imports."""
    # One BLAS thread: more are not faster here, and results would depend on the number of processors. NumPy reads this
    # variable on import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    atexit.register(gc.freeze)  # skip garbage collection at exit
    try:
        from giftrl.cli.commands import main as run
        from giftrl.cli.terminal import take_signals, take_streams
        from giftrl.compiled import compiler

        compiler.speaking[0] = True
        take_streams()
        take_signals()
        run(prog_name="giftrl")
    except KeyboardInterrupt:
        sys.exit(130)
