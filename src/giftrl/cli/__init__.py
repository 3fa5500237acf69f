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
    """Run the command line. Ctrl-C ends it quietly, while it is being imported too."""
    # A second thread of linear algebra would not pay here, and the last bits of sums would depend on the number of
    # processors. NumPy reads this variable when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    atexit.register(gc.freeze)  # no need to look for cycles at the end of the process
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
