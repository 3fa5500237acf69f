"""The command line, ``giftrl``. Each command has its own file, which is imported when the command is called."""

import atexit
import gc
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line. Ctrl-C ends it quietly, while it is being imported too."""
    # Nothing here is worth a second thread of linear algebra: threads would only wait for each other, and the last bits
    # of sums would depend on the number of processors. It must be said before NumPy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    atexit.register(gc.freeze)  # what is left goes with the process: no need to look for cycles in it once more
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
