"""Learning from files that grow, while the service runs."""

import random
import signal
import subprocess
import time

import httpx
import pytest

from giftrl.errors import InvalidInput
from giftrl.service.follow import parse
from tests.commands import GIFTRL, environment
from tests.serving import QUICK, process, quick_settings, rows, trained

pytestmark = pytest.mark.plain


def until(client, examples, name="m", seconds=60.0):
    end = time.monotonic() + seconds
    while (found := client.get(f"/models/{name}").json()["examples"]) != examples:
        assert found < examples and time.monotonic() < end, (found, examples)
        time.sleep(0.05)


def test_a_file_that_grows_and_is_replaced(tmp_path):
    lines, log = rows(60), tmp_path / "log.json"
    with process(tmp_path / "models", "--follow", f"m={log}") as (_, address), httpx.Client(base_url=address) as client:
        client.delete("/models/m?confirm=m")
        client.put("/models/m", json=QUICK).raise_for_status()
        log.write_bytes(b"".join(lines[:20]) + lines[20][:5])
        until(client, 20)
        with log.open("ab") as file:
            file.write(lines[20][5:])
        until(client, 21)
        with log.open("ab") as file:
            file.write(b"no row\n" + b"".join(lines[21:40]))
        until(client, 40)
        log.rename(tmp_path / "log.json.1")
        log.write_bytes(b"".join(lines[40:]))
        until(client, 60)
        wanted = trained(tmp_path, [*lines[:21], b"no row\n", *lines[21:]], quick_settings(), on_error="skip")
        assert client.get("/models/m/file").content == wanted


def test_kills_neither_skip_nor_repeat_rows_of_files_that_arrive(tmp_path):
    lines, inbox, chosen = rows(300), tmp_path / "inbox", random.Random(0)
    inbox.mkdir()
    with process(tmp_path / "models") as (_, address), httpx.Client(base_url=address) as client:
        client.put("/models/m", json=QUICK).raise_for_status()
    for k in range(6):
        part = tmp_path / "part"
        part.write_bytes(b"".join(lines[50 * k : 50 * k + 50]))
        part.rename(inbox / f"{k}.json")
        with process(tmp_path / "models", "--follow", f"m={inbox}") as (running, _):
            time.sleep(chosen.random() * 0.4)
            running.send_signal(signal.SIGKILL)
            running.wait()
    follow = "--follow", f"m={inbox}"
    with process(tmp_path / "models", *follow) as (_, address), httpx.Client(base_url=address, timeout=60) as client:
        until(client, 300)
        assert client.get("/models/m/file").content == trained(tmp_path, lines, quick_settings())


def test_standard_input(tmp_path):
    command = [GIFTRL, "serve", str(tmp_path / "models"), "--port", "0", "--follow", "m=-", "--end-after", "3"]
    done = subprocess.run(command, input=b"".join(rows(30)), env=environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    with process(tmp_path / "models") as (_, address), httpx.Client(base_url=address, timeout=60) as client:
        assert client.get("/models/m").json()["examples"] == 30


def test_a_source_without_a_name_for_its_model_is_an_error():
    with pytest.raises(InvalidInput, match="NAME=SOURCE"):
        parse("-")
