"""The command ``giftrl`` and the list of its subcommands."""

import errno
import importlib
import sys
from typing import Any

import click

from giftrl import system
from giftrl.cli.messages import OptionNames
from giftrl.cli.terminal import drop_output, settle_output
from giftrl.errors import GiftrlError

#: Commands by purpose, with their help lines.
GROUPS = {
    "Start here": {"demo": "Show what giftrl does, on one page, or write a small data set to try it on."},
    "Learn": {
        "train": "Learn a linear model from a stream.",
        "predict": "Predict with a model.",
        "serve": "Let models learn and predict over HTTP.",
    },
    "Look": {
        "inspect": "Show a model's settings, weights and certificate.",
        "certify": "Prove how far a model is from the best linear model of its size.",
    },
    "The paper": {
        "reproduce": "Make the paper's figures and compare them with the published ones.",
        "sweep": "Run every beta and update over a data set, and draw the losses.",
        "datasets": "Download the paper's data sets and verify them.",
    },
    "Upkeep": {
        "convert": "Write data as Arrow IPC, so that training need not parse it.",
        "warmup": "Compile the usual loops now, so that later commands start at once.",
    },
}
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
#: The modules of commands that share one; others have a module of their own name.
SHARED_MODULES = {
    "reproduce": "research", "sweep": "research", "datasets": "research", "convert": "upkeep", "warmup": "upkeep",
}  # fmt: skip


def command_of(name: str) -> click.Command:
    """A command by its name."""
    module = importlib.import_module(f"giftrl.cli.{SHARED_MODULES.get(name, name)}")
    command: click.Command = getattr(module, f"{name}_command")
    return command


class Commands(click.Group):
    """A group that imports commands on demand, and suggests the nearest name for an unknown command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_of(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib  # imported only for an unknown name

            near = difflib.get_close_matches(args[0], COMMANDS, n=1, cutoff=0.4)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint} Commands: {', '.join(COMMANDS)}.")
        ctx.meta["giftrl.arguments"] = tuple(args)  # the typed arguments, for reports
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), line) for name, line in group.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; errors are printed as a one-line message without traceback."""
        try:
            answer = super().invoke(ctx)
            settle_output()
            return answer
        except GiftrlError as problem:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            message, status = str(problem) if command is None else OptionNames(command).message(problem), 1
        except OSError as problem:
            if system.nobody_reads(problem):
                raise BrokenPipeError(errno.EPIPE, "nobody reads on") from None
            drop_output()
            place = problem.filename or "standard output"
            message, status = f"{place}: cannot be used ({problem.strerror}); check the file and its disk", 1
        except MemoryError:
            message, status = "there is not enough memory; try fewer --bits, or a smaller part of the data", 1
        except KeyboardInterrupt:
            message, status = "interrupted", 130
        except SystemExit as end:
            if end.code != 130:
                raise
            message, status = "interrupted", 130
        click.echo(f"giftrl: {message}", err=True)
        sys.exit(status)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Shell completion: eval "$(_GIFTRL_COMPLETE=bash_source giftrl)" (or zsh_source, fish_source).',
)
@click.version_option(package_name="giftrl", prog_name="giftrl")
def main() -> None:
    """Online learning that needs no tuning and proves how well it did.

    \b
    Try it:
      giftrl demo churn
      giftrl train churn.csv --label churned --ignore customer_id --model churn.giftrl
    """
