"""The command line, ``giftrl``. Each command has its own file, which is imported when the command is called."""

from giftrl.cli.main import main

__all__ = ["main"]
