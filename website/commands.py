"""The commands and their options, from click."""

import inspect
import re

import click

from giftrl.cli.commands import GROUPS, main


def _text(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")


def _paragraphs(help_text: str) -> list[str]:
    shown = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(help_text)):
        lines = part.splitlines()
        if lines[0].strip() == "\b":  # click leaves the lines of such a paragraph as they are
            title, *rest = (line.strip() for line in lines[1:])
            verbatim = [title, *rest] if not title.endswith(":") else rest
            lead = f"{title}\n\n" if title.endswith(":") else ""
            shown.append(lead + "```sh\n" + "\n".join(verbatim) + "\n```")
        else:
            shown.append(_text(part))
    return shown


def _option(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    metavar = "" if option.is_flag or option.count else f" `{option.make_metavar(context)}`"
    _, words = option.get_help_record(context) or ("", option.help or "")
    return f"| {names}{_text(metavar)} | {_text(words)} |"


def _command(name: str, context: click.Context) -> str:
    command = main.get_command(context, name)
    assert command is not None
    inner = click.Context(command, context, info_name=name)
    usage = " ".join([f"giftrl {name}", *command.collect_usage_pieces(inner)])
    parts = [f"## giftrl {name}", f"```text\n{usage}\n```", *_paragraphs(command.help or "")]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        rows = [_option(each, inner) for each in options]
        parts.append("\n".join(["| option | |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def commands() -> str:
    """Every command in Markdown: how it is called, its help, its options.

    >>> "## giftrl train" in commands() and "`--checkpoint-every`" in commands()
    True
    """
    context = click.Context(main, info_name="giftrl")
    table = [
        f"| {title} | [`giftrl {name}`](#giftrl-{name}) | {_text(line)} |"
        for title, group in GROUPS.items()
        for name, line in group.items()
    ]
    listed = [_command(name, context) for group in GROUPS.values() for name in group]
    return "\n\n".join(["\n".join(["| for | command | |", "|---|---|---|", *table]), *listed])
