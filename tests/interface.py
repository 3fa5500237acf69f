"""What users can name: public names, parameters, commands and their options, HTTP requests and formats.

``python -m tests.interface FILE`` writes the present interface as JSON. ``tests/data/interface.json`` has that of the
version from which the present architecture was made.
"""

import importlib
import inspect
import json
import sys
from pathlib import Path

import click

from giftrl.cli.commands import COMMANDS, Commands
from giftrl.service.http import openapi
from giftrl.streams import FORMATS
from website import names

RECORD = Path(__file__).parent / "data" / "interface.json"


def attributes(thing):
    return sorted(name for name in dir(thing) if not name.startswith("_"))


def parameters(thing):
    try:
        return list(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return []


def options(command):
    with click.Context(Commands("giftrl"), info_name="giftrl") as context:
        parameters = context.command.get_command(context, command).params
    return sorted(
        name
        for each in parameters
        for name in ([*each.opts, *each.secondary_opts] if isinstance(each, click.Option) else [each.name.upper()])
    )


def measure():
    """Lists of names, by what has them."""
    requests = [f"{m.upper()} {path}" for path, each in openapi()["paths"].items() for m in each if m != "parameters"]
    found = {"formats": sorted(FORMATS), "requests": sorted(requests), "commands": sorted(COMMANDS)}
    found |= {f"options of {command}": options(command) for command in COMMANDS}
    for name in names.names():
        thing = getattr(importlib.import_module(name.module), name.name)
        found.setdefault(f"names of {name.module}", []).append(name.name)
        if inspect.isclass(thing) and not issubclass(thing, (tuple, BaseException)):
            found[f"attributes of {name.path}"] = attributes(thing)
        if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, BaseException)):
            found[f"parameters of {name.path}"] = parameters(thing)
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(measure(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
