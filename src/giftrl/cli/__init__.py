"""The command line, ``giftrl``. Each command has its own file, which is imported when the command is called."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line. Ctrl-C ends it quietly, while it is being imported too."""
    try:
        from giftrl.cli.main import main as run
        from giftrl.cli.terminal import take_signals, take_streams
        from giftrl.compiled import notice

        notice.speaking[0] = "--quiet" not in sys.argv
        take_streams()
        take_signals()
        run(prog_name="giftrl")
    except KeyboardInterrupt:
        sys.exit(130)
