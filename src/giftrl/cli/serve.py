"""``giftrl serve``: models that learn over HTTP."""

from pathlib import Path
from typing import Any

import click

from giftrl.cli.options import quiet_option
from giftrl.errors import GiftrlError, require
from giftrl.files import uninterrupted


@click.command("serve")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at; others need tokens.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, envvar="GIFTRL_SERVE_PORT",
    help="The port to listen at; 0 for any that is free.",
)  # fmt: skip
@click.option(
    "--token-file", type=click.Path(dir_okay=False),
    help="A file with the lines: learn TOKEN, and: read TOKEN. Requests then need one of them.",
)  # fmt: skip
@click.option(
    "--follow", multiple=True, metavar="[NAME=]SOURCE",
    help="Learn from a growing file, a folder of arriving files, or - for standard input, as tail -F reads it: JSON "
    "lines, LIBSVM or VW text. May be repeated.",
)  # fmt: skip
@click.option(
    "--sync/--no-sync", default=True, show_default=True,
    help="Answer only when the disk has what was learned. --no-sync is faster, and loses it if the power fails.",
)  # fmt: skip
@click.option("--body", type=click.IntRange(1), metavar="BYTES", help="The most bytes of a request. Default: 8 MiB.")
@click.option("--rows", type=click.IntRange(1), metavar="N", help="The most rows of a request. Default: 20,000.")
@click.option(
    "--queue", type=click.IntRange(1), metavar="N",
    help="How many requests may wait for a model; more are answered with 429. Default: 256.",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(min=0.001), metavar="S",
    help="For how long a request may arrive, and wait for its answer. Default: 60.",
)  # fmt: skip
@click.option(
    "--remember", type=click.FloatRange(min=0.001), metavar="S",
    help="For how many seconds a prediction waits for its label. Default: a week.",
)  # fmt: skip
@click.option(
    "--log", type=click.IntRange(1), metavar="BYTES", help="Write a model file after so much. Default: 128 MiB."
)
@click.option(
    "--memory", type=click.IntRange(1), metavar="BYTES",
    help="Close the models that were not used for longest beyond this. Default: a quarter of the machine's.",
)  # fmt: skip
@click.option(
    "--end-after", type=click.FloatRange(min=0.0), metavar="S", envvar="GIFTRL_SERVE_SECONDS",
    help="End after so many seconds. Default: when a signal comes.",
)  # fmt: skip
@quiet_option("-q", "--quiet", help="Print nothing but errors.")
def serve_command(
    folder: Path, host: str, port: int, token_file: str | None, follow: tuple[str, ...], end_after: float | None,
    quiet: bool, **limits: Any,
) -> None:  # fmt: skip
    """Serve the models in DIR: they learn and predict over HTTP, and nothing acknowledged is lost.

    \b
    Try it:
      giftrl serve models

    \b
    Then, from another terminal:
      curl -X PUT localhost:8000/models/churn
      curl localhost:8000/models/churn/learn -d '{"label": "yes", "age": 33, "city": "Rome"}'
      curl localhost:8000/models/churn/learn -d '{"label": "no", "age": 8, "city": "Oslo"}'
      curl localhost:8000/models/churn/predict -d '{"age": 30, "city": "Rome"}'

    The page at http://localhost:8000/ shows what the models do. A request to learn is answered when the disk has its
    rows. After a crash, the service goes on from the last acknowledged request. Ctrl-C and SIGTERM
    let waiting requests finish; the exit status is then 0.
    """
    from giftrl.service.request_limits import Limits, Tokens, read_tokens

    try:
        with uninterrupted():  # Python 3.11 makes an error of the exception of a signal while a class is made
            from giftrl.service.follow import followable
            from giftrl.service.server import serve
    except ModuleNotFoundError as missing:
        raise GiftrlError("the service needs uvicorn and httptools; pip install 'giftrl[serve]'") from missing
    followed = followable(follow)
    tokens = Tokens() if token_file is None else read_tokens(token_file)
    local = host in ("127.0.0.1", "::1", "localhost")
    remedy = "add --token-file FILE, or listen at 127.0.0.1"
    require(local or tokens.needed, "host", host, "can be reached from other machines, so it needs tokens", remedy)
    given = Limits(**{name: value for name, value in limits.items() if value is not None})

    def tell(line: str) -> None:
        if not quiet:
            click.echo(line, err=True)

    serve(folder, given, tokens, host, port, end_after=end_after, follow=followed, tell=tell)
