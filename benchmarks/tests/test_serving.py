"""The load of the benchmark of services reaches a service, and its rivals answer as it does."""

import httpx
import pytest
from starlette.applications import Starlette

from benchmarks.serving.__main__ import LEARN, PREDICT, bodies, grid, requests
from benchmarks.serving.load import load
from benchmarks.serving.rivals import River, VowpalWabbit, application
from giftrl.service.server import background

pytestmark = pytest.mark.plain


def test_every_request_of_a_load_is_answered(tmp_path):
    told, bare = bodies()
    with background(tmp_path) as address:
        httpx.put(f"{address}/models/m", json={"loss": "logistic", "labels": [0, 1], "beta": 1.0}).raise_for_status()
        port = int(address.rpartition(":")[2])
        found = load(port, [(requests(PREDICT, bare, 1), 2, 0.0), (requests(LEARN, told, 5), 2, 0.01)], 0.5)
        learnt = httpx.get(f"{address}/models/m").json()["examples"]
    assert [each.refused for each in found] == [0, 0]
    assert learnt == 5 * len(found[1].seconds) > 0
    assert len(grid({"both": {"giftrl": found}}).rows) == 2


@pytest.mark.parametrize("rival", [River, VowpalWabbit])
def test_rivals_learn(rival):
    async def send():
        transport = httpx.ASGITransport(Starlette(routes=application(rival()).routes))
        async with httpx.AsyncClient(transport=transport, base_url="http://rival") as client:
            told, bare = bodies()
            said = (await client.post(LEARN, content=b"".join(told[:1500]))).json()
            assert said["examples"] == 1500
            again = (await client.post(PREDICT, content=b"".join(bare[1500:]))).json()["predictions"]
            labels = [int(line[10:11]) for line in told[1500:]]
            assert sum(a == b for a, b in zip(again, labels, strict=True)) > 400

    import asyncio

    asyncio.run(send())
