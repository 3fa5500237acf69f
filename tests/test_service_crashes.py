"""The real service, killed at random moments under load: nothing acknowledged is lost, nothing is learnt twice."""

import json
import random
import signal
import threading
import time

import httpx
import pytest

from tests.serving import QUICK, at_once, process, quick_settings, rows, trained, until

CLIENTS = 4


class Load:
    """A client that sends rows one after the other, each with its own key, and repeats those without an answer."""

    def __init__(self, number):
        self.number, self.sent = number, 0
        self.answers = {}  # by key: the row, and what was answered
        self.pending = None

    def run(self, address, enough):
        with httpx.Client(base_url=address, timeout=20.0) as client:
            while not enough.is_set():
                if self.pending is None:
                    line = json.dumps({
                        "label": self.sent % 2, "who": str(self.number), "n": self.sent % 7, "x": self.sent / 8
                    })  # fmt: skip
                    self.pending = f"{self.number}-{self.sent}", line.encode() + b"\n"
                    self.sent += 1
                key, line = self.pending
                try:
                    said = client.post("/models/m/learn", content=line, headers={"Idempotency-Key": key})
                except httpx.HTTPError:
                    return
                if said.status_code in (429, 503):
                    time.sleep(0.01)
                    continue
                assert said.status_code == 200, said.text
                self.answers[key] = line, said.content
                self.pending = None


def check(address, loads, tmp_path):
    """Assert that the service has exactly what it has acknowledged, and what was sent and not acknowledged at most."""
    with httpx.Client(base_url=address, timeout=60.0) as client:
        for load in loads:  # what was not answered is sent again: now it is learnt, whether it was before or not
            if load.pending is not None:
                key, line = load.pending
                said = client.post("/models/m/learn", content=line, headers={"Idempotency-Key": key})
                assert said.status_code == 200, said.text
                load.answers[key] = line, said.content
                load.pending = None
            if load.answers:
                key, (line, before) = random.choice(list(load.answers.items()))
                again = client.post("/models/m/learn", content=line, headers={"Idempotency-Key": key})
                assert again.content == before
        every = [each for load in loads for each in load.answers.values()]
        ordered = sorted((json.loads(said)["examples"], line) for line, said in every)
        assert [number for number, _ in ordered] == list(range(1, len(every) + 1)), "lost or doubled"
        file = client.get("/models/m/file").content
    assert file == trained(tmp_path, [line for _, line in ordered], quick_settings())
    return len(every)


def campaign(tmp_path, kills, seed):
    chosen = random.Random(seed)
    loads = [Load(k) for k in range(CLIENTS)]
    count = 0
    for kill in range(kills + 1):
        # Small logs make model files often, so that a kill comes while one is written, too.
        with process(tmp_path / "models", "--log", chosen.choice([500, 5_000, 10**7])) as (running, address):
            with httpx.Client(base_url=address, timeout=60.0) as client:
                client.put("/models/m", json=QUICK).raise_for_status()
            if kill % 10 == 1 or kill == kills:
                count = check(address, loads, tmp_path)
            if kill == kills:
                return count
            enough = threading.Event()
            threads = [threading.Thread(target=load.run, args=(address, enough)) for load in loads]
            before = sum(len(load.answers) for load in loads)
            for each in threads:
                each.start()
            if kill % 2:  # others may come before the first answer
                until(lambda: sum(len(load.answers) for load in loads) > before + 5)  # noqa: B023
            time.sleep(chosen.random() * 0.6)
            running.send_signal(signal.SIGKILL)
            running.wait()
            enough.set()
            for each in threads:
                each.join()
    return count


@pytest.mark.plain
def test_a_few_kills_lose_nothing_and_double_nothing(tmp_path):
    assert campaign(tmp_path, 4, seed=1) > 10


@pytest.mark.verify
@pytest.mark.parametrize("part", range(8))
def test_two_hundred_kills_lose_nothing_and_double_nothing(part, tmp_path):
    assert campaign(tmp_path, 25, seed=100 + part) > 10


@pytest.mark.plain
def test_ending_in_order_answers_what_waits(tmp_path):
    with process(tmp_path / "models") as (running, address):
        with httpx.Client(base_url=address, timeout=60.0) as client:
            client.put("/models/m", json=QUICK).raise_for_status()
            client.post("/models/m/learn", content=rows(1)[0]).raise_for_status()
            threading.Timer(0.3, running.send_signal, [signal.SIGTERM]).start()
            data = b"".join(rows(200))
            statuses = at_once(lambda _: client.post("/models/m/learn", content=data).status_code, range(6))
        said = running.stderr.read()
        running.wait(30)
    assert statuses == [200] * 6 and "ended" in said
    with process(tmp_path / "models") as (_, address), httpx.Client(base_url=address, timeout=60.0) as client:
        assert client.get("/models/m").json()["examples"] == 1201
