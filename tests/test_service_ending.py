"""SIGTERM and Ctrl-C end the service in order, however often they come."""

import signal
import subprocess
import sys
import time

import httpx
import pytest

from tests.commands import environment
from tests.serving import QUICK, process, rows

pytestmark = pytest.mark.plain


def ended(running):
    said = running.stderr.read()
    return running.wait(60), said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_service_with_success(number, tmp_path):
    with process(tmp_path / "models") as (running, address):
        httpx.put(f"{address}/models/m", json=QUICK).raise_for_status()
        running.send_signal(number)
        assert ended(running) == (0, "every model is on the disk; the service has ended\n")


@pytest.mark.parametrize("numbers", [(signal.SIGINT,) * 2, (signal.SIGTERM, signal.SIGINT), (signal.SIGINT,) * 20])
@pytest.mark.parametrize("pause", [0.0, 0.01, 0.1, 0.2])
def test_signals_that_follow_each_other_end_it_as_one_does(numbers, pause, tmp_path):
    with process(tmp_path / "models") as (running, address), httpx.Client(base_url=address, timeout=60) as client:
        client.put("/models/m", json=QUICK).raise_for_status()
        client.post("/models/m/learn", content=b"".join(rows(50))).raise_for_status()
        with client.stream("GET", "/models/m/events") as page:  # which is still being answered
            next(page.iter_lines())
            for each in numbers:
                if running.poll() is None:
                    running.send_signal(each)
                time.sleep(pause)
            status, said = ended(running)
    assert status == 0 and said == "every model is on the disk; the service has ended\n"
    with process(tmp_path / "models") as (_, address):
        assert httpx.get(f"{address}/models/m", timeout=60).json()["examples"] == 50


#: What sends a signal to its own process, at a moment while the service starts: as a class is made, and as the
#: folder is opened.
MOMENTS = {
    "import": """
import functools
earlier = functools.cached_property.__set_name__
def stop(self, owner, name):
    if owner.__name__ == "Settings":
        os.kill(os.getpid(), NUMBER)
    return earlier(self, owner, name)
functools.cached_property.__set_name__ = stop
""",
    "folder": """
from giftrl.service.folder import Folder
earlier = Folder.__init__
def stop(*given):
    os.kill(os.getpid(), NUMBER)
    earlier(*given)
Folder.__init__ = stop
""",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_while_the_service_starts_ends_it_quietly(number, moment, tmp_path):
    script = f"import os\n{MOMENTS[moment].replace('NUMBER', str(int(number)))}\nfrom giftrl.cli import main\nmain()"
    command = [sys.executable, "-c", script, "serve", tmp_path / "models", "--port", "0", "--end-after", "60"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=50)
    interrupted = "giftrl: interrupted\n" if number == signal.SIGINT else ""
    wanted = (128 + number, interrupted) if moment == "import" else (0, "")
    last = done.stderr if moment == "import" else done.stderr.partition("the service has ended\n")[2]
    assert (done.returncode, last) == wanted, done
    assert ("ended" in done.stderr) == (moment == "folder")
