"""What tutorials use when the site is built: a picture of a run, and a service in the background."""

import atexit
import base64
import html
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The folder that tutorials run in.
FOLDER = ROOT / "out" / "tutorials"

#: What every shell of a tutorial reads first: an error ends it, and compiling is not mentioned.
SHELL = """set -e
giftrl() {
    command giftrl "$@" 2>&1 | { grep -v '^giftrl: compiling' || true; }
    return "${PIPESTATUS[0]}"
}
"""


def prepare() -> None:
    """An empty folder for the tutorials, and what their shells begin with."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    (FOLDER / ".shell").write_text(SHELL)
    os.environ["BASH_ENV"] = str(FOLDER / ".shell")
    # Proofs of small problems end long before that; the time they take must not change what is printed.
    os.environ["GIFTRL_CERTIFICATE_SECONDS"] = "60"


def inline(path: str, what: str) -> str:
    """A picture in SVG as a part of a page, described in words."""
    data = base64.b64encode(Path(path).read_bytes()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{html.escape(what)}" class="run">'


def serving(folder: str) -> str:
    """The address of a service that runs until the build ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = subprocess.Popen(["giftrl", "serve", folder, "--port", str(port)], stderr=subprocess.DEVNULL)
    atexit.register(service.terminate)
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/healthz", timeout=5).close()
            return address
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise TimeoutError("the service did not answer within a minute")
