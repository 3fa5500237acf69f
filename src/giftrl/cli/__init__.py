"""The command line: ``giftrl``. One command, one file; a command's file is imported when it is called."""

from giftrl.cli.main import main

__all__ = ["main"]
